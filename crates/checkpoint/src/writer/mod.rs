//! Writing, reading and setting aside records.
//!
//! ```text
//!  write:   open dir -> create temp -> write -> [fsync] -> close -> rename -> [fsync dir]
//!           any failure up to the rename: unlink temp, the old record is in place
//!  batch:   .. write all ..            -> [sync] -> rename all -> [fsync each dir]
//! ```
//! In brackets: with [`Durability::Power`] only.

mod aside;
mod batch;
mod dirs;

pub use aside::{Judgement, judge, set_aside_in};

use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::fs::{Contents, FileSystem, OsFileSystem};
use crate::record::{AnyRecord, Damage, Loaded, Record, Recovered};
use crate::{CheckpointError, envelope, temp};

/// What a record survives once its write has returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Durability {
    /// The end of this process, not of the machine: no fsync. For what cannot outlive a reboot either,
    /// in the runtime directory. After a power failure the record may be old, new, missing or damaged,
    /// and reading tells.
    Process,
    /// A power failure: the file is synchronised before the rename and the directory after it.
    Power,
}

/// Writes the records below a root, whose [`RootLock`](crate::RootLock) the caller holds.
///
/// Blocks; shared between threads as it is. One writer is meant to live as long as its program: it
/// remembers which directories it has made power-durable.
#[derive(Debug, Default)]
pub struct Writer<F: FileSystem = OsFileSystem> {
    fs: F,
    /// Directories whose own entry in their parent is known to survive a power failure.
    durable: Mutex<HashSet<PathBuf>>,
}

/// The most quarantined files of one name.
const QUARANTINE_MAX: u32 = 1_000_000;

/// The longest file name in bytes.
const NAME_MAX: usize = 255;

impl Writer {
    /// A writer to the file system of this machine.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
}

impl<F: FileSystem> Writer<F> {
    /// A writer to `fs`.
    #[must_use]
    pub fn with_file_system(fs: F) -> Self {
        Self {
            fs,
            durable: Mutex::default(),
        }
    }

    /// The file system that is written to.
    pub fn file_system(&self) -> &F {
        &self.fs
    }

    /// Replaces the record at `path`, creating missing directories with mode 0700; the file has mode
    /// 0600.
    ///
    /// # Errors
    /// When the record cannot be encoded or the file system refuses. The old record then is in place and
    /// no temporary file is left, but for [`CheckpointError::NotDurable`]: there the new one is.
    pub fn write<R: Record>(
        &self,
        path: impl AsRef<Path>,
        record: &R,
        durability: Durability,
    ) -> Result<(), CheckpointError> {
        let path = path.as_ref();
        let bytes = record.to_file(path)?;
        let (dir_path, name) = split(path)?;
        let dir = self.open_dir(dir_path, durability)?;
        let temp = self.write_temp(&dir, path, &bytes, durability == Durability::Power)?;
        self.commit(&dir, &temp, name, path)?;
        match durability {
            Durability::Process => Ok(()),
            Durability::Power => self.fs.sync_dir(&dir).map_err(not_durable(path)),
        }
    }

    /// What is at `path`.
    ///
    /// # Errors
    /// When the file cannot be read, or is not a regular file. A damaged record is no error, but
    /// [`Loaded::Damaged`].
    pub fn read<R: Record>(&self, path: impl AsRef<Path>) -> Result<Loaded<R>, CheckpointError> {
        let path = path.as_ref();
        let limit = envelope::file_max::<R>();
        let bytes = match self.fs.read_file(path, limit) {
            Ok(Contents::Bytes(bytes)) => bytes,
            Ok(Contents::TooLarge { length }) => {
                return Ok(Loaded::Damaged(Damage::TooLarge { length, limit }));
            }
            Ok(Contents::NotAFile) => {
                return Err(CheckpointError::NotAFile {
                    path: path.to_owned(),
                });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Loaded::Missing),
            Err(error) => return Err(io_error("read", path)(error)),
        };
        if bytes.is_empty() {
            return Ok(Loaded::Empty);
        }
        Ok(match envelope::decode(&bytes) {
            Ok(record) => Loaded::Record(record),
            Err(damage) => Loaded::Damaged(damage),
        })
    }

