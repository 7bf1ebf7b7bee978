//! The directory that a plugin's socket lives in: `<runtime_dir>/csi/<short>`, mode 0700, owned by
//! the container's user.
//!
//! Its parents are ours alone; what is *inside* belongs to the plugin and may be anything. So every
//! step goes from directory handle to directory handle with `O_NOFOLLOW`, owner and mode are
//! checked before each use and deletion, and a name in it is unlinked, never followed.

use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use longshore_paths::{PathsError, RuntimeDir, check_socket_path};
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat, mkdirat};
use nix::unistd::{Gid, Uid, UnlinkatFlags, fchown, geteuid, unlinkat};

#[cfg(test)]
mod tests;

/// The most entries that are removed from a directory, so that a plugin cannot keep us busy.
const ENTRIES_MAX: usize = 1_024;

/// Why a socket directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SocketError {
    #[error(transparent)]
    Path(#[from] PathsError),
    #[error("cannot {what} {}", path.display())]
    Io {
        what: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{} is {found}, expected {expected}: remove it", path.display())]
    Planted {
        path: PathBuf,
        found: String,
        expected: String,
    },
    #[error("the user {user:?} of the container does not exist")]
    NoUser { user: String },
}

/// Who owns the directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    pub(crate) uid: Uid,
    pub(crate) gid: Option<Gid>,
}

impl Owner {
    /// The user of a command, by name or number; ourselves when it names none. Looks it up in the
    /// user database, so it blocks.
    pub(crate) fn of(user: Option<&str>) -> Result<Self, SocketError> {
        let Some(user) = user.filter(|user| !user.is_empty()) else {
            return Ok(Self {
                uid: geteuid(),
                gid: None,
            });
        };
        let found = nix::unistd::User::from_name(user).ok().flatten();
        match (found, user.parse::<u32>()) {
            (Some(found), _) => Ok(Self {
                uid: found.uid,
                gid: Some(found.gid),
            }),
            (None, Ok(number)) => Ok(Self {
                uid: Uid::from_raw(number),
                gid: None,
            }),
            (None, Err(_)) => Err(SocketError::NoUser {
                user: user.to_owned(),
            }),
        }
    }
}

/// One plugin container's socket directory. All methods block for microseconds.
#[derive(Clone, Debug)]
pub(crate) struct SocketDir {
    runtime: RuntimeDir,
    short: String,
    owner: Owner,
}

impl SocketDir {
    pub(crate) fn new(runtime: &RuntimeDir, short: &str, owner: Owner) -> Self {
        Self {
            runtime: runtime.clone(),
            short: short.to_owned(),
            owner,
        }
    }

    pub(crate) fn uid(&self) -> u32 {
        self.owner.uid.as_raw()
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.runtime.csi_socket_dir(&self.short)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.runtime.csi_socket(&self.short)
    }

