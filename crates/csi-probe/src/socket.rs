//! Waiting for a socket file: inotify on the nearest directory that exists, and a slow rescan.
//!
//! ```text
//!   look ── it is a socket ──────────────► done
//!    ▲  └── something else ──────────────► NotASocket
//!    │  └── nothing
//!    │        ▼
//!    │   watch the nearest existing ancestor ── look once more (it may have come meanwhile)
//!    │        ▼
//!    └── an event for the next component │ the rescan is due │ the deadline ─► TimedOut
//! ```
//!
//! A directory that does not exist yet is waited for component by component, and one that is removed
//! or moved away while we look at it is looked up anew.

use std::{
    ffi::{OsStr, OsString},
    fs,
    io::{self, ErrorKind},
    os::{
        fd::{AsFd, AsRawFd, RawFd},
        unix::fs::{FileTypeExt, MetadataExt},
    },
    path::{Path, PathBuf},
    time::Duration,
};

use nix::{
    errno::Errno,
    sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor},
};
use tokio::{
    io::{Interest, unix::AsyncFd},
    runtime::Handle,
    time::{Instant, sleep_until, timeout_at},
};

use crate::{Endpoint, ProbeError, Waiting};

/// How often the path is looked at although no event came (a bind mount or an overlay gives none).
const RESCAN: Duration = Duration::from_secs(1);

/// The same where the kernel gives us no inotify instance (its per-user limit): Mesos polls as often.
const POLL: Duration = Duration::from_millis(10);

const EVENTS: AddWatchFlags = AddWatchFlags::IN_CREATE
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_ATTRIB)
    .union(AddWatchFlags::IN_DELETE_SELF)
    .union(AddWatchFlags::IN_MOVE_SELF)
    .union(AddWatchFlags::IN_ONLYDIR);

/// Whether a symbolic link may stand where a socket is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Links {
    /// A link is followed, as `connect(2)` does (Mesos' own socket directories are links).
    #[default]
    Follow,
    /// The last component must be the socket itself. It is opened without following and connected to through
    /// that handle, so nobody can swap it in between.
    Refuse,
}

/// Which file a socket is: another one at the same path is another plugin process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SocketId {
    /// Device number.
    pub device: u64,
    /// Inode number.
    pub inode: u64,
}

impl SocketId {
    /// The file at `path` (links are followed), if there is one.
    #[must_use]
    pub fn of(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|m| Self {
            device: m.dev(),
            inode: m.ino(),
        })
    }
}

/// Waits until a socket file exists at `path`. It says nothing about anybody listening on it.
///
/// The directories on the way need not exist yet. Cancel safe: dropping the future leaves nothing behind.
///
/// # Errors
/// [`ProbeError::NotASocket`] when something else is there; [`ProbeError::TimedOut`] at the deadline.
pub async fn wait_for_socket(path: &Path, deadline: Instant) -> Result<(), ProbeError> {
    wait(path, Links::Follow, deadline).await
}

pub(crate) async fn wait(path: &Path, links: Links, deadline: Instant) -> Result<(), ProbeError> {
    let started = Instant::now();
    if look(path, links)? {
        return Ok(());
    }
    let mut watch = Watch::new();
    loop {
        watch.aim(path);
        if look(path, links)? {
            return Ok(());
        }
        let rescan = Instant::now() + if watch.is_live() { RESCAN } else { POLL };
        if rescan.min(deadline) == deadline {
            if timeout_at(deadline, watch.changed()).await.is_err() {
                if look(path, links)? {
                    return Ok(());
                }
                return Err(ProbeError::TimedOut {
                    endpoint: Endpoint::Unix(path.to_owned()),
                    after: started.elapsed(),
                    waiting: Waiting::Socket,
                });
            }
        } else if timeout_at(rescan, watch.changed()).await.is_err() {
            // Time to look without having been told.
        }
    }
}

/// Whether a socket is at the path; an error when something else is.
fn look(path: &Path, links: Links) -> Result<bool, ProbeError> {
    let found = match links {
        Links::Follow => fs::metadata(path),
        Links::Refuse => fs::symlink_metadata(path),
    };
    match found {
        Ok(meta) if meta.file_type().is_socket() => Ok(true),
        Ok(meta) => Err(not_a_socket(path, meta.file_type())),
        // No such file, a parent that is missing or is (still) a file, no permission: what comes later may be better.
        Err(_) => Ok(false),
    }
}

