//! Binding, under a lock, without a moment in which the socket is open to more than it should be.

use std::ffi::{OsStr, OsString};
use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AtFlags, Flock, FlockArg, OFlag, open, openat};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, listen, socket,
};
use nix::sys::stat::{FchmodatFlags, FileStat, Mode, SFlag, fchmod, fchmodat, fstat, fstatat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchownat, geteuid, unlinkat};

use super::{SocketError, SocketOptions};

/// How many connections may wait to be accepted.
const BACKLOG: i32 = 256;

/// How often the lock of a socket may be removed by others while it is taken.
const LOCK_TRIES: usize = 16;

/// A socket that listens, and its file.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) listener: UnixListener,
    pub(super) file: SocketFile,
}

/// The file of a socket. Dropping it removes the file, unless it is no longer the one that was bound.
#[derive(Debug)]
pub(super) struct SocketFile {
    directory: OwnedFd,
    name: OsString,
    path: PathBuf,
    identity: (libc::dev_t, libc::ino_t),
    /// Held as long as the file is ours.
    _lock: Lock,
}

/// The lock of a socket. Dropping it removes its file, and lets go of it after that.
#[derive(Debug)]
struct Lock {
    directory: OwnedFd,
    name: OsString,
    file: Flock<OwnedFd>,
}

/// A socket that has its file and does not listen yet: nobody can connect to it.
struct Prepared {
    socket: OwnedFd,
    file: SocketFile,
}

/// Makes the socket; blocking, but never for long.
pub(super) fn listen_at(options: &SocketOptions) -> Result<Bound, SocketError> {
    let Prepared { socket, file } = prepare(options)?;
    let failed = |errno: Errno| failure(&options.path, "listen at", errno);
    let backlog = Backlog::new(BACKLOG).map_err(failed)?;
    listen(&socket, backlog).map_err(failed)?;
    let listener = UnixListener::from(socket);
    Ok(Bound { listener, file })
}

fn prepare(options: &SocketOptions) -> Result<Prepared, SocketError> {
    let path = options.path.as_path();
    let (parent, name) = split(path)?;
    if options.mode & !0o777 != 0 {
        return Err(SocketError::Mode {
            path: path.to_owned(),
            mode: options.mode,
        });
    }
    let mode = Mode::from_bits_truncate(options.mode);
    let directory = open_directory(parent)?;
    let lock = lock(&directory, name, path)?;
    make_room(&directory, name, path)?;

    let failed = |errno: Errno| failure(path, "bind", errno);
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None).map_err(failed)?;
    // The file that bind(2) makes gets the mode of the socket, less the umask: never more than this.
    fchmod(&socket, mode).map_err(failed)?;
    let address = UnixAddr::new(path).map_err(failed)?;
    bind(socket.as_raw_fd(), &address).map_err(failed)?;
    let status = fstatat(&directory, name, AtFlags::AT_SYMLINK_NOFOLLOW).map_err(failed)?;
    let file = SocketFile {
        directory,
        name: name.to_owned(),
        path: path.to_owned(),
        identity: (status.st_dev, status.st_ino),
        _lock: lock,
    };
    let directory = &file.directory;
    if let Some(owner) = options.owner {
        let (uid, gid) = (owner.uid.map(Uid::from_raw), owner.gid.map(Gid::from_raw));
        fchownat(directory, name, uid, gid, AtFlags::AT_SYMLINK_NOFOLLOW)
            .map_err(|errno| failure(path, "change the owner of", errno))?;
    }
    // What the umask took. Nobody else can have put a link here: the directory is ours.
    fchmodat(directory, name, mode, FchmodatFlags::FollowSymlink)
        .map_err(|errno| failure(path, "change the mode of", errno))?;
    Ok(Prepared { socket, file })
}

