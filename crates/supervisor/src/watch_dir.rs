//! Changes in a directory, by inotify. A hint alone: whoever watches also reads now and then.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd, RawFd};
use std::path::Path;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A watched directory.
#[derive(Debug)]
pub(crate) struct WatchDir(AsyncFd<Watch>);

#[expect(
    deprecated,
    reason = "the successor is an unsafe fn; `Watch` keeps its descriptor open and the same"
)]
fn register(inotify: Inotify) -> io::Result<AsyncFd<Watch>> {
    AsyncFd::with_interest(Watch(inotify), Interest::READABLE)
}

/// nix's `Inotify` with the descriptor that tokio wants.
#[derive(Debug)]
struct Watch(Inotify);

impl AsRawFd for Watch {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}

impl WatchDir {
    /// Watches from now on. Must be called within a runtime.
    ///
    /// # Errors
    /// The directory is missing, or the user's inotify limit is reached.
    pub(crate) fn new(dir: &Path) -> io::Result<Self> {
        let events = AddWatchFlags::IN_CLOSE_WRITE
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_MOVED_FROM
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_ATTRIB
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF;
        Self::watch(&[dir], events)
    }

    /// Watches what is removed or moved away from these directories, and themselves.
    ///
    /// # Errors
    /// One is missing, or the user's inotify limit is reached.
    pub(crate) fn removals(dirs: &[&Path]) -> io::Result<Self> {
        let events = AddWatchFlags::IN_MOVED_FROM
            | AddWatchFlags::IN_DELETE
            | AddWatchFlags::IN_DELETE_SELF
            | AddWatchFlags::IN_MOVE_SELF;
        Self::watch(dirs, events)
    }

    fn watch(dirs: &[&Path], events: AddWatchFlags) -> io::Result<Self> {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)?;
        for dir in dirs {
            inotify.add_watch(*dir, events | AddWatchFlags::IN_ONLYDIR)?;
        }
        Ok(Self(register(inotify)?))
    }

    /// Waits for a change; for ever where nothing is watched. Cancel safe.
    pub(crate) async fn changed(watch: Option<&mut Self>) {
        let Some(watch) = watch else {
            return std::future::pending().await;
        };
        loop {
            let Ok(mut guard) = watch.0.readable().await else {
                return std::future::pending().await;
            };
            match guard.get_inner().0.read_events() {
                Ok(_) => return,
                Err(Errno::EAGAIN) => guard.clear_ready(),
                Err(error) => {
                    tracing::warn!(%error, "a directory is no longer watched");
                    return std::future::pending().await;
                }
            }
        }
    }
}
