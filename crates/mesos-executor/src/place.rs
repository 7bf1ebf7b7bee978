//! Where an executor's records lie while it lives: not in the sandbox, which the task sees.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

/// A directory of this process alone; removed with this value.
#[derive(Debug)]
pub(crate) struct Place {
    path: PathBuf,
}

impl Place {
    /// Makes it below the runtime directory: `/run/longshore` for root, otherwise `$XDG_RUNTIME_DIR/longshore`, otherwise
    /// `/tmp/longshore-UID`; and removes those of executors that died.
    pub(crate) fn make() -> Result<Self, String> {
        let uid = nix::unistd::geteuid();
        let base = if uid.is_root() {
            PathBuf::from("/run/longshore")
        } else {
            match std::env::var_os("XDG_RUNTIME_DIR").filter(|value| !value.is_empty()) {
                Some(runtime) => PathBuf::from(runtime).join("longshore"),
                None => std::env::temp_dir().join(format!("longshore-{uid}")),
            }
        };
        Self::make_below(&base, uid.as_raw())
    }

    fn make_below(base: &Path, uid: u32) -> Result<Self, String> {
        let all = base.join("executors");
        own_directory(base, uid, 0o711)?;
        own_directory(&all, uid, 0o700)?;
        forget_the_dead(&all);
        let path = all.join(std::process::id().to_string());
        // That of a process of another day with our pid.
        let _absent = fs::remove_dir_all(&path);
        own_directory(&path, uid, 0o700)?;
        Ok(Self { path })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // The next executor does it otherwise.
        let _left = fs::remove_dir_all(&self.path);
    }
}

/// Makes a directory, or finds it to be ours and nobody else's to write to.
fn own_directory(path: &Path, uid: u32, mode: u32) -> Result<(), String> {
    let made = fs::DirBuilder::new().mode(mode).create(path);
    let failed = |error| format!("cannot make the directory {}: {error}", path.display());
    match made {
        Ok(()) => return Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(error)),
    }
    let found = fs::symlink_metadata(path).map_err(failed)?;
    if found.is_dir() && found.uid() == uid && found.mode() & 0o022 == 0 {
        Ok(())
    } else {
        Err(format!(
            "{} is no directory that only uid {uid} can write to: remove it",
            path.display()
        ))
    }
}

fn forget_the_dead(all: &Path) {
    let Ok(entries) = fs::read_dir(all) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid = name.to_str().and_then(|name| name.parse::<i32>().ok());
        if let Some(pid) = pid
            && !Path::new(&format!("/proc/{pid}")).exists()
        {
            // Another executor does it at the same time.
            let _left = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn it_is_ours_alone_and_goes_with_its_value_and_those_of_the_dead_before_it() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("run");
        let uid = nix::unistd::geteuid().as_raw();
        let dead = base.join("executors/2147483647");
        let living = base.join("executors/1");
        let place = Place::make_below(&base, uid).unwrap();
        let mode = fs::metadata(place.path()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
        fs::create_dir(&dead).unwrap();
        fs::create_dir(&living).unwrap();
        let path = place.path().to_owned();
        fs::write(path.join("record"), "x").unwrap();
        drop(place);
        assert!(!path.exists());
        let _again = Place::make_below(&base, uid).unwrap();
        assert!(!dead.exists() && living.exists());
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().join("run");
        fs::create_dir(&base).unwrap();
        fs::set_permissions(&base, fs::Permissions::from_mode(0o777)).unwrap();
        let uid = nix::unistd::geteuid().as_raw();
        let error = Place::make_below(&base, uid).unwrap_err();
        assert!(error.contains("only uid"), "{error}");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        assert!(Place::make_below(&link, uid).is_err());
    }
}