impl SocketFile {
    /// Whether what was bound lies there still; also when that cannot be told.
    pub(super) fn is_there(&self) -> bool {
        // By its path: a directory that was made anew is another one.
        match std::fs::symlink_metadata(&self.path) {
            Ok(there) => (there.dev(), there.ino()) == self.identity,
            Err(error) => error.kind() != io::ErrorKind::NotFound,
        }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let name = self.name.as_os_str();
        let Ok(status) = fstatat(&self.directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) else {
            return;
        };
        if (status.st_dev, status.st_ino) != self.identity {
            tracing::warn!(path = %self.path.display(), "the socket was replaced; what lies there stays");
            return;
        }
        if let Err(errno) = unlinkat(&self.directory, name, UnlinkatFlags::NoRemoveDir) {
            tracing::warn!(path = %self.path.display(), %errno, "the socket stays behind");
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Whoever has opened it and waits for it looks whether it is still there: see `lock`.
        if same_file(&self.directory, &self.name, &self.file) != Ok(true) {
            return;
        }
        let name = self.name.as_os_str();
        if let Err(errno) = unlinkat(&self.directory, name, UnlinkatFlags::NoRemoveDir) {
            tracing::warn!(lock = ?name, %errno, "the lock of a socket stays behind");
        }
    }
}

/// Whether `file` is what lies under `name`.
fn same_file(directory: &OwnedFd, name: &OsStr, file: &OwnedFd) -> Result<bool, Errno> {
    let there = match fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(status) => status,
        Err(Errno::ENOENT) => return Ok(false),
        Err(errno) => return Err(errno),
    };
    let ours = fstat(file)?;
    Ok((there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino))
}

fn failure(path: &Path, doing: &'static str, errno: Errno) -> SocketError {
    SocketError::Bind {
        path: path.to_owned(),
        doing,
        source: errno.into(),
    }
}

/// Directory and name of a path that can be a socket's.
fn split(path: &Path) -> Result<(&Path, &OsStr), SocketError> {
    let refused = |problem| SocketError::Path {
        path: path.to_owned(),
        problem,
    };
    let length = path.as_os_str().len();
    if path.as_os_str().as_bytes().contains(&0) {
        return Err(refused("it holds a NUL"));
    }
    if !path.is_absolute() {
        return Err(refused("it is not absolute"));
    }
    if length > SocketOptions::PATH_MAX {
        return Err(SocketError::PathLength {
            path: path.to_owned(),
            length,
            max: SocketOptions::PATH_MAX,
        });
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(refused("it has no file name"));
    };
    if path.as_os_str().as_bytes().ends_with(b"/") {
        return Err(refused("it ends with a slash"));
    }
    Ok((parent, name))
}

/// Opens the directory, made where it is missing, if nobody but root and us can write to it.
fn open_directory(path: &Path) -> Result<OwnedFd, SocketError> {
    let failed = |source: io::Error| SocketError::Directory {
        path: path.to_owned(),
        source,
    };
    let open_it = |problem: String| SocketError::DirectoryOpen {
        path: path.to_owned(),
        problem,
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(failed)?;
    let flags = OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    let directory = match open(path, flags, Mode::empty()) {
        Ok(directory) => directory,
        Err(Errno::ENOTDIR | Errno::ELOOP) => {
            return Err(open_it("is a link or no directory".to_owned()));
        }
        Err(errno) => return Err(failed(errno.into())),
    };
    let status = fstat(&directory).map_err(|errno| failed(errno.into()))?;
    if status.st_uid != 0 && status.st_uid != geteuid().as_raw() {
        return Err(open_it(format!("belongs to user {}", status.st_uid)));
    }
    if status.st_mode & 0o022 != 0 {
        return Err(open_it(format!("has mode {:04o}", status.st_mode & 0o7777)));
    }
    Ok(directory)
}

/// Takes the lock of the socket, which a runtime holds as long as it serves it.
fn lock(directory: &OwnedFd, name: &OsStr, path: &Path) -> Result<Lock, SocketError> {
    let mut lock_name = name.to_owned();
    lock_name.push(".lock");
    let failed = |doing| move |errno| failure(path, doing, errno);
    for _ in 0..LOCK_TRIES {
        let file = open_lock(directory, &lock_name, path)?;
        let file = match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(file) => file,
            Err((_, Errno::EWOULDBLOCK)) => break,
            Err((_, errno)) => return Err(failed("lock")(errno)),
        };
        // Its last holder may have removed it meanwhile: then another one may be locked already.
        if same_file(directory, &lock_name, &file).map_err(failed("look at the lock of"))? {
            let directory = directory.try_clone().map_err(|source| SocketError::Bind {
                path: path.to_owned(),
                doing: "lock",
                source,
            })?;
            return Ok(Lock {
                directory,
                name: lock_name,
                file,
            });
        }
    }
    Err(SocketError::InUse {
        path: path.to_owned(),
    })
}

