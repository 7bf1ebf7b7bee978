//! The control socket: 0600 in a 0700 directory, for uid 0 and the daemon's own user; with a group 0660 in 0750, and for its
//! members (`access.rs`).

use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use longshore_nri_adaptation::socket::Listener;
use longshore_paths::{RuntimeDir, check_socket_path};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::Sleep;
use tonic::transport::server::Connected;

use super::access::{Access, Peer};
use crate::SupervisorError;
use crate::dirs::check_ours;
use crate::watch_dir::WatchDir;

/// Connections at a time; one more waits.
const CONNECTIONS: usize = 64;

/// How long a connection may take to its first byte; one that never speaks keeps out no other.
const FIRST_BYTE: Duration = Duration::from_secs(5);

/// How often it is looked whether the socket is still there when nothing tells that it is gone, and where nothing can
/// tell.
const LOOK: Duration = Duration::from_secs(60);
const LOOK_UNTOLD: Duration = Duration::from_secs(5);

/// The bound socket, removed when dropped. Bound again when somebody else has removed it.
#[derive(Debug)]
pub(crate) struct ControlSocket {
    runtime: RuntimeDir,
    access: Access,
    listener: UnixListener,
    path: PathBuf,
    /// It is gone, and that has been told.
    lost: bool,
    /// Tells when somebody removes it.
    watch: Option<WatchDir>,
}

impl ControlSocket {
    /// Binds the socket; what an earlier daemon left there is replaced (the caller holds the
    /// runtime directory's lock).
    pub(crate) fn bind(runtime: &RuntimeDir, access: Access) -> Result<Self, SupervisorError> {
        Ok(Self {
            runtime: runtime.clone(),
            listener: Self::open(runtime, &access)?,
            access,
            path: runtime.control_socket(),
            lost: false,
            watch: None,
        })
    }

    fn open(runtime: &RuntimeDir, access: &Access) -> Result<UnixListener, SupervisorError> {
        let path = runtime.control_socket();
        check_socket_path(&path).map_err(|source| SupervisorError::Path { source })?;
        let dir = runtime.control_dir();
        let failed = |source| SupervisorError::Control {
            path: path.clone(),
            source,
        };
        match std::fs::DirBuilder::new().mode(0o700).create(&dir) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed(error));
            }
            Ok(()) | Err(_) => {}
        }
        let found = std::fs::symlink_metadata(&dir).map_err(failed)?;
        if found.is_symlink() {
            return Err(SupervisorError::NotOurs {
                key: "runtime_dir",
                path: dir,
                problem: "is a symbolic link, and this directory is never elsewhere".to_owned(),
            });
        }
        check_ours("runtime_dir", &dir)?;
        let mode = std::fs::Permissions::from_mode;
        // Closed while it is handed over.
        std::fs::set_permissions(&dir, mode(0o700)).map_err(failed)?;
        remove(&path).map_err(failed)?;
        let listener = UnixListener::bind(&path).map_err(failed)?;
        access.give_to_group(&path).map_err(failed)?;
        std::fs::set_permissions(&path, mode(access.socket_mode())).map_err(failed)?;
        access.give_to_group(&dir).map_err(failed)?;
        std::fs::set_permissions(&dir, mode(access.directory_mode())).map_err(failed)?;
        Ok(listener)
    }

    /// The lock of the runtime directory is still held: nobody else has bound it meanwhile.
    fn look(&mut self) {
        // From before the look: what is removed during it is seen, too.
        let dir = self.runtime.control_dir();
        self.watch = WatchDir::removals(&[&dir]).ok();
        let there = std::fs::symlink_metadata(&self.path);
        if !there.is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
            return;
        }
        let path = self.path.display();
        match Self::open(&self.runtime, &self.access) {
            Ok(listener) => {
                tracing::warn!(%path, "the control socket was gone; it is bound again");
                self.listener = listener;
                self.lost = false;
            }
            Err(error) if !self.lost => {
                tracing::error!(%path, %error, "the control socket is gone and cannot be bound again");
                self.lost = true;
            }
            Err(_) => {}
        }
    }
}

/// Where connections come from.
pub(crate) trait Source: Send + Sync + 'static {
    /// The next one; `None` for one that was refused. Cancel safe.
    fn next(&mut self) -> impl Future<Output = io::Result<Option<UnixStream>>> + Send;
}

impl Source for ControlSocket {
    async fn next(&mut self) -> io::Result<Option<UnixStream>> {
        let stream = loop {
            let pause = self.watch.as_ref().map_or(LOOK_UNTOLD, |_| LOOK);
            tokio::select! {
                accepted = self.listener.accept() => break accepted?.0,
                () = WatchDir::changed(self.watch.as_mut()) => self.look(),
                () = tokio::time::sleep(pause) => self.look(),
            }
        };
        let own = nix::unistd::geteuid().as_raw();
        match Peer::of(&stream) {
            Ok(peer) if self.access.admits(&peer, own) => return Ok(Some(stream)),
            Ok(peer) => tracing::warn!(?peer, "refused a control connection"),
            Err(error) => {
                tracing::warn!(%error, "refused a control connection: nobody knows whose it is");
            }
        }
        Ok(None)
    }
}

/// A socket of its own, which looks at the peers itself.
impl Source for Listener {
    async fn next(&mut self) -> io::Result<Option<UnixStream>> {
        let accepted = self.accept().await.map_err(io::Error::other)?;
        Ok(Some(accepted.0))
    }
}

/// Accepts for as long as `connections` is read.
pub(crate) async fn accept(
    mut source: impl Source,
    connections: mpsc::Sender<io::Result<Connection>>,
) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        let accepted = tokio::select! {
            accepted = source.next() => accepted,
            () = connections.closed() => return,
        };
        match accepted {
            Ok(None) => {}
            Ok(Some(stream)) => {
                let connection = Connection {
                    stream,
                    patience: Some(Box::pin(tokio::time::sleep(FIRST_BYTE))),
                    _slot: slot,
                };
                if connections.send(Ok(connection)).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                // Out of file descriptors, as a rule: let some be closed.
                tracing::warn!(%error, "cannot accept a control connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

impl Drop for ControlSocket {
    fn drop(&mut self) {
        if let Err(error) = remove(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "cannot remove the control socket");
        }
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// An accepted connection, counted until it is dropped.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: UnixStream,
    /// Until the first byte has come.
    patience: Option<Pin<Box<Sleep>>>,
    _slot: OwnedSemaphorePermit,
}

impl Connected for Connection {
    type ConnectInfo = ();

    fn connect_info(&self) -> Self::ConnectInfo {}
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if read.is_ready() {
            self.patience = None;
        } else if let Some(patience) = &mut self.patience
            && patience.as_mut().poll(cx).is_ready()
        {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        read
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