    /// Reads the record at `path` and sets it aside when it is damaged, so that recovery can go on. A
    /// record of a newer release stays where it is.
    ///
    /// # Errors
    /// When the file cannot be read, or is not a regular file.
    pub fn recover<R: Record>(
        &self,
        path: impl AsRef<Path>,
    ) -> Result<Recovered<R>, CheckpointError> {
        Ok(match self.read(&path)? {
            Loaded::Missing | Loaded::Empty => Recovered::Nothing,
            Loaded::Record(record) => Recovered::Record(record),
            Loaded::Damaged(damage) if damage.is_newer() => Recovered::Newer { damage },
            Loaded::Damaged(damage) => Recovered::Quarantined {
                damage,
                moved_to: self.quarantine(path),
            },
        })
    }

    /// Renames the file at `path` to `<path>.corrupt-<n>`, with the first free `n` after those that are
    /// there, and returns the new path. Nothing is overwritten; the rename is power-durable.
    ///
    /// A crash in the middle may leave an empty file of that name; the record then is where it was.
    ///
    /// # Errors
    /// When there is nothing at `path`, or the file system refuses; the file then is where it was.
    pub fn quarantine(&self, path: impl AsRef<Path>) -> Result<PathBuf, CheckpointError> {
        let path = path.as_ref();
        let failed = io_error("set aside", path);
        let (dir_path, name) = split(path)?;
        let dir = self.fs.open_dir(dir_path).map_err(&failed)?;
        let names = self.fs.list(&dir).map_err(&failed)?;
        if !names.iter().any(|there| there == name) {
            return Err(failed(io::ErrorKind::NotFound.into()));
        }
        let used = names
            .iter()
            .filter_map(|there| quarantine_number(name, there))
            .max();
        let mut number = used.unwrap_or(0);
        // An own empty file reserves the name: the rename then replaces that and nothing else.
        let (aside, file) = loop {
            number += 1;
            let aside = quarantine_name(name, number);
            match self.fs.create_file(&dir, &aside) {
                Ok(file) => break (aside, file),
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists && number < QUARANTINE_MAX => {}
                Err(error) => return Err(failed(error)),
            }
        };
        let renamed = self
            .fs
            .close(file)
            .and_then(|()| self.fs.rename(&dir, name, &aside));
        if let Err(error) = renamed {
            self.discard(&dir, &aside);
            return Err(failed(error));
        }
        let aside = dir_path.join(aside);
        self.fs.sync_dir(&dir).map_err(not_durable(&aside))?;
        Ok(aside)
    }

    /// Removes the temporary files that processes left in `dir` which have ended, and returns how many
    /// there were. Not below `dir`: there may be mounts. Those of running processes stay, so a
    /// directory that another process writes may be swept as well.
    ///
    /// # Errors
    /// When the directory cannot be read or a file not removed; a missing directory is not an error.
    pub fn sweep_temps(&self, dir: impl AsRef<Path>) -> Result<usize, CheckpointError> {
        let path = dir.as_ref();
        let dir = match self.fs.open_dir(path) {
            Ok(dir) => dir,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
            Err(error) => return Err(io_error("sweep", path)(error)),
        };
        let names = self.fs.list(&dir).map_err(io_error("sweep", path))?;
        let mut swept = 0;
        for name in names.iter().filter(|name| temp::is_temp(name)) {
            if temp::may_be_in_use(name, |pid| self.fs.is_running(pid)) {
                continue;
            }
            match self.fs.unlink(&dir, name) {
                Ok(()) => swept += 1,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(io_error("remove", &path.join(name))(error)),
            }
        }
        Ok(swept)
    }

    /// Removes the record at `path`, and returns whether there was one.
    ///
    /// # Errors
    /// When the file system refuses. With [`CheckpointError::NotDurable`] it is removed, but may be back
    /// after a power failure.
    pub fn remove(
        &self,
        path: impl AsRef<Path>,
        durability: Durability,
    ) -> Result<bool, CheckpointError> {
        let path = path.as_ref();
        let (dir_path, name) = split(path)?;
        let removed = match self.fs.open_dir(dir_path) {
            Ok(dir) => self.fs.unlink(&dir, name).map(|()| dir),
            Err(error) => Err(error),
        };
        let dir = match removed {
            Ok(dir) => dir,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(io_error("remove", path)(error)),
        };
        if durability == Durability::Power {
            self.fs.sync_dir(&dir).map_err(not_durable(path))?;
        }
        Ok(true)
    }