/// Opens the file of the lock, made where it is missing.
fn open_lock(directory: &OwnedFd, lock_name: &OsStr, path: &Path) -> Result<OwnedFd, SocketError> {
    let flags =
        OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let mode = Mode::S_IRUSR | Mode::S_IWUSR;
    let not_a_file = |kind| SocketError::NotASocket {
        path: path.with_file_name(lock_name),
        kind,
    };
    let file = match openat(directory, lock_name, flags, mode) {
        Ok(file) => file,
        Err(Errno::ELOOP) => return Err(not_a_file("symbolic link")),
        Err(Errno::EISDIR) => return Err(not_a_file("directory")),
        Err(errno) => return Err(failure(path, "make the lock of", errno)),
    };
    let status = fstat(&file).map_err(|errno| failure(path, "look at the lock of", errno))?;
    match kind(&status) {
        "regular file" => Ok(file),
        other => Err(not_a_file(other)),
    }
}

/// Removes the socket of a dead runtime; refuses everything else that lies there.
fn make_room(directory: &OwnedFd, name: &OsStr, path: &Path) -> Result<(), SocketError> {
    let failed = |errno| failure(path, "look at", errno);
    let status = match fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(status) => status,
        Err(Errno::ENOENT) => return Ok(()),
        Err(errno) => return Err(failed(errno)),
    };
    match kind(&status) {
        "socket" if is_served(path).map_err(failed)? => Err(SocketError::InUse {
            path: path.to_owned(),
        }),
        "socket" => {
            tracing::info!(path = %path.display(), "removed the socket of a runtime that is gone");
            unlinkat(directory, name, UnlinkatFlags::NoRemoveDir)
                .map_err(|errno| failure(path, "remove the stale", errno))
        }
        kind => Err(SocketError::NotASocket {
            path: path.to_owned(),
            kind,
        }),
    }
}

fn kind(status: &FileStat) -> &'static str {
    match SFlag::from_bits_truncate(status.st_mode & SFlag::S_IFMT.bits()) {
        SFlag::S_IFSOCK => "socket",
        SFlag::S_IFLNK => "symbolic link",
        SFlag::S_IFDIR => "directory",
        SFlag::S_IFREG => "regular file",
        SFlag::S_IFIFO => "fifo",
        _ => "device",
    }
}

/// Whether somebody listens at a socket, also where he is too busy to accept: Go's runtimes hold no lock.
fn is_served(path: &Path) -> Result<bool, Errno> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let probe = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    match connect(probe.as_raw_fd(), &UnixAddr::new(path)?) {
        // EPROTOTYPE: it is served, for datagrams or packets.
        Ok(()) | Err(Errno::EAGAIN | Errno::EINPROGRESS | Errno::EPROTOTYPE) => Ok(true),
        Err(Errno::ECONNREFUSED | Errno::ENOENT) => Ok(false),
        Err(errno) => Err(errno),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn before_it_listens_the_socket_has_its_mode_and_refuses_everybody() {
        let root = tempfile::tempdir().unwrap();
        let options = SocketOptions::new(root.path().join("nri.sock"));
        let prepared = prepare(&options).unwrap();
        let metadata = std::fs::symlink_metadata(&options.path).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o7777, 0o600);
        assert_eq!(is_served(&options.path), Ok(false));
        drop(prepared);
        assert!(!options.path.exists(), "the file goes with its owner");
    }

    #[test]
    fn the_kernel_never_makes_the_file_wider_than_the_socket() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("s");
        let socket = socket(
            AddressFamily::Unix,
            SockType::Stream,
            SockFlag::SOCK_CLOEXEC,
            None,
        )
        .unwrap();
        fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
        bind(socket.as_raw_fd(), &UnixAddr::new(&path).unwrap()).unwrap();
        assert_eq!(
            std::fs::symlink_metadata(&path).unwrap().mode() & 0o177,
            0,
            "whatever the umask is"
        );
    }
}
