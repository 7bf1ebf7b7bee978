//! The Unix socket: bound where only we can reach it, taken over from a dead server, never from a live one.
//!
//! ```text
//!  directory: ours, 0700, no link        else refused
//!  at the path:  nothing                 -> bind
//!                a socket nobody answers -> unlink, bind
//!                a socket that answers   -> refused (another server)
//!                a link, a file, ...     -> refused (left alone)
//! ```
//!
//! The look and the bind happen under a lock on the directory, so two servers that start at once cannot both take over.

use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::errno::Errno;
use nix::fcntl::{AtFlags, Flock, FlockArg, OFlag, open};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use nix::sys::stat::{FchmodatFlags, Mode, SFlag, fchmodat, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};
use std::os::fd::AsRawFd;

use super::error::HttpError;
use crate::dir_lock::DirLock;

/// A bound socket and its file.
#[derive(Debug)]
pub(crate) struct UnixSocket {
    pub(crate) listener: UnixListener,
    pub(crate) file: SocketFile,
}

/// The file of a bound socket; dropping it removes it.
#[derive(Debug)]
pub(crate) struct SocketFile {
    directory: OwnedFd,
    name: OsString,
    path: PathBuf,
    device: libc::dev_t,
    inode: libc::ino_t,
    /// The lock of the directory, where the agent holds it for something else.
    held: Option<Arc<DirLock>>,
}

/// Binds `path` with mode 0600; blocking, but never for long. Makes the directory (not its parents) when it is missing.
///
/// `held`: a lock of ours, which is as good as one that is taken for this when it is on the same directory.
///
/// [`HttpError::SocketStarting`] is worth another try a moment later.
pub(crate) fn bind(path: &Path, held: Option<Arc<DirLock>>) -> Result<UnixSocket, HttpError> {
    let failed = |source: io::Error| HttpError::BindUnix {
        path: path.to_owned(),
        source,
    };
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        let problem = "it has no directory or no file name".to_owned();
        return Err(HttpError::SocketPath {
            path: path.to_owned(),
            problem,
        });
    };
    if !path.is_absolute() {
        let problem = "it is not absolute".to_owned();
        return Err(HttpError::SocketPath {
            path: path.to_owned(),
            problem,
        });
    }
    longshore_paths::check_socket_path(path).map_err(|error| HttpError::SocketPath {
        path: path.to_owned(),
        problem: error.to_string(),
    })?;
    let directory = open_directory(parent)?;
    let held = held.filter(|held| held.covers(&directory));
    let lock = match lock(&directory, held.as_deref()) {
        Ok(lock) => lock,
        Err(Errno::EWOULDBLOCK) => {
            return Err(HttpError::SocketStarting {
                path: path.to_owned(),
            });
        }
        Err(errno) => return Err(failed(errno.into())),
    };
    make_room(&directory, name, path)?;
    let listener = UnixListener::bind(path).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    fchmodat(
        &directory,
        name,
        Mode::from_bits_truncate(0o600),
        FchmodatFlags::FollowSymlink,
    )
    .map_err(|errno| failed(errno.into()))?;
    let status = fstatat(&directory, name, AtFlags::AT_SYMLINK_NOFOLLOW)
        .map_err(|errno| failed(errno.into()))?;
    drop(lock);
    let file = SocketFile {
        directory,
        name: name.to_owned(),
        path: path.to_owned(),
        device: status.st_dev,
        inode: status.st_ino,
        held,
    };
    Ok(UnixSocket { listener, file })
}

/// Removes the file, unless it is no longer the one that was bound. Better before the listener is closed: while that is
/// open no other server takes the path over.
impl Drop for SocketFile {
    fn drop(&mut self) {
        // Whoever else holds the lock is starting, and finds out that nobody answers.
        let Ok(_lock) = lock(&self.directory, self.held.as_deref()) else {
            return;
        };
        let name = self.name.as_os_str();
        let Ok(status) = fstatat(&self.directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) else {
            return;
        };
        if (status.st_dev, status.st_ino) != (self.device, self.inode) {
            return;
        }
        if let Err(errno) = unlinkat(&self.directory, name, UnlinkatFlags::NoRemoveDir) {
            tracing::warn!(path = %self.path.display(), %errno, "the agent socket stays behind");
        }
    }
}

