//! A directory that one agent has for itself alone, by a flock(2) on the directory.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use nix::sys::stat::fstat;

use crate::error::AgentError;

/// How long a start waits for an agent that is just ending.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE_MS: u16 = 20;

/// The lock, held until it is dropped.
#[derive(Debug)]
pub(crate) struct DirLock {
    dir: File,
    path: PathBuf,
}

impl DirLock {
    /// Makes the directory with mode 0700 where it is missing, and takes it. Blocks.
    ///
    /// # Errors
    /// [`AgentError::Locked`] when another agent has it; a directory that cannot be made.
    pub(crate) fn take(path: &Path) -> Result<Self, AgentError> {
        let failed = |action| {
            move |source| AgentError::Io {
                action,
                path: path.to_owned(),
                source,
            }
        };
        create_private(path).map_err(failed("create"))?;
        let dir = File::open(path).map_err(failed("open"))?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            match dir.try_lock() {
                Ok(()) => break,
                Err(std::fs::TryLockError::WouldBlock) if Instant::now() < deadline => {
                    // On a thread for blocking work, and for a moment only.
                    let _a_pause = nix::poll::poll(&mut [], PAUSE_MS);
                }
                Err(std::fs::TryLockError::WouldBlock) => {
                    return Err(AgentError::Locked {
                        path: path.to_owned(),
                    });
                }
                Err(std::fs::TryLockError::Error(error)) => return Err(failed("lock")(error)),
            }
        }
        Ok(Self {
            dir,
            path: path.to_owned(),
        })
    }

    /// Whether the directory is where it was. When it is not, the lock keeps nobody out.
    pub(crate) fn in_place(&self) -> bool {
        let (Ok(held), Ok(there)) = (self.dir.metadata(), std::fs::metadata(&self.path)) else {
            return false;
        };
        (held.dev(), held.ino()) == (there.dev(), there.ino())
    }

    /// Whether `dir` is the directory that is held.
    pub(crate) fn covers(&self, dir: impl AsFd) -> bool {
        match (self.dir.metadata(), fstat(dir)) {
            (Ok(held), Ok(other)) => (held.dev(), held.ino()) == (other.st_dev, other.st_ino),
            _ => false,
        }
    }
}

/// Makes a directory for us alone, and those above it.
pub(crate) fn create_private(path: &Path) -> io::Result<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_knows_its_directory_from_one_that_was_made_in_its_place() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("a");
        let lock = DirLock::take(&path).unwrap();
        assert!(lock.in_place() && lock.covers(File::open(&path).unwrap()));
        std::fs::remove_dir(&path).unwrap();
        assert!(!lock.in_place());
        let next = DirLock::take(&path).unwrap();
        assert!(!lock.in_place() && next.in_place());
        assert!(!lock.covers(File::open(&path).unwrap()));
    }
}
