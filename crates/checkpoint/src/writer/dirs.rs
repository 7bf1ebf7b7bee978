//! Directories: opened, created, and made to survive a power failure.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{MutexGuard, PoisonError};

use super::{Durability, Writer, io_error};
use crate::CheckpointError;
use crate::fs::FileSystem;

/// When as many directories are remembered as durable, all are forgotten, which costs an fsync each.
const REMEMBERED_MAX: usize = 1 << 16;

impl<F: FileSystem> Writer<F> {
    /// Creates the directory at `path`, and its parents, with mode 0700 where they are missing. With
    /// [`Durability::Power`] each parent is synchronised before the next is created in it.
    ///
    /// # Errors
    /// When the file system refuses; some of the parents may have been created.
    pub fn create_dir_all(
        &self,
        path: impl AsRef<Path>,
        durability: Durability,
    ) -> Result<(), CheckpointError> {
        self.open_dir(path.as_ref(), durability).map(drop)
    }

    /// Opens the directory at `path`, created if need be.
    pub(super) fn open_dir(
        &self,
        path: &Path,
        durability: Durability,
    ) -> Result<F::Dir, CheckpointError> {
        match self.fs.open_dir(path) {
            Ok(dir) => {
                if durability == Durability::Power {
                    self.make_durable(path, false)?;
                }
                Ok(dir)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.ensure_dir(path, durability)?;
                self.fs
                    .open_dir(path)
                    .map_err(io_error("open directory", path))
            }
            Err(error) => Err(io_error("open directory", path)(error)),
        }
    }

    /// Creates the directory at `path` unless it is there, parents first.
    ///
    /// With [`Durability::Power`] a directory is durable before anything is created in it, so that of
    /// directories that a crash left only the innermost may not be.
    fn ensure_dir(&self, path: &Path, durability: Durability) -> Result<(), CheckpointError> {
        let failed = io_error("create directory", path);
        // The root and the empty path have no parent and are always there, so this ends.
        let parent = path.parent();
        if let (Durability::Power, Some(parent)) = (durability, parent) {
            match self.open_followed(parent) {
                Ok(_) => self.make_durable(parent, false)?,
                Err(error) if is_missing(&error) => self.ensure_dir(parent, durability)?,
                Err(error) => return Err(io_error("open directory", parent)(error)),
            }
        }
        let mut created = self.fs.create_dir(path);
        if let (Err(error), Some(parent)) = (&created, parent)
            && is_missing(error)
        {
            self.ensure_dir(parent, durability)?;
            created = self.fs.create_dir(path);
        }
        let created = match created {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(failed(error)),
        };
        match durability {
            Durability::Process => Ok(()),
            Durability::Power => self.make_durable(path, created),
        }
    }

    /// Synchronises the parent of `path`, once for each directory: a process that crashed may have
    /// created it and not come so far.
    fn make_durable(&self, path: &Path, created: bool) -> Result<(), CheckpointError> {
        let Some(parent) = path.parent() else {
            return Ok(());
        };
        if !created && self.remembered().contains(path) {
            return Ok(());
        }
        let synced = self
            .open_followed(parent)
            .and_then(|dir| self.fs.sync_dir(&dir));
        match synced {
            Ok(()) => {}
            // Not ours to read: whoever set it up created what is in it.
            Err(error) if !created && unreadable(&error) => {}
            Err(error) => return Err(io_error("synchronise directory", parent)(error)),
        }
        let mut remembered = self.remembered();
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        remembered.insert(path.to_owned());
        Ok(())
    }

    /// Opens a directory that may be named by a symbolic link, as an administrator's `/var/run` is: only
    /// what we create ourselves must not be one.
    fn open_followed(&self, path: &Path) -> io::Result<F::Dir> {
        self.fs.open_dir(&path.join("."))
    }

    fn remembered(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.durable.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unreadable(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied
}

fn is_missing(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}