impl SocketFile {
    /// Whether it is still where it was bound.
    pub(crate) fn in_place(&self) -> bool {
        use std::os::unix::fs::MetadataExt as _;
        std::fs::symlink_metadata(&self.path)
            .is_ok_and(|there| (there.dev(), there.ino()) == (self.device, self.inode))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Locks a directory for the moment, unless `held` does so for longer.
fn lock(directory: &OwnedFd, held: Option<&DirLock>) -> Result<Option<Flock<OwnedFd>>, Errno> {
    if held.is_some() {
        return Ok(None);
    }
    let directory = directory.try_clone().map_err(|_| Errno::EMFILE)?;
    Flock::lock(directory, FlockArg::LockExclusiveNonblock)
        .map(Some)
        .map_err(|(_, errno)| errno)
}

/// Whether a process of `uid` may use the socket: root, and the user the agent runs as.
pub(crate) fn peer_is_welcome(uid: libc::uid_t) -> bool {
    uid == 0 || uid == geteuid().as_raw()
}

fn open_directory(path: &Path) -> Result<OwnedFd, HttpError> {
    let failed = |source: io::Error| HttpError::SocketDirectory {
        path: path.to_owned(),
        source,
    };
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(error)),
    }
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let directory = match open(path, flags, Mode::empty()) {
        Ok(directory) => directory,
        Err(Errno::ENOTDIR | Errno::ELOOP) => {
            let problem = "is a link or not a directory".to_owned();
            return Err(HttpError::SocketDirectoryOpen {
                path: path.to_owned(),
                problem,
            });
        }
        Err(errno) => return Err(failed(errno.into())),
    };
    let status = fstat(&directory).map_err(|errno| failed(errno.into()))?;
    let problem = if status.st_uid != geteuid().as_raw() {
        format!("belongs to uid {}", status.st_uid)
    } else if status.st_mode & 0o077 != 0 {
        format!("has mode {:04o}", status.st_mode & 0o7777)
    } else {
        return Ok(directory);
    };
    Err(HttpError::SocketDirectoryOpen {
        path: path.to_owned(),
        problem,
    })
}

/// Removes the socket file of a dead server; refuses everything else that lies there.
fn make_room(directory: &OwnedFd, name: &OsStr, path: &Path) -> Result<(), HttpError> {
    let failed = |errno: Errno| HttpError::BindUnix {
        path: path.to_owned(),
        source: errno.into(),
    };
    let status = match fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(status) => status,
        Err(Errno::ENOENT) => return Ok(()),
        Err(errno) => return Err(failed(errno)),
    };
    let kind = match SFlag::from_bits_truncate(status.st_mode & SFlag::S_IFMT.bits()) {
        SFlag::S_IFSOCK => {
            return if answers(path).map_err(failed)? {
                Err(HttpError::SocketInUse {
                    path: path.to_owned(),
                })
            } else {
                unlinkat(directory, name, UnlinkatFlags::NoRemoveDir).map_err(failed)
            };
        }
        SFlag::S_IFLNK => "symbolic link",
        SFlag::S_IFDIR => "directory",
        SFlag::S_IFREG => "regular file",
        SFlag::S_IFIFO => "fifo",
        _ => "device",
    };
    Err(HttpError::NotASocket {
        path: path.to_owned(),
        kind,
    })
}

/// Whether a server is behind the socket file. Does not block: a full backlog is a live server too.
fn answers(path: &Path) -> Result<bool, Errno> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let probe = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    match connect(probe.as_raw_fd(), &UnixAddr::new(path)?) {
        Ok(()) | Err(Errno::EAGAIN | Errno::EINPROGRESS) => Ok(true),
        Err(Errno::ECONNREFUSED | Errno::ENOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests;
