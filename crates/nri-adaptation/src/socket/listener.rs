//! Accepting connections of welcome peers.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::errno::Errno;
use tokio::net::{UnixListener, UnixStream};

use super::bind::{self, Bound, SocketFile};
use super::{Peer, PeerAllow, SocketError, SocketOptions, peer};

/// How long to wait when the process or the system is out of descriptors or memory.
const EXHAUSTED: Duration = Duration::from_millis(100);

/// Of the refused peers, the first so many are logged one by one, later ones at every power of two.
const LOGGED: u64 = 16;

/// A listening socket. Dropping it removes the file if it is still the one that was bound.
#[derive(Debug)]
pub struct Listener {
    // Before the listener in this order: as long as that is open nobody takes the path for stale.
    _file: SocketFile,
    listener: UnixListener,
    path: PathBuf,
    allow: PeerAllow,
    refused: AtomicU64,
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
        let Bound { listener, file } = bind::listen_at(options)?;
        let listener = UnixListener::from_std(listener).map_err(|source| SocketError::Bind {
            path: options.path.clone(),
            doing: "watch",
            source,
        })?;
        Ok(Self {
            _file: file,
            listener,
            path: options.path.clone(),
            allow: options.allow.clone(),
            refused: AtomicU64::new(0),
        })
    }

    /// The next connection of a peer that is allowed. Others are closed, counted and logged.
    ///
    /// Cancel safe: a connection that has been accepted is not lost.
    ///
    /// # Errors
    /// [`SocketError::Accept`] when the socket itself is broken; being out of descriptors is waited
    /// for instead.
    pub async fn accept(&self) -> Result<(UnixStream, Peer), SocketError> {
        loop {
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) if is_of_one_connection(&error) => continue,
                Err(error) if is_exhaustion(&error) => {
                    tracing::warn!(path = %self.path.display(), %error, "cannot accept a connection yet");
                    tokio::time::sleep(EXHAUSTED).await;
                    continue;
                }
                Err(source) => {
                    return Err(SocketError::Accept {
                        path: self.path.clone(),
                        source,
                    });
                }
            };
            match peer::judge(&stream, &self.allow) {
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
        &self.path
    }

    fn refuse(&self, peer: &Peer, refusal: &super::Refusal) {
        let count = self.refused.fetch_add(1, Ordering::Relaxed) + 1;
        if count <= LOGGED || count.is_power_of_two() {
            tracing::warn!(
                path = %self.path.display(),
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
