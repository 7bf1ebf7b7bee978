//! Accepting connections of welcome peers.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Interval, MissedTickBehavior};

use nix::errno::Errno;
use tokio::net::{UnixListener, UnixStream};

use super::bind::{self, Bound, SocketFile};
use super::{Peer, SocketError, SocketOptions, is_worth_a_line, peer};

/// How long to wait when the process or the system is out of descriptors or memory.
const EXHAUSTED: Duration = Duration::from_millis(100);

/// How often it is looked whether the file of the socket is still there.
const LOOK: Duration = Duration::from_secs(2);

/// A listening socket. Dropping it removes the file if it is still the one that was bound. One whose file somebody removes is
/// bound again within a few seconds, unless another runtime has taken the place; then once that has gone.
#[derive(Debug)]
pub struct Listener {
    // Before the listener in this order: as long as that is open nobody takes the path for stale.
    file: Option<SocketFile>,
    listener: UnixListener,
    options: SocketOptions,
    refused: AtomicU64,
    look: Interval,
}

impl Listener {
    /// Binds the socket and listens. Blocks for a few system calls.
    ///
    /// # Errors
    /// [`SocketError`]: the path or mode is no good, the directory is not safe, another runtime
    /// serves the path, something else lies there, or the system refuses.
    ///
    /// # Panics
    /// Outside a tokio runtime with I/O enabled.
    pub fn bind(options: &SocketOptions) -> Result<Self, SocketError> {
        let (listener, file) = listen(options)?;
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ok(Self {
            file: Some(file),
            listener,
            options: options.clone(),
            refused: AtomicU64::new(0),
            look,
        })
    }

    /// The next connection of a peer that is allowed. Others are closed, counted and logged.
    ///
    /// Cancel safe: a connection that has been accepted is not lost.
    ///
    /// # Errors
    /// [`SocketError::Accept`] when the socket itself is broken; being out of descriptors is waited
    /// for instead.
    pub async fn accept(&mut self) -> Result<(UnixStream, Peer), SocketError> {
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                _ = self.look.tick() => {
                    self.bind_again_if_lost();
                    continue;
                }
            };
            let stream = match accepted {
                Ok((stream, _)) => stream,
                Err(error) if is_of_one_connection(&error) => continue,
                Err(error) if is_exhaustion(&error) => {
                    tracing::warn!(path = %self.path().display(), %error, "cannot accept a connection yet");
                    tokio::time::sleep(EXHAUSTED).await;
                    continue;
                }
                Err(source) => {
                    return Err(SocketError::Accept {
                        path: self.options.path.clone(),
                        source,
                    });
                }
            };
            match peer::judge(&stream, &self.options.allow) {
                (peer, Ok(())) => return Ok((stream, peer)),
                (peer, Err(refusal)) => self.refuse(&peer, &refusal),
            }
        }
    }

    /// How many connections were refused so far.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.options.path
    }

    fn bind_again_if_lost(&mut self) {
        if self.file.as_ref().is_some_and(SocketFile::is_there) {
            return;
        }
        let path = self.options.path.display();
        let first = self.file.take().is_some();
        if first {
            tracing::warn!(%path, "somebody removed the socket");
        }
        match listen(&self.options) {
            Ok((listener, file)) => {
                (self.listener, self.file) = (listener, Some(file));
                tracing::info!(%path, "the socket is bound again");
            }
            Err(error) if first => {
                tracing::warn!(%path, %error, "the socket cannot be bound again yet");
            }
            Err(_) => {}
        }
    }

    fn refuse(&self, peer: &Peer, refusal: &super::Refusal) {
        let count = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
        if is_worth_a_line(count) {
            tracing::warn!(
                path = %self.path().display(),
                pid = peer.pid,
                uid = peer.uid,
                gid = peer.gid,
                executable = ?peer.executable,
                count,
                reason = %refusal,
                "refused a connection"
            );
        }
    }
}

fn listen(options: &SocketOptions) -> Result<(UnixListener, SocketFile), SocketError> {
    let Bound { listener, file } = bind::listen_at(options)?;
    let listener = UnixListener::from_std(listener).map_err(|source| SocketError::Bind {
        path: options.path.clone(),
        doing: "watch",
        source,
    })?;
    Ok((listener, file))
}

/// The peer has gone again before it was accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        Errno::from_raw(error.raw_os_error().unwrap_or(0)),
        Errno::ECONNABORTED | Errno::EINTR | Errno::EPERM | Errno::EPROTO
    )
}

fn is_exhaustion(error: &io::Error) -> bool {
    matches!(
        Errno::from_raw(error.raw_os_error().unwrap_or(0)),
        Errno::EMFILE | Errno::ENFILE | Errno::ENOBUFS | Errno::ENOMEM
    )
}
