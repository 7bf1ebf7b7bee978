//! Damaged records of a container whose directory goes: moved out of it first, for they are never deleted.

use std::ffi::OsStr;
use std::io;
use std::path::Path;

use longshore_sandbox::dirs;
use nix::fcntl::{AT_FDCWD, renameat};

use crate::record;

/// The directory in the agent's run directory that they are moved to.
pub const SET_ASIDE: &str = "set-aside";

/// Moves what was set aside in the directory `name` of `containers`, as `<name>.<file>`.
///
/// # Errors
/// The first that cannot be moved; it is where it was.
pub(super) fn rescue(containers: &Path, name: &OsStr) -> io::Result<()> {
    let dir = containers.join(name);
    for from in [dir.clone(), dir.join(record::RUN)] {
        let found = longshore_checkpoint::set_aside_in(&from).map_err(io::Error::other)?;
        for path in found {
            let (Some(run_dir), Some(file)) = (containers.parent(), path.file_name()) else {
                continue;
            };
            let (kept, _) = dirs::ensure_at(dirs::open(run_dir)?, SET_ASIDE, 0o700)?;
            let mut target = name.to_owned();
            target.push(".");
            target.push(file);
            renameat(AT_FDCWD, &path, &kept, target.as_os_str())?;
            tracing::warn!(from = %path.display(), name = %target.display(), "a damaged record is kept in {SET_ASIDE}/");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_set_aside_stays_when_its_directory_goes() {
        let root = tempfile::tempdir().unwrap();
        let containers = root.path().join("containers");
        let run = containers.join("c@1").join(record::RUN);
        std::fs::create_dir_all(&run).unwrap();
        std::fs::write(run.join("exit.corrupt-1"), "exit").unwrap();
        std::fs::write(run.join("exit"), "good").unwrap();
        std::fs::write(containers.join("c@1/container.corrupt-2"), "container").unwrap();
        rescue(&containers, OsStr::new("c@1")).unwrap();
        let kept = |name: &str| std::fs::read_to_string(root.path().join(SET_ASIDE).join(name));
        assert_eq!(kept("c@1.exit.corrupt-1").unwrap(), "exit");
        assert_eq!(kept("c@1.container.corrupt-2").unwrap(), "container");
        assert!(run.join("exit").exists());
        // Nothing of the kind, and nothing at all.
        rescue(&containers, OsStr::new("c@1")).unwrap();
        rescue(&containers, OsStr::new("c@2")).unwrap();
    }
}
