//! The shim that is started ahead of its container.
//!
//! ```text
//!  none --a launch is answered--> started --the next launch--> ordered: that container's shim
//!   ^                               |                            '-- gone: a fresh one is started instead
//!   '--------- the agent ends ------'
//! ```
//!
//! There is at most one, and none before the first launch. It is no container and holds nothing of one; it ends with
//! the agent, however that ends.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

use crate::options::ShimCommand;
use crate::shim::{spare, sys};

/// The place of the spare shim.
#[derive(Debug)]
pub(super) struct Spares {
    shim: ShimCommand,
    /// The most bytes that a container's directory has.
    longest: usize,
    place: Mutex<Place>,
}

#[derive(Debug)]
enum Place {
    Empty,
    BeingStarted,
    Taken(Spare),
    /// None is wanted (any more).
    Closed,
}

#[derive(Debug)]
struct Spare {
    /// `None` when it has been given away.
    process: Option<OwnedFd>,
    orders: OwnedFd,
}

impl Spares {
    pub(super) fn new(shim: ShimCommand, longest: usize, wanted: bool) -> Self {
        let place = if wanted { Place::Empty } else { Place::Closed };
        Self {
            shim,
            longest,
            place: Mutex::new(place),
        }
    }

    /// Whether one waits.
    pub(super) fn waits(&self) -> bool {
        matches!(*self.lock(), Place::Taken(_))
    }

    /// Makes the spare the shim of the container in `dir`; gives its pidfd, or `None` when there is none (any more).
    pub(super) fn use_up(&self, dir: &Path, lock: impl AsFd, report: impl AsFd) -> Option<OwnedFd> {
        let mut spare = {
            let mut place = self.lock();
            match std::mem::replace(&mut *place, Place::Empty) {
                Place::Taken(spare) => spare,
                other => {
                    *place = other;
                    return None;
                }
            }
        };
        if let Err(error) = spare::order(spare.orders.as_fd(), dir, lock.as_fd(), report.as_fd()) {
            tracing::debug!(%error, "the spare shim is gone");
            return None;
        }
        let process = spare.process.take()?;
        // Somebody may have stopped it while it waited.
        let _gone = sys::pidfd_send_signal(process.as_fd(), libc::SIGCONT);
        Some(process)
    }

    /// Starts one where there is none. Blocks for as long as that takes.
    pub(super) fn refill(&self) {
        {
            let mut place = self.lock();
            match *place {
                Place::Empty => *place = Place::BeingStarted,
                Place::BeingStarted | Place::Taken(_) | Place::Closed => return,
            }
        }
        let started = Spare::start(&self.shim, self.longest);
        let mut place = self.lock();
        if !matches!(*place, Place::BeingStarted) {
            return;
        }
        *place = match started {
            Ok(spare) => Place::Taken(spare),
            Err(error) => {
                // The next launch starts its own, and says so where that fails, too.
                tracing::debug!(%error, "no spare shim");
                Place::Empty
            }
        };
    }

    /// Ends the spare; there will be none any more. Blocks until it is gone.
    pub(super) fn close(&self) {
        drop(std::mem::replace(&mut *self.lock(), Place::Closed));
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Spare {
    fn start(shim: &ShimCommand, longest: usize) -> io::Result<Self> {
        let (orders, its_end) = socketpair(
            AddressFamily::Unix,
            SockType::SeqPacket,
            None,
            SockFlag::SOCK_CLOEXEC,
        )?;
        let mut command = Command::new(&shim.program);
        command
            .args(&shim.args)
            .arg(spare::argument(longest))
            .stdin(Stdio::from(its_end))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        Ok(Self {
            process: Some(spawn(command)?),
            orders,
        })
    }
}

impl Drop for Spare {
    fn drop(&mut self) {
        if let Some(process) = &self.process {
            let _gone = sys::pidfd_send_signal(process.as_fd(), libc::SIGKILL);
            sys::await_pidfd(process.as_fd());
        }
    }
}

/// Starts a shim with an empty environment; gives its pidfd.
pub(super) fn spawn(mut command: Command) -> io::Result<OwnedFd> {
    let mut child = command.env_clear().spawn()?;
    let pid = i32::try_from(child.id()).map_err(io::Error::other)?;
    // Nobody but us waits for it, so its pid is still its own.
    sys::pidfd_open(pid).inspect_err(|_| {
        // Out of descriptors: what cannot be watched must not run.
        let _already_gone = child.kill();
        let _reaped = child.wait();
    })
}
