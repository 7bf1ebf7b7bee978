//! The registration socket as a file: made only where nothing else is, removed only while it is ours. Blocks.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, listen, socket,
};
use nix::sys::stat::{Mode, fchmod};

/// Kubelet has one connection at a time, its successor another.
const BACKLOG: i32 = 16;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Obstacle {
    #[error("{} is not there; kubelet makes it when it starts", .0.display())]
    NoDirectory(PathBuf),
    #[error("{} is {what}, and not the directory of registrations", .path.display())]
    NotADirectory { path: PathBuf, what: &'static str },
    #[error(
        "{} may be written by others than root (owner {uid}, mode {mode:04o}), who could put a socket there; chown and \
         chmod it", .path.display()
    )]
    Open { path: PathBuf, uid: u32, mode: u32 },
    #[error("somebody else listens on {}: is a registrar of this driver running?", .0.display())]
    Taken(PathBuf),
    #[error("{} is {what}, which is not replaced; remove it", .path.display())]
    InTheWay { path: PathBuf, what: &'static str },
    #[error("cannot {what} {}", .path.display())]
    System {
        what: &'static str,
        path: PathBuf,
        source: io::Error,
    },
}

/// A socket file of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Own {
    path: PathBuf,
    file: (u64, u64),
}

impl Own {
    /// Makes the socket, mode 0600, and listens on it.
    pub(crate) fn bind(path: &Path) -> Result<(Self, UnixListener), Obstacle> {
        let failed = |what: &'static str| {
            let path = path.to_owned();
            move |errno: Errno| Obstacle::System {
                what,
                path,
                source: errno.into(),
            }
        };
        check_directory(path)?;
        clear(path)?;
        let made = socket(
            AddressFamily::Unix,
            SockType::Stream,
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
            None,
        )
        .map_err(failed("make a socket for"))?;
        // The mode of the file that bind(2) makes: there is no moment at which others could connect.
        fchmod(&made, Mode::S_IRUSR | Mode::S_IWUSR).map_err(failed("set the mode of"))?;
        let address = UnixAddr::new(path).map_err(failed("name"))?;
        match bind(made.as_raw_fd(), &address) {
            Ok(()) => {}
            // Since it was looked: whoever it is, it is left alone.
            Err(Errno::EADDRINUSE) => return Err(Obstacle::Taken(path.to_owned())),
            Err(errno) => return Err(failed("bind")(errno)),
        }
        let own = Self {
            file: file(path).map_err(system("look at", path))?.id,
            path: path.to_owned(),
        };
        let listening = Backlog::new(BACKLOG).and_then(|backlog| listen(&made, backlog));
        if let Err(errno) = listening {
            own.remove();
            return Err(failed("listen on")(errno));
        }
        Ok((own, UnixListener::from(made)))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the file is still there.
    pub(crate) fn is_there(&self) -> bool {
        file(&self.path).is_ok_and(|found| found.id == self.file)
    }

    /// Removes the file, unless another one is there meanwhile.
    pub(crate) fn remove(&self) {
        if !self.is_there() {
            return;
        }
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(socket = %self.path.display(), %error, "the registration socket is not removed");
        }
    }
}

/// Removes a socket that nobody listens on. What else is there by now is somebody else's, and nothing is said of it.
pub(crate) fn discard(path: &Path) -> Result<(), Obstacle> {
    match check_directory(path).and_then(|()| clear(path)) {
        Err(Obstacle::System { what, path, source }) => {
            Err(Obstacle::System { what, path, source })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn system<'a>(what: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> Obstacle + 'a {
    move |source| Obstacle::System {
        what,
        path: path.to_owned(),
        source,
    }
}

/// Kubelet's directory, which it makes itself.
fn check_directory(socket: &Path) -> Result<(), Obstacle> {
    let dir = socket.parent().unwrap_or(Path::new("/"));
    let found = match fs::symlink_metadata(dir) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(Obstacle::NoDirectory(dir.to_owned()));
        }
        Err(error) => return Err(system("look at", dir)(error)),
    };
    if !found.is_dir() {
        return Err(Obstacle::NotADirectory {
            path: dir.to_owned(),
            what: kind(&found),
        });
    }
    let own = nix::unistd::geteuid().as_raw();
    if (found.uid() != 0 && found.uid() != own) || found.mode() & 0o022 != 0 {
        return Err(Obstacle::Open {
            path: dir.to_owned(),
            uid: found.uid(),
            mode: found.mode() & 0o7777,
        });
    }
    Ok(())
}

/// Removes a socket that nobody listens on any more: that of an earlier daemon, or of a registrar that was killed.
fn clear(path: &Path) -> Result<(), Obstacle> {
    let found = match file(path) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(system("look at", path)(error)),
    };
    if let Some(what) = found.other {
        let path = path.to_owned();
        return Err(Obstacle::InTheWay { path, what });
    }
    if answers(path)? {
        return Err(Obstacle::Taken(path.to_owned()));
    }
    // Only root and we can write here, so this is about mistakes: a socket that has come since is not removed.
    if file(path).is_ok_and(|now| now.id == found.id) {
        fs::remove_file(path).map_err(system("remove the dead socket", path))?;
        tracing::info!(socket = %path.display(), "a registration socket that nobody listened on is removed");
    }
    Ok(())
}

/// Whether somebody listens there. Never waits: a full queue is one that somebody has.
fn answers(path: &Path) -> Result<bool, Obstacle> {
    let tried = || -> Result<(), Errno> {
        let probe: OwnedFd = socket(
            AddressFamily::Unix,
            SockType::Stream,
            SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
            None,
        )?;
        connect(probe.as_raw_fd(), &UnixAddr::new(path)?)
    };
    match tried() {
        Ok(()) | Err(Errno::EAGAIN | Errno::EINPROGRESS) => Ok(true),
        // EPROTOTYPE: a socket of another type, which somebody has.
        Err(Errno::EPROTOTYPE) => Ok(true),
        Err(Errno::ECONNREFUSED | Errno::ENOENT) => Ok(false),
        Err(errno) => Err(system("connect to", path)(errno.into())),
    }
}

struct Found {
    id: (u64, u64),
    /// What it is, when it is no socket.
    other: Option<&'static str>,
}

fn file(path: &Path) -> io::Result<Found> {
    let found = fs::symlink_metadata(path)?;
    let socket = found.file_type().is_socket();
    Ok(Found {
        id: (found.dev(), found.ino()),
        other: (!socket).then(|| kind(&found)),
    })
}

fn kind(found: &fs::Metadata) -> &'static str {
    let kind = found.file_type();
    if kind.is_symlink() {
        "a symbolic link"
    } else if kind.is_dir() {
        "a directory"
    } else if kind.is_file() {
        "a file"
    } else {
        "no socket"
    }
}

#[cfg(test)]
mod tests;
