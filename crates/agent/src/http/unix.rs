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

use nix::errno::Errno;
use nix::fcntl::{AtFlags, Flock, FlockArg, OFlag, open};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, UnixAddr, connect, socket};
use nix::sys::stat::{FchmodatFlags, Mode, SFlag, fchmodat, fstat, fstatat};
use nix::unistd::{UnlinkatFlags, geteuid, unlinkat};
use std::os::fd::AsRawFd;

use super::error::HttpError;

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
}

/// Binds `path` with mode 0600; blocking, but never for long. Makes the directory (not its parents) when it is missing.
///
/// [`HttpError::SocketStarting`] is worth another try a moment later.
pub(crate) fn bind(path: &Path) -> Result<UnixSocket, HttpError> {
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
    let directory = match Flock::lock(directory, FlockArg::LockExclusiveNonblock) {
        Ok(directory) => directory,
        Err((_, Errno::EWOULDBLOCK)) => {
            return Err(HttpError::SocketStarting {
                path: path.to_owned(),
            });
        }
        Err((_, errno)) => return Err(failed(errno.into())),
    };
    make_room(&directory, name, path)?;
    let listener = UnixListener::bind(path).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    fchmodat(
        &*directory,
        name,
        Mode::from_bits_truncate(0o600),
        FchmodatFlags::FollowSymlink,
    )
    .map_err(|errno| failed(errno.into()))?;
    let status = fstatat(&*directory, name, AtFlags::AT_SYMLINK_NOFOLLOW)
        .map_err(|errno| failed(errno.into()))?;
    let directory = directory
        .unlock()
        .map_err(|(_, errno)| failed(errno.into()))?;
    let file = SocketFile {
        directory,
        name: name.to_owned(),
        path: path.to_owned(),
        device: status.st_dev,
        inode: status.st_ino,
    };
    Ok(UnixSocket { listener, file })
}

/// Removes the file, unless it is no longer the one that was bound. Better before the listener is closed: while that is
/// open no other server takes the path over.
impl Drop for SocketFile {
    fn drop(&mut self) {
        let Ok(directory) = self.directory.try_clone() else {
            return;
        };
        // Whoever holds the lock is starting, and finds out that nobody answers.
        let Ok(directory) = Flock::lock(directory, FlockArg::LockExclusiveNonblock) else {
            return;
        };
        let name = self.name.as_os_str();
        let Ok(status) = fstatat(&*directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) else {
            return;
        };
        if (status.st_dev, status.st_ino) != (self.device, self.inode) {
            return;
        }
        if let Err(errno) = unlinkat(&*directory, name, UnlinkatFlags::NoRemoveDir) {
            tracing::warn!(path = %self.path.display(), %errno, "the agent socket stays behind");
        }
    }
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
mod tests {
    use std::fs;
    use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
    use std::os::unix::net::UnixStream;

    use super::*;

