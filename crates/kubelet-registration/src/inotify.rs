//! Changes of kubelet's directory, by inotify on it or, while it is not there, on the nearest one that is. Hints alone:
//! who watches looks now and then, too.

use std::io;
use std::os::fd::{AsFd as _, AsRawFd, RawFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;

/// How often it is looked when nothing tells that something happened, and where nothing can tell.
const LOOK: Duration = Duration::from_secs(60);
const LOOK_UNTOLD: Duration = Duration::from_secs(5);
/// What happens together is looked at together.
const SETTLE: Duration = Duration::from_millis(20);

const EVENTS: AddWatchFlags = AddWatchFlags::IN_CREATE
    .union(AddWatchFlags::IN_DELETE)
    .union(AddWatchFlags::IN_MOVED_TO)
    .union(AddWatchFlags::IN_MOVED_FROM)
    .union(AddWatchFlags::IN_ATTRIB)
    .union(AddWatchFlags::IN_DELETE_SELF)
    .union(AddWatchFlags::IN_MOVE_SELF)
    .union(AddWatchFlags::IN_ONLYDIR);

/// Counts `looks` up whenever a look is worth it, until nobody reads it any more.
pub(crate) async fn follow(dir: PathBuf, looks: watch::Sender<u64>) {
    let mut watching = Watching::new();
    loop {
        // Before the look: what happens during it is told as well.
        let told = watching.aim(&dir);
        looks.send_modify(|count| *count += 1);
        let pause = if told { LOOK } else { LOOK_UNTOLD };
        tokio::select! {
            () = watching.changed() => tokio::time::sleep(SETTLE).await,
            () = tokio::time::sleep(pause) => {}
            () = looks.closed() => return,
        }
    }
}

struct Watching {
    inotify: Option<AsyncFd<Fd>>,
    aim: Option<WatchDescriptor>,
}

impl Watching {
    fn new() -> Self {
        let inotify = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC)
            .map_err(io::Error::from)
            .and_then(register);
        if let Err(error) = &inotify {
            tracing::debug!(%error, "no inotify instance, kubelet's directory is looked at now and then");
        }
        Self {
            inotify: inotify.ok(),
            aim: None,
        }
    }

    /// Whether changes are told from now on.
    fn aim(&mut self, dir: &Path) -> bool {
        let Some(inotify) = &self.inotify else {
            return false;
        };
        let inotify = &inotify.get_ref().0;
        let found = dir
            .ancestors()
            .find_map(|dir| inotify.add_watch(dir, EVENTS).ok());
        if let Some(old) = self.aim.take()
            && Some(old) != found
        {
            // Fails when the directory is gone, and its watch with it.
            let _ = inotify.rm_watch(old);
        }
        self.aim = found;
        found.is_some()
    }

    /// Cancel safe.
    async fn changed(&self) {
        let Some(inotify) = &self.inotify else {
            return std::future::pending().await;
        };
        loop {
            let Ok(mut ready) = inotify.readable().await else {
                return std::future::pending().await;
            };
            match inotify.get_ref().0.read_events() {
                // Also that a watch was given up: one more look does no harm.
                Ok(_) => return,
                Err(Errno::EAGAIN) => ready.clear_ready(),
                Err(error) => {
                    tracing::debug!(%error, "inotify cannot be read");
                    return std::future::pending().await;
                }
            }
        }
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