    /// Before a launch: the directory is there, is what it must be, and holds no stale socket.
    /// A path that is too long leaves nothing behind.
    pub(crate) fn prepare(&self) -> Result<(), SocketError> {
        check_socket_path(&self.socket())?;
        let parent = self
            .parent(true)?
            .ok_or_else(|| self.io("create", Errno::ENOENT))?;
        match mkdirat(&parent, self.short.as_str(), Mode::S_IRWXU) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(error) => return Err(self.io("create", error)),
        }
        let dir = self
            .open(&parent)?
            .ok_or_else(|| self.io("open", Errno::ENOENT))?;
        self.adopt(&dir)?;
        self.verify(&dir)?;
        self.unlink_socket(&dir)
    }

    /// Before a use: true when the directory is there and is what it must be.
    pub(crate) fn check(&self) -> Result<bool, SocketError> {
        let Some(parent) = self.parent(false)? else {
            return Ok(false);
        };
        let Some(dir) = self.open(&parent)? else {
            return Ok(false);
        };
        self.verify(&dir).map(|()| true)
    }

    /// After a stop: no socket is left.
    pub(crate) fn remove_socket(&self) -> Result<(), SocketError> {
        let Some(parent) = self.parent(false)? else {
            return Ok(());
        };
        let Some(dir) = self.open(&parent)? else {
            return Ok(());
        };
        self.verify(&dir)?;
        self.unlink_socket(&dir)
    }

    /// The plugin is gone for good: so is its directory, with what it left there. A directory
    /// inside that is not empty (a mount may be there) is left, and an error.
    pub(crate) fn remove(&self) -> Result<(), SocketError> {
        let Some(parent) = self.parent(false)? else {
            return Ok(());
        };
        let Some(dir) = self.open(&parent)? else {
            return Ok(());
        };
        self.verify(&dir)?;
        let mut list = Dir::from_fd(dir).map_err(|error| self.io("list", error))?;
        let mut names = Vec::new();
        for entry in list.iter().take(ENTRIES_MAX) {
            let entry = entry.map_err(|error| self.io("list", error))?;
            if ![c".", c".."].contains(&entry.file_name()) {
                names.push(entry.file_name().to_owned());
            }
        }
        for name in names {
            let flag = UnlinkatFlags::NoRemoveDir;
            match unlinkat(&list, name.as_c_str(), flag) {
                Err(Errno::EISDIR | Errno::EPERM) => {
                    let removed = unlinkat(&list, name.as_c_str(), UnlinkatFlags::RemoveDir);
                    removed.map_err(|error| self.io("remove a directory in", error))?;
                }
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(error) => return Err(self.io("empty", error)),
            }
        }
        match unlinkat(&parent, self.short.as_str(), UnlinkatFlags::RemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(error) => Err(self.io("remove", error)),
        }
    }

    /// `<runtime_dir>/csi`, which must be ours alone.
    fn parent(&self, create: bool) -> Result<Option<OwnedFd>, SocketError> {
        let path = self.path();
        let parent = path.parent().unwrap_or(Path::new("/"));
        let root = self.runtime.path();
        // A plugin of another user must get through to its directory.
        let others = if geteuid().is_root() {
            Mode::S_IXGRP | Mode::S_IXOTH
        } else {
            Mode::empty()
        };
        let mode = Mode::S_IRWXU | others;
        if create {
            let mut builder = std::fs::DirBuilder::new();
            std::os::unix::fs::DirBuilderExt::mode(&mut builder, mode.bits());
            let created = builder.recursive(true).create(root);
            created.map_err(|source| io_at("create", root, source))?;
        }
        let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        let base = match nix::fcntl::open(root, flags, Mode::empty()) {
            Ok(base) => base,
            Err(Errno::ENOENT) if !create => return Ok(None),
            Err(error) => return Err(io_at("open", root, error.into())),
        };
        only_ours(root, &stat(root, &base)?)?;
        let name = parent.file_name().unwrap_or_default();
        if create {
            match mkdirat(&base, name, mode) {
                // Whatever the umask is.
                Ok(()) => {
                    let made = openat(&base, name, flags | OFlag::O_NOFOLLOW, Mode::empty());
                    let made = made.map_err(|error| io_at("open", parent, error.into()))?;
                    fchmod(&made, mode).map_err(|e| io_at("set the mode of", parent, e.into()))?;
                }
                Err(Errno::EEXIST) => {}
                Err(error) => return Err(io_at("create", parent, error.into())),
            }
        }
        match openat(&base, name, flags | OFlag::O_NOFOLLOW, Mode::empty()) {
            Ok(dir) => {
                only_ours(parent, &stat(parent, &dir)?)?;
                Ok(Some(dir))
            }
            Err(Errno::ENOENT) if !create => Ok(None),
            Err(Errno::ELOOP | Errno::ENOTDIR) => Err(planted(
                parent,
                "no directory".to_owned(),
                "a directory of ours".to_owned(),
            )),
            Err(error) => Err(io_at("open", parent, error.into())),
        }
    }

    fn open(&self, parent: &OwnedFd) -> Result<Option<OwnedFd>, SocketError> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC | OFlag::O_NOFOLLOW;
        match openat(parent, self.short.as_str(), flags, Mode::empty()) {
            Ok(dir) => Ok(Some(dir)),
            Err(Errno::ENOENT) => Ok(None),
            Err(Errno::ELOOP | Errno::ENOTDIR) => Err(planted(
                &self.path(),
                "no directory".to_owned(),
                self.expected(),
            )),
            Err(error) => Err(self.io("open", error)),
        }
    }

    /// Hands a new directory over to the container's user. One that is ours still, since a crash
    /// came between, is only handed over while it is empty.
    fn adopt(&self, dir: &OwnedFd) -> Result<(), SocketError> {
        let found = stat(&self.path(), dir)?;
        let ours = found.st_uid == geteuid().as_raw();
        if !ours || self.owner.uid == geteuid() || found.st_nlink > 2 {
            return Ok(());
        }
        let copy = dir
            .try_clone()
            .map_err(|source| io_at("open", &self.path(), source))?;
        let mut list = Dir::from_fd(copy).map_err(|error| self.io("list", error))?;
        let named = |name: &CStr| name != c"." && name != c"..";
        if list.iter().flatten().any(|entry| named(entry.file_name())) {
            return Ok(());
        }
        fchown(dir, Some(self.owner.uid), self.owner.gid)
            .map_err(|error| self.io("hand over", error))
    }

    fn verify(&self, dir: &OwnedFd) -> Result<(), SocketError> {
        let found = stat(&self.path(), dir)?;
        let mode = found.st_mode & 0o7777;
        if found.st_uid == self.owner.uid.as_raw() && mode == 0o700 {
            return Ok(());
        }
        let words = format!("owned by uid {} with mode {mode:o}", found.st_uid);
        Err(planted(&self.path(), words, self.expected()))
    }

    fn expected(&self) -> String {
        format!("a directory owned by uid {} with mode 700", self.owner.uid)
    }

    /// Unlinks whatever has the socket's name: a link is removed, not followed.
    fn unlink_socket(&self, dir: &OwnedFd) -> Result<(), SocketError> {
        let socket = self.socket();
        let name = socket.file_name().unwrap_or_default();
        match unlinkat(dir, name, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => Ok(()),
            Err(error) => Err(io_at("remove", &socket, error.into())),
        }
    }

    fn io(&self, what: &'static str, error: Errno) -> SocketError {
        io_at(what, &self.path(), error.into())
    }
}

