//! The life of the served API.
//!
//! ```text
//!  Listeners::bind ----> (containers are recovered) ----> HttpServer::start ----> shutdown
//!  sockets exist,        connections wait                 accept loops            stop: no more requests, WAITs dropped,
//!  bad settings refused  in the queues                    one task a connection   calls under way get their deadline
//! ```
//!
//! Binding is apart from serving, so that bad settings and a second server are refused before anything is recovered,
//! and so that a client that comes during recovery is answered after it (a Mesos agent says 503 or 404 then).

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::auth::BearerToken;
use super::connection;
use super::dispatch::Front;
use super::error::HttpError;
use super::listeners::{Listeners, Tcp, bind_unix};
use super::options::HttpLimits;
use super::unix::{self, SocketFile};
use crate::dir_lock::DirLock;
use crate::service::ContainerService;

/// The served API. Dropping it without [`shutdown`](Self::shutdown) ends all connections at once.
#[derive(Debug)]
pub struct HttpServer {
    stop: CancellationToken,
    abort: CancellationToken,
    connections: TaskTracker,
    operations: TaskTracker,
    file: Mutex<Option<SocketFile>>,
    /// To those who accept: a socket that was bound again.
    again: mpsc::Sender<UnixListener>,
    tcp: Option<SocketAddr>,
    shutdown_timeout: Duration,
}

/// How long accepting pauses when the process is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// A TCP client that is gone without a word is noticed after about a minute and a half, a pending WAIT's too.
const KEEPALIVE_IDLE_SECS: u32 = 60;
const KEEPALIVE_INTERVAL_SECS: u32 = 10;
const KEEPALIVE_PROBES: u32 = 3;

impl HttpServer {
    /// Serves `service` on the listeners until [`shutdown`](Self::shutdown).
    pub fn start<S: ContainerService>(
        listeners: Listeners,
        service: Arc<S>,
        agent_id: String,
        limits: HttpLimits,
    ) -> Self {
        let Listeners { unix, file, tcp } = listeners;
        let (stop, abort) = (CancellationToken::new(), CancellationToken::new());
        let connections = TaskTracker::new();
        let address = tcp.as_ref().map(|tcp| tcp.address);
        let port = address.map(|address| address.port());
        let front = Front::new(service, limits, hostname(), agent_id, port, stop.clone());
        let operations = front.running.clone();
        let shared = Shared {
            front: Arc::new(front),
            permits: Arc::new(Semaphore::new(limits.connections)),
            connections: connections.clone(),
            abort: abort.clone(),
        };
        if let Some(tcp) = tcp {
            connections.spawn(accept_tcp(tcp, shared.clone()));
        }
        let (again, rebound) = mpsc::channel(1);
        connections.spawn(accept_unix(unix, rebound, shared));
        Self {
            stop,
            abort,
            connections,
            operations,
            file: Mutex::new(Some(file)),
            again,
            tcp: address,
            shutdown_timeout: limits.shutdown_timeout,
        }
    }

    /// The address of the TCP listener, with the port that the system chose where port 0 was asked for.
    #[must_use]
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.tcp
    }

    /// Binds the Unix socket again where it is gone; `held` as for [`Listeners::bind_under`].
    ///
    /// # Errors
    /// Something else is in its place, or it cannot be bound.
    pub(crate) async fn look(&self, held: Arc<DirLock>) -> Result<(), HttpError> {
        let path = match &*self.file() {
            Some(file) if !file.in_place() => file.path().to_owned(),
            _ => return Ok(()),
        };
        let (listener, file) = bind_unix(&path, Some(held)).await?;
        tracing::warn!(path = %path.display(), "the agent socket was gone; it is bound again");
        *self.file() = Some(file);
        // Nobody accepts any more when the server is being shut down.
        let _shut_down = self.again.send(listener).await;
        Ok(())
    }

    fn file(&self) -> MutexGuard<'_, Option<SocketFile>> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops serving: removes the socket, drops pending WAITs without an answer, lets the calls under way finish until
    /// [`HttpLimits::shutdown_timeout`], then drops what is left.
    pub async fn shutdown(self) {
        let file = self.file().take();
        drop(file);
        self.stop.cancel();
        self.connections.close();
        self.operations.close();
        let drained = async {
            self.connections.wait().await;
            self.operations.wait().await;
        };
        if tokio::time::timeout(self.shutdown_timeout, drained)
            .await
            .is_err()
        {
            tracing::warn!(
                connections = self.connections.len(),
                operations = self.operations.len(),
                "calls were still under way at the shutdown deadline"
            );
        }
        self.abort.cancel();
        self.connections.wait().await;
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.stop.cancel();
        self.abort.cancel();
    }
}

struct Shared<S> {
    front: Arc<Front<S>>,
    permits: Arc<Semaphore>,
    connections: TaskTracker,
    abort: CancellationToken,
}

impl<S> Clone for Shared<S> {
    fn clone(&self) -> Self {
        Self {
            front: Arc::clone(&self.front),
            permits: Arc::clone(&self.permits),
            connections: self.connections.clone(),
            abort: self.abort.clone(),
        }
    }
}

