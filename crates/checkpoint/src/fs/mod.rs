//! The file system as records need it, one method for each operation that can fail or be the last.

mod os;

use std::ffi::{OsStr, OsString};
use std::fmt::Debug;
use std::io;
use std::path::Path;

pub use os::OsFileSystem;

/// The operations of which writing, reading and setting aside records consist. Each call is a fault
/// point: the implementations in `testing` fail at, or crash before, any one of them.
pub trait FileSystem {
    /// An open directory.
    type Dir: Debug;
    /// A file open for writing.
    type File: Debug;

    /// Opens a directory; a symbolic link in the last place of `path` is an error.
    ///
    /// # Errors
    /// `NotFound` when it or a parent is missing.
    fn open_dir(&self, path: &Path) -> io::Result<Self::Dir>;

    /// Creates a directory with mode 0700.
    ///
    /// # Errors
    /// `AlreadyExists`, `NotFound` when its parent is missing.
    fn create_dir(&self, path: &Path) -> io::Result<()>;

    /// Creates an empty file with mode 0600; never opens an existing one and never follows a link.
    ///
    /// # Errors
    /// `AlreadyExists` for anything of that name, a dangling link included.
    fn create_file(&self, dir: &Self::Dir, name: &OsStr) -> io::Result<Self::File>;

    /// Writes all of `bytes` at the end.
    ///
    /// # Errors
    /// After which the file may hold any prefix of them.
    fn write_all(&self, file: &mut Self::File, bytes: &[u8]) -> io::Result<()>;

    /// Makes the file's content survive a power failure.
    ///
    /// # Errors
    /// After which nothing is known about the content, and trying again tells nothing.
    fn sync_file(&self, file: &Self::File) -> io::Result<()>;

    /// Closes the file and reports what only then becomes known, as on network file systems.
    ///
    /// # Errors
    /// After which nothing is known about the content.
    fn close(&self, file: Self::File) -> io::Result<()>;

    /// Gives `from` the name `to`, replacing what has it, in one step.
    ///
    /// # Errors
    /// After which both names are as before.
    fn rename(&self, dir: &Self::Dir, from: &OsStr, to: &OsStr) -> io::Result<()>;

    /// Makes the directory's entries survive a power failure.
    ///
    /// # Errors
    /// After which the entries are as they are, but may be lost.
    fn sync_dir(&self, dir: &Self::Dir) -> io::Result<()>;

    /// Makes everything written to the directory's file system survive a power failure. Errors of
    /// writes since `open_dir` are reported from Linux 5.8 on.
    ///
    /// # Errors
    /// After which nothing is known about the content of files written since `open_dir`.
    fn sync_all(&self, dir: &Self::Dir) -> io::Result<()>;

    /// Identifies the file system that the directory is on.
    ///
    /// # Errors
    /// As fstat(2).
    fn device(&self, dir: &Self::Dir) -> io::Result<u64>;

    /// Removes a file or link.
    ///
    /// # Errors
    /// `NotFound` when there is none.
    fn unlink(&self, dir: &Self::Dir, name: &OsStr) -> io::Result<()>;

    /// The names in the directory, without `.` and `..`.
    ///
    /// # Errors
    /// As getdents(2), and when there are over a million.
    fn list(&self, dir: &Self::Dir) -> io::Result<Vec<OsString>>;

    /// Whether the process `pid` runs, and so may be writing its temporary files. Never fails.
    fn is_running(&self, pid: u32) -> bool;

    /// Reads a whole file of at most `limit` bytes, without following a link in the last place of `path`.
    ///
    /// # Errors
    /// `NotFound` when it is missing.
    fn read_file(&self, path: &Path, limit: u64) -> io::Result<Contents>;
}

/// What [`FileSystem::read_file`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// All bytes of a regular file.
    Bytes(Vec<u8>),
    /// A regular file that is larger than the limit. It was not read.
    TooLarge {
        /// Its length in bytes.
        length: u64,
    },
    /// A link, directory, pipe or device.
    NotAFile,
}

impl<F: FileSystem> FileSystem for &F {
    type Dir = F::Dir;
    type File = F::File;

    fn open_dir(&self, path: &Path) -> io::Result<Self::Dir> {
        F::open_dir(self, path)
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        F::create_dir(self, path)
    }
    fn create_file(&self, dir: &Self::Dir, name: &OsStr) -> io::Result<Self::File> {
        F::create_file(self, dir, name)
    }
    fn write_all(&self, file: &mut Self::File, bytes: &[u8]) -> io::Result<()> {
        F::write_all(self, file, bytes)
    }
    fn sync_file(&self, file: &Self::File) -> io::Result<()> {
        F::sync_file(self, file)
    }
    fn close(&self, file: Self::File) -> io::Result<()> {
        F::close(self, file)
    }
    fn rename(&self, dir: &Self::Dir, from: &OsStr, to: &OsStr) -> io::Result<()> {
        F::rename(self, dir, from, to)
    }
    fn sync_dir(&self, dir: &Self::Dir) -> io::Result<()> {
        F::sync_dir(self, dir)
    }
    fn sync_all(&self, dir: &Self::Dir) -> io::Result<()> {
        F::sync_all(self, dir)
    }
    fn device(&self, dir: &Self::Dir) -> io::Result<u64> {
        F::device(self, dir)
    }
    fn unlink(&self, dir: &Self::Dir, name: &OsStr) -> io::Result<()> {
        F::unlink(self, dir, name)
    }
    fn list(&self, dir: &Self::Dir) -> io::Result<Vec<OsString>> {
        F::list(self, dir)
    }
    fn is_running(&self, pid: u32) -> bool {
        F::is_running(self, pid)
    }
    fn read_file(&self, path: &Path, limit: u64) -> io::Result<Contents> {
        F::read_file(self, path, limit)
    }
}