fn stat(path: &Path, dir: &OwnedFd) -> Result<FileStat, SocketError> {
    fstat(dir).map_err(|error| io_at("look at", path, error.into()))
}

/// Ours, and nobody else can write there.
fn only_ours(path: &Path, found: &FileStat) -> Result<(), SocketError> {
    let writable = found.st_mode & (Mode::S_IWGRP | Mode::S_IWOTH).bits() != 0;
    if found.st_uid == geteuid().as_raw() && !writable {
        return Ok(());
    }
    let kind = SFlag::from_bits_truncate(found.st_mode) & SFlag::S_IFMT;
    let what = if kind == SFlag::S_IFDIR {
        "a directory"
    } else {
        "something"
    };
    let mode = found.st_mode & 0o7777;
    let words = format!("{what} of uid {} with mode {mode:o}", found.st_uid);
    Err(planted(
        path,
        words,
        format!("only writable for uid {}", geteuid()),
    ))
}

fn planted(path: &Path, found: String, expected: String) -> SocketError {
    SocketError::Planted {
        path: path.to_owned(),
        found,
        expected,
    }
}

fn io_at(what: &'static str, path: &Path, source: io::Error) -> SocketError {
    SocketError::Io {
        what,
        path: path.to_owned(),
        source,
    }
}