impl<S: ContainerService> Shared<S> {
    /// Room for one more connection; `None` when the agent stops.
    async fn room(&self) -> Option<OwnedSemaphorePermit> {
        tokio::select! {
            () = self.front.stop.cancelled() => None,
            permit = Arc::clone(&self.permits).acquire_owned() => permit.ok(),
        }
    }

    /// What an accept gave; after a failure (mostly: no file descriptor left) there is a pause.
    async fn settle<T>(&self, accepted: std::io::Result<T>) -> Option<T> {
        match accepted {
            Ok(accepted) => Some(accepted),
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::select! {
                    () = self.front.stop.cancelled() => {}
                    () = tokio::time::sleep(ACCEPT_PAUSE) => {}
                }
                None
            }
        }
    }

    fn spawn<I>(&self, io: I, token: Option<Arc<BearerToken>>, permit: OwnedSemaphorePermit)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let (front, abort) = (Arc::clone(&self.front), self.abort.clone());
        self.connections.spawn(async move {
            connection::serve(front, token, io, abort).await;
            drop(permit);
        });
    }
}

async fn accept_unix<S: ContainerService>(
    mut listener: UnixListener,
    mut rebound: mpsc::Receiver<UnixListener>,
    shared: Shared<S>,
) {
    while let Some(permit) = shared.room().await {
        let accepted = tokio::select! {
            () = shared.front.stop.cancelled() => break,
            Some(next) = rebound.recv() => {
                listener = next;
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        let Some((stream, _)) = shared.settle(accepted).await else {
            continue;
        };
        if admitted(&stream) {
            shared.spawn(stream, None, permit);
        }
    }
}

/// The kernel says who connected (SO_PEERCRED); nobody else can have got past the directory, this is the second lock.
fn admitted(stream: &UnixStream) -> bool {
    match stream.peer_cred() {
        Ok(peer) if unix::peer_is_welcome(peer.uid()) => true,
        Ok(peer) => {
            let (uid, pid) = (peer.uid(), peer.pid());
            tracing::warn!(
                uid,
                pid,
                "a connection to the agent socket was refused: foreign user"
            );
            false
        }
        Err(error) => {
            tracing::warn!(%error, "a connection to the agent socket was refused: unknown user");
            false
        }
    }
}

async fn accept_tcp<S: ContainerService>(tcp: Tcp, shared: Shared<S>) {
    while let Some(permit) = shared.room().await {
        let accepted = tokio::select! {
            () = shared.front.stop.cancelled() => break,
            accepted = tcp.listener.accept() => accepted,
        };
        let Some((stream, peer)) = shared.settle(accepted).await else {
            continue;
        };
        prepare(&stream, peer);
        let token = Some(Arc::clone(&tcp.token));
        #[cfg(feature = "tls")]
        if let Some(acceptor) = tcp.tls.clone() {
            spawn_tls(&shared, acceptor, stream, peer, token, permit);
            continue;
        }
        shared.spawn(stream, token, permit);
    }
}

/// Small answers at once, and dead peers noticed. Neither failing makes the connection useless.
fn prepare(stream: &TcpStream, peer: SocketAddr) {
    let prepared = stream.set_nodelay(true).and_then(|()| {
        let fd = stream.as_fd();
        setsockopt(&fd, sockopt::KeepAlive, &true)?;
        setsockopt(&fd, sockopt::TcpKeepIdle, &KEEPALIVE_IDLE_SECS)?;
        setsockopt(&fd, sockopt::TcpKeepInterval, &KEEPALIVE_INTERVAL_SECS)?;
        setsockopt(&fd, sockopt::TcpKeepCount, &KEEPALIVE_PROBES)?;
        Ok(())
    });
    if let Err(error) = prepared {
        tracing::debug!(%peer, %error, "cannot set up a connection's keep-alive");
    }
}

#[cfg(feature = "tls")]
fn spawn_tls<S: ContainerService>(
    shared: &Shared<S>,
    super::tls::Acceptor(acceptor): super::tls::Acceptor,
    stream: TcpStream,
    peer: SocketAddr,
    token: Option<Arc<BearerToken>>,
    permit: OwnedSemaphorePermit,
) {
    let (front, abort) = (Arc::clone(&shared.front), shared.abort.clone());
    shared.connections.spawn(async move {
        let handshake = tokio::time::timeout(front.limits.body_timeout, acceptor.accept(stream));
        let stopped = front.stop.clone();
        let shaken = tokio::select! {
            () = stopped.cancelled() => return,
            shaken = handshake => shaken,
        };
        match shaken {
            Ok(Ok(stream)) => connection::serve(front, token, stream, abort).await,
            Ok(Err(error)) => tracing::debug!(%peer, %error, "a TLS handshake failed"),
            Err(_) => tracing::debug!(%peer, "a TLS handshake took too long"),
        }
        drop(permit);
    });
}

fn hostname() -> String {
    nix::unistd::gethostname()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_else(|_| "localhost".to_owned())
}
