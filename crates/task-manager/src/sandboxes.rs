//! The sandboxes of the tasks: one directory each, under the task's id.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use longshore_sandbox::dirs;

use crate::TaskManagerError;

/// Where a task finds its sandbox, as in Mesos.
pub(crate) const MAPPED: &str = "/mnt/mesos/sandbox";
/// At most so many entries of a sandbox are counted; of a larger one the size is what they have.
const COUNTED: usize = 10_000;

/// All of one root.
#[derive(Clone, Debug)]
pub(crate) struct Sandboxes {
    path: PathBuf,
}

impl Sandboxes {
    pub(crate) fn new(state_dir: &Path) -> Self {
        Self {
            path: state_dir.join("sandboxes"),
        }
    }

    pub(crate) fn of(&self, id: &str) -> PathBuf {
        self.path.join(id)
    }

    /// Makes an empty one. Blocking.
    pub(crate) fn make(&self, id: &str) -> Result<PathBuf, TaskManagerError> {
        let path = self.of(id);
        let made = || -> io::Result<()> {
            match std::fs::create_dir(&self.path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Ok(()) | Err(_) => {}
            }
            let all = dirs::open(&self.path)?;
            // What an id that was never on record left behind is not the new task's.
            dirs::remove_tree(&all, OsStr::new(id))?;
            // The state directory above is closed to others; the task may be anybody.
            let (_, new) = dirs::ensure_at(&all, id, 0o755)?;
            if new {
                Ok(())
            } else {
                Err(io::ErrorKind::AlreadyExists.into())
            }
        };
        match made() {
            Ok(()) => Ok(path),
            Err(source) => Err(TaskManagerError::Directory { path, source }),
        }
    }

    /// Removes one; it may be gone. Blocking.
    pub(crate) fn remove(&self, id: &str) -> Result<(), TaskManagerError> {
        let removed = self.all().and_then(|all| match all {
            Some(all) => dirs::remove_tree(&all, OsStr::new(id)).map(|_| ()),
            None => Ok(()),
        });
        removed.map_err(|source| TaskManagerError::Directory {
            path: self.of(id),
            source,
        })
    }

    /// What one takes on disk, in bytes. Blocking.
    pub(crate) fn size(&self, id: &str) -> u64 {
        let Ok(Some(all)) = self.all() else {
            return 0;
        };
        match dirs::open_at(&all, id) {
            Ok(dir) => dirs::usage(&dir, &mut COUNTED.clone()).0,
            Err(_) => 0,
        }
    }

    /// Removes those of tasks that are not on record: nothing of such a one exists. Blocking.
    pub(crate) fn remove_others(&self, known: &BTreeSet<String>) {
        let Ok(Some(all)) = self.all() else {
            return;
        };
        for name in dirs::names(&all).unwrap_or_default() {
            let Ok(name) = name.into_string() else {
                continue;
            };
            if known.contains(&name) {
                continue;
            }
            match dirs::remove_tree(&all, OsStr::new(&name)) {
                Ok(_) => tracing::info!(task = name, "a sandbox without a task was removed"),
                Err(error) => tracing::warn!(task = name, %error, "a sandbox without a task stays"),
            }
        }
    }

    fn all(&self) -> io::Result<Option<OwnedFd>> {
        match dirs::open(&self.path) {
            Ok(dir) => Ok(Some(dir)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sandbox_is_made_empty_measured_and_removed() {
        let dir = tempfile::tempdir().unwrap();
        let all = Sandboxes::new(dir.path());
        all.remove("nobody").unwrap();
        assert_eq!(all.size("one"), 0);
        let one = all.make("one").unwrap();
        std::fs::write(one.join("stdout"), vec![b'x'; 100_000]).unwrap();
        assert!(all.size("one") >= 100_000);
        let two = all.make("two").unwrap();
        all.remove_others(&BTreeSet::from(["one".to_owned()]));
        assert!(one.exists() && !two.exists());
        // What was left behind is not the next one's.
        all.make("one").unwrap();
        assert!(!one.join("stdout").exists());
        all.remove("one").unwrap();
        assert!(!one.exists());
    }

    #[test]
    fn a_link_in_a_sandbox_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("file"), "kept").unwrap();
        let all = Sandboxes::new(dir.path());
        let one = all.make("one").unwrap();
        std::os::unix::fs::symlink(&outside, one.join("link")).unwrap();
        all.remove("one").unwrap();
        assert!(outside.join("file").exists());
    }
}
