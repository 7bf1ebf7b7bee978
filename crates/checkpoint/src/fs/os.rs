//! The real file system, one or two system calls an operation.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::{OFlag, open, openat, renameat};
use nix::sys::signal::kill;
use nix::sys::stat::{Mode, fstat};
use nix::unistd::{Pid, UnlinkatFlags, close, fsync, syncfs, unlinkat};

use super::{Contents, FileSystem};

/// The file system of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct OsFileSystem;

/// More names than this in one directory are refused instead of collected.
const LIST_MAX: usize = 1 << 20;

impl FileSystem for OsFileSystem {
    type Dir = OwnedFd;
    type File = File;

    fn open_dir(&self, path: &Path) -> io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Ok(open(path, flags, Mode::empty())?)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().mode(0o700).create(path)
    }

    fn create_file(&self, dir: &OwnedFd, name: &OsStr) -> io::Result<File> {
        let flags =
            OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
        Ok(openat(dir, name, flags, Mode::S_IRUSR | Mode::S_IWUSR)?.into())
    }

    fn write_all(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    fn sync_file(&self, file: &File) -> io::Result<()> {
        Ok(fsync(file)?)
    }

    fn close(&self, file: File) -> io::Result<()> {
        Ok(close(file)?)
    }

    fn rename(&self, dir: &OwnedFd, from: &OsStr, to: &OsStr) -> io::Result<()> {
        Ok(renameat(dir, from, dir, to)?)
    }

    fn sync_dir(&self, dir: &OwnedFd) -> io::Result<()> {
        match fsync(dir) {
            // File systems that cannot synchronise a directory say so like this.
            Ok(()) | Err(Errno::EINVAL) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn sync_all(&self, dir: &OwnedFd) -> io::Result<()> {
        Ok(syncfs(dir)?)
    }

    fn device(&self, dir: &OwnedFd) -> io::Result<u64> {
        Ok(fstat(dir)?.st_dev)
    }

    fn unlink(&self, dir: &OwnedFd, name: &OsStr) -> io::Result<()> {
        Ok(unlinkat(dir, name, UnlinkatFlags::NoRemoveDir)?)
    }

    fn list(&self, dir: &OwnedFd) -> io::Result<Vec<OsString>> {
        let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
        let mut listing = nix::dir::Dir::openat(dir, ".", flags, Mode::empty())?;
        let mut names = Vec::new();
        for entry in listing.iter() {
            let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
            if name == "." || name == ".." {
                continue;
            }
            if names.len() == LIST_MAX {
                return Err(Errno::EOVERFLOW.into());
            }
            names.push(name);
        }
        Ok(names)
    }

    fn is_running(&self, pid: u32) -> bool {
        // A pid out of range is no process; 0 would mean our own group.
        i32::try_from(pid)
            .is_ok_and(|pid| pid > 0 && kill(Pid::from_raw(pid), None) != Err(Errno::ESRCH))
    }

    fn read_file(&self, path: &Path, limit: u64) -> io::Result<Contents> {
        // O_NONBLOCK: a planted pipe must not block us.
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        let file = match open(path, flags, Mode::empty()) {
            Ok(file) => File::from(file),
            Err(Errno::ELOOP | Errno::ENXIO) => return Ok(Contents::NotAFile),
            Err(errno) => return Err(errno.into()),
        };
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Ok(Contents::NotAFile);
        }
        let length = metadata.size();
        if length > limit {
            return Ok(Contents::TooLarge { length });
        }
        let mut bytes = Vec::with_capacity(usize::try_from(length).unwrap_or(0));
        // One byte more than the limit shows a file that grew meanwhile.
        file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
        match u64::try_from(bytes.len()) {
            Ok(length) if length <= limit => Ok(Contents::Bytes(bytes)),
            _ => Ok(Contents::TooLarge {
                length: limit.saturating_add(1),
            }),
        }
    }
}