    /// Writes `bytes` to a new temporary file in `dir`; none is left on failure.
    fn write_temp(
        &self,
        dir: &F::Dir,
        path: &Path,
        bytes: &[u8],
        sync: bool,
    ) -> Result<OsString, CheckpointError> {
        let (temp, mut file) = self.create_temp(dir).map_err(io_error("write", path))?;
        let written = self.fs.write_all(&mut file, bytes).and_then(|()| {
            if sync {
                self.fs.sync_file(&file)
            } else {
                Ok(())
            }
        });
        // Closed in any case; the first error is the one that counts.
        let closed = self.fs.close(file);
        if let Err(error) = written.and(closed) {
            self.discard(dir, &temp);
            return Err(io_error("write", path)(error));
        }
        Ok(temp)
    }

    fn create_temp(&self, dir: &F::Dir) -> io::Result<(OsString, F::File)> {
        let mut attempt = 1;
        loop {
            let temp = temp::next();
            match self.fs.create_file(dir, &temp) {
                Ok(file) => return Ok((temp, file)),
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists && attempt < temp::ATTEMPTS =>
                {
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives the temporary file its name; it is removed on failure.
    fn commit(
        &self,
        dir: &F::Dir,
        temp: &OsStr,
        name: &OsStr,
        path: &Path,
    ) -> Result<(), CheckpointError> {
        self.fs.rename(dir, temp, name).map_err(|error| {
            self.discard(dir, temp);
            io_error("replace", path)(error)
        })
    }

    /// Removes a temporary file after a failure. When that fails, too, the next sweep removes it.
    fn discard(&self, dir: &F::Dir, name: &OsStr) {
        self.fs.unlink(dir, name).ok();
    }
}

/// `<name>.corrupt-<n>`, of which `<name>` is cut where it would be too long.
fn quarantine_name(name: &OsStr, number: u32) -> OsString {
    let suffix = format!(".corrupt-{number}");
    let stem = name.as_bytes();
    let stem = &stem[..stem.len().min(NAME_MAX - suffix.len())];
    let mut aside = OsStr::from_bytes(stem).to_owned();
    aside.push(suffix);
    aside
}

/// The `n` of a name that [`quarantine_name`] gives for `name`.
fn quarantine_number(name: &OsStr, aside: &OsStr) -> Option<u32> {
    let rest = aside.as_bytes().strip_prefix(name.as_bytes())?;
    let number = rest.strip_prefix(b".corrupt-")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// The directory and the name of a record.
fn split(path: &Path) -> Result<(&Path, &OsStr), CheckpointError> {
    match (path.parent(), path.file_name()) {
        (Some(dir), Some(name)) => Ok((dir, name)),
        _ => Err(CheckpointError::NoFileName {
            path: path.to_owned(),
        }),
    }
}

fn io_error(action: &'static str, path: &Path) -> impl Fn(io::Error) -> CheckpointError {
    move |source| CheckpointError::Io {
        action,
        path: path.to_owned(),
        source,
    }
}

fn not_durable(path: &Path) -> impl Fn(io::Error) -> CheckpointError {
    move |source| CheckpointError::NotDurable {
        path: path.to_owned(),
        source,
    }
}

/// [`Writer::read`] on this machine.
///
/// # Errors
/// See there.
pub fn read<R: Record>(path: impl AsRef<Path>) -> Result<Loaded<R>, CheckpointError> {
    Writer::new().read(path)
}

/// [`Writer::recover`] on this machine.
///
/// # Errors
/// See there.
pub fn recover<R: Record>(path: impl AsRef<Path>) -> Result<Recovered<R>, CheckpointError> {
    Writer::new().recover(path)
}

/// [`Writer::quarantine`] on this machine.
///
/// # Errors
/// See there.
pub fn quarantine(path: impl AsRef<Path>) -> Result<PathBuf, CheckpointError> {
    Writer::new().quarantine(path)
}

/// [`Writer::sweep_temps`] on this machine.
///
/// # Errors
/// See there.
pub fn sweep_temps(dir: impl AsRef<Path>) -> Result<usize, CheckpointError> {
    Writer::new().sweep_temps(dir)
}

/// [`Writer::remove`] on this machine.
///
/// # Errors
/// See there.
pub fn remove(path: impl AsRef<Path>, durability: Durability) -> Result<bool, CheckpointError> {
    Writer::new().remove(path, durability)
}

/// [`Writer::create_dir_all`] on this machine.
///
/// # Errors
/// See there.
pub fn create_dir_all(
    path: impl AsRef<Path>,
    durability: Durability,
) -> Result<(), CheckpointError> {
    Writer::new().create_dir_all(path, durability)
}

#[cfg(test)]
mod tests;