pub(crate) fn not_a_socket(path: &Path, kind: fs::FileType) -> ProbeError {
    let found = if kind.is_dir() {
        "a directory"
    } else if kind.is_symlink() {
        "a symbolic link"
    } else if kind.is_fifo() {
        "a fifo"
    } else if kind.is_file() {
        "a regular file"
    } else {
        "a device"
    };
    ProbeError::NotASocket {
        path: path.to_owned(),
        found,
    }
}

/// One inotify instance aimed at one directory.
struct Watch {
    inotify: Option<AsyncFd<Fd>>,
    aim: Option<Aim>,
}

struct Aim {
    directory: PathBuf,
    descriptor: WatchDescriptor,
    /// The component whose coming is worth a look.
    next: OsString,
}

impl Watch {
    fn new() -> Self {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)
            .map_err(io::Error::from)
            .and_then(register);
        if let Err(error) = &inotify {
            tracing::debug!(%error, "no inotify instance, polling instead");
        }
        Self {
            inotify: inotify.ok(),
            aim: None,
        }
    }

    const fn is_live(&self) -> bool {
        self.inotify.is_some() && self.aim.is_some()
    }

    /// Watches the nearest ancestor of `path` that exists.
    fn aim(&mut self, path: &Path) {
        let Some(inotify) = &self.inotify else { return };
        let inotify = &inotify.get_ref().0;
        let mut next = path.file_name().unwrap_or(OsStr::new("")).to_owned();
        let mut directory = parent(path);
        loop {
            match inotify.add_watch(&directory, EVENTS) {
                Ok(descriptor) => {
                    if let Some(old) = self.aim.take()
                        && old.descriptor != descriptor
                    {
                        // Fails when the directory is gone, and its watch with it.
                        let _ = inotify.rm_watch(old.descriptor);
                    }
                    self.aim = Some(Aim {
                        directory,
                        descriptor,
                        next,
                    });
                    return;
                }
                Err(Errno::ENOENT | Errno::ENOTDIR | Errno::EACCES | Errno::ELOOP) => {
                    let up = parent(&directory);
                    if up == directory {
                        break;
                    }
                    next = directory.file_name().unwrap_or(OsStr::new("")).to_owned();
                    directory = up;
                }
                Err(error) => {
                    tracing::debug!(%error, directory = %directory.display(), "no inotify watch, polling instead");
                    break;
                }
            }
        }
        self.aim = None;
    }

    /// Ends when something happened that is worth a look. Cancel safe.
    async fn changed(&self) {
        let (Some(inotify), Some(aim)) = (&self.inotify, &self.aim) else {
            return std::future::pending().await;
        };
        loop {
            let Ok(mut ready) = inotify.readable().await else {
                return std::future::pending().await;
            };
            match inotify.get_ref().0.read_events() {
                Ok(events) => {
                    let ours = events.iter().any(|event| {
                        event.name.as_ref().is_none_or(|name| *name == aim.next)
                            || event.wd != aim.descriptor
                            || event.mask.contains(AddWatchFlags::IN_Q_OVERFLOW)
                    });
                    if ours {
                        return;
                    }
                }
                Err(Errno::EAGAIN) => ready.clear_ready(),
                Err(error) => {
                    tracing::debug!(%error, directory = %aim.directory.display(), "inotify cannot be read");
                    // Not a busy loop: the rescan goes on at its pace.
                    return sleep_until(Instant::now() + POLL).await;
                }
            }
        }
    }
}

impl Drop for Watch {
    /// Closing an inotify instance waits for an RCU grace period in the kernel: 8 ms and more, measured. That is neither
    /// spent between a plugin that listens and its probe, nor on a thread that drives other plugins.
    fn drop(&mut self) {
        if let (Some(inotify), Ok(runtime)) = (self.inotify.take(), Handle::try_current()) {
            let inotify = inotify.into_inner();
            drop(runtime.spawn_blocking(move || drop(inotify)));
        }
    }
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(up) if up.as_os_str().is_empty() => PathBuf::from("."),
        Some(up) => up.to_owned(),
        None => path.to_owned(),
    }
}

#[expect(
    deprecated,
    reason = "the successor is an unsafe fn; `Fd` keeps its descriptor open and the same"
)]
fn register(inotify: Inotify) -> io::Result<AsyncFd<Fd>> {
    AsyncFd::with_interest(Fd(inotify), Interest::READABLE)
}

/// `AsyncFd` wants a raw descriptor, nix lends an owned one.
struct Fd(Inotify);

impl AsRawFd for Fd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

/// Whether an error of `connect(2)` says that nothing is there.
pub(crate) fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}