    fn private_dir() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).unwrap();
        dir
    }

    #[test]
    fn the_socket_has_mode_0600_in_a_directory_made_with_0700() {
        let dir = private_dir();
        let path = dir.path().join("run").join("agent.sock");
        let bound = bind(&path).unwrap();
        let socket = fs::symlink_metadata(&path).unwrap();
        assert!(socket.file_type().is_socket());
        assert_eq!(socket.mode() & 0o7777, 0o600);
        assert_eq!(
            fs::metadata(dir.path().join("run")).unwrap().mode() & 0o7777,
            0o700
        );
        UnixStream::connect(&path).unwrap();
        drop(bound.file);
        assert!(!path.exists());
    }

    #[test]
    fn the_socket_file_of_a_dead_server_is_replaced() {
        let dir = private_dir();
        let path = dir.path().join("agent.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        let bound = bind(&path).unwrap();
        UnixStream::connect(&path).unwrap();
        drop(bound);
    }

    #[test]
    fn a_live_server_is_not_replaced() {
        let dir = private_dir();
        let path = dir.path().join("agent.sock");
        let first = bind(&path).unwrap();
        let inode = fs::metadata(&path).unwrap().ino();
        assert!(matches!(bind(&path), Err(HttpError::SocketInUse { .. })));
        assert_eq!(fs::metadata(&path).unwrap().ino(), inode);
        drop(first);
    }

    #[test]
    fn what_was_planted_at_the_path_is_refused_and_left_alone() {
        let dir = private_dir();
        let target = dir.path().join("target");
        fs::write(&target, "mine").unwrap();
        let path = dir.path().join("agent.sock");
        symlink(&target, &path).unwrap();
        let error = bind(&path).unwrap_err();
        assert!(error.to_string().contains("symbolic link"), "{error}");
        fs::remove_file(&path).unwrap();
        symlink(dir.path().join("nowhere"), &path).unwrap();
        assert!(matches!(bind(&path), Err(HttpError::NotASocket { .. })));
        fs::remove_file(&path).unwrap();
        fs::write(&path, "a file").unwrap();
        assert!(matches!(
            bind(&path),
            Err(HttpError::NotASocket {
                kind: "regular file",
                ..
            })
        ));
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(matches!(
            bind(&path),
            Err(HttpError::NotASocket {
                kind: "directory",
                ..
            })
        ));
        assert_eq!(fs::read(&target).unwrap(), b"mine");
    }

    #[test]
    fn a_directory_that_others_may_enter_is_refused() {
        let dir = private_dir();
        let open = dir.path().join("open");
        fs::create_dir(&open).unwrap();
        for mode in [0o755, 0o711, 0o770, 0o701] {
            fs::set_permissions(&open, fs::Permissions::from_mode(mode)).unwrap();
            let error = bind(&open.join("agent.sock")).unwrap_err();
            assert!(
                error.to_string().contains(&format!("mode {mode:04o}")),
                "{error}"
            );
        }
        let link = dir.path().join("link");
        symlink(dir.path(), &link).unwrap();
        let error = bind(&link.join("agent.sock")).unwrap_err();
        assert!(error.to_string().contains("is a link"), "{error}");
    }

    #[test]
    fn a_directory_of_another_user_is_refused() {
        if !geteuid().is_root() {
            // Only root can make one; without it this user's view of `/` (uid 0) is refused the same way.
            let error = bind(Path::new("/agent.sock")).unwrap_err();
            assert!(
                matches!(error, HttpError::SocketDirectoryOpen { .. }),
                "{error}"
            );
            return;
        }
        let dir = private_dir();
        let theirs = dir.path().join("theirs");
        fs::create_dir(&theirs).unwrap();
        fs::set_permissions(&theirs, fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::chown(&theirs, Some(65534), None).unwrap();
        let error = bind(&theirs.join("agent.sock")).unwrap_err();
        assert!(error.to_string().contains("uid 65534"), "{error}");
    }

    #[test]
    fn a_path_that_cannot_be_bound_is_refused_with_nothing_left_behind() {
        let dir = private_dir();
        let long = dir.path().join("d").join("x".repeat(120));
        assert!(matches!(bind(&long), Err(HttpError::SocketPath { .. })));
        assert!(!dir.path().join("d").exists());
        assert!(matches!(
            bind(Path::new("agent.sock")),
            Err(HttpError::SocketPath { .. })
        ));
        assert!(matches!(
            bind(Path::new("/")),
            Err(HttpError::SocketPath { .. })
        ));
    }

    #[test]
    fn a_locked_directory_is_said_to_be_one_where_somebody_starts() {
        let dir = private_dir();
        let handle = fs::File::open(dir.path()).unwrap();
        let lock = Flock::lock(handle, FlockArg::LockExclusive).unwrap();
        let path = dir.path().join("agent.sock");
        assert!(matches!(bind(&path), Err(HttpError::SocketStarting { .. })));
        drop(lock);
        bind(&path).unwrap();
    }

    #[test]
    fn only_the_own_file_is_removed() {
        let dir = private_dir();
        let path = dir.path().join("agent.sock");
        let first = bind(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let second = bind(&path).unwrap();
        drop(first.file);
        assert!(path.exists());
        drop(second);
    }

    #[test]
    fn root_and_the_own_user_are_welcome() {
        assert!(peer_is_welcome(0));
        assert!(peer_is_welcome(geteuid().as_raw()));
        assert!(!peer_is_welcome(65_533));
    }
}
