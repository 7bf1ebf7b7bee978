//! The server: accepts, asks for an answer, sends it. One request a connection.
//!
//! ```text
//!   accept (slots) --> headers (size, time) --> answer --> sent, closed
//!                                                 \--> /events: a section a change, to so many listeners
//! ```

mod events;

use std::convert::Infallible;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::answer::{self, Answer};
use crate::paced::Paced;
use crate::{Hosts, ListenAddress, Snapshot, StatusHttpError};

/// Where what is told comes from.
pub trait Source: Send + Sync + 'static {
    /// All of it, from memory.
    fn snapshot(&self) -> Snapshot;

    /// For a listener: when it changes from now on.
    fn changes(&self) -> Box<dyn Changes>;
}

/// A wait for changes.
pub trait Changes: Send {
    /// The next one; `false` when there will be none. Cancel safe.
    fn changed<'a>(&'a mut self) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>>;
}

/// What callers may take.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at a time; one more waits (64).
    pub connections: usize,
    /// Listeners at a time; one more is refused (16).
    pub listeners: usize,
    /// The head of a request, in bytes; at least 8192 (16 KiB).
    pub head: usize,
    /// How long the head may take (5 s).
    pub head_time: Duration,
    /// How long a request may take as a whole (15 s).
    pub request_time: Duration,
    /// How long a write may make no headway (10 s).
    pub write_time: Duration,
    /// How long a listener stays; browsers come again (1 h).
    pub listen_time: Duration,
    /// From one event of a listener to the next at least (250 ms).
    pub pause: Duration,
    /// A listener without a change gets what has changed slowly (15 s).
    pub refresh: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 64,
            listeners: 16,
            head: 16 * 1024,
            head_time: Duration::from_secs(5),
            request_time: Duration::from_secs(15),
            write_time: Duration::from_secs(10),
            listen_time: Duration::from_secs(3600),
            pause: Duration::from_millis(250),
            refresh: Duration::from_secs(15),
        }
    }
}

/// How soon accepting is tried again when it failed.
const AGAIN: Duration = Duration::from_millis(500);

/// A bound socket.
pub struct Server {
    listener: TcpListener,
    shared: Arc<Shared>,
}

struct Shared {
    source: Box<dyn Source>,
    hosts: Hosts,
    limits: Limits,
    listeners: Arc<Semaphore>,
    stop: CancellationToken,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("listener", &self.listener)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// Binds; nobody is answered before [`run`](Self::run).
    ///
    /// # Errors
    /// [`StatusHttpError::Bind`].
    pub async fn bind(
        address: ListenAddress,
        hosts: Hosts,
        limits: Limits,
        source: impl Source,
        stop: CancellationToken,
    ) -> Result<Self, StatusHttpError> {
        let address = address.socket();
        let listener = TcpListener::bind(address)
            .await
            .map_err(|source| StatusHttpError::Bind { address, source })?;
        let shared = Shared {
            source: Box::new(source),
            hosts,
            limits,
            listeners: Arc::new(Semaphore::new(limits.listeners)),
            stop,
        };
        Ok(Self {
            listener,
            shared: Arc::new(shared),
        })
    }

    /// The address that it is bound to; with the port that the system chose for 0.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn address(&self) -> std::io::Result<std::net::SocketAddr> {
        self.listener.local_addr()
    }

    /// Answers until the token is cancelled, and drops what is open then.
    pub async fn run(self) {
        let slots = Arc::new(Semaphore::new(self.shared.limits.connections));
        let (connections, stop) = (TaskTracker::new(), self.shared.stop.clone());
        let accepting = async {
            loop {
                let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
                    return;
                };
                match self.listener.accept().await {
                    Ok((stream, _)) => {
                        let shared = Arc::clone(&self.shared);
                        connections.spawn(async move {
                            let stopped = shared.stop.clone();
                            tokio::select! {
                                () = serve(stream, shared) => {}
                                () = stopped.cancelled() => {}
                            }
                            drop(slot);
                        });
                    }
                    Err(error) => {
                        tracing::debug!(%error, "a connection for the status page was not accepted");
                        tokio::time::sleep(AGAIN).await;
                    }
                }
            }
        };
        tokio::select! {
            () = accepting => {}
            () = stop.cancelled() => {}
        }
        connections.close();
        connections.wait().await;
    }
}

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// One connection, to its end.
async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let limits = shared.limits;
    // The stream of changes is for long; all else is over soon.
    let listens = Arc::new(AtomicBool::new(false));
    let marked = Arc::clone(&listens);
    let service = service_fn(move |request: Request<Incoming>| {
        let answered = respond(request, &shared, &marked);
        async move { Ok::<_, Infallible>(answered) }
    });
    let io = TokioIo::new(Paced::new(stream, limits.write_time));
    let mut builder = hyper::server::conn::http1::Builder::new();
    builder
        .keep_alive(false)
        .half_close(false)
        .timer(TokioTimer::new())
        .header_read_timeout(limits.head_time)
        .max_buf_size(limits.head)
        .max_headers(64);
    let mut connection = std::pin::pin!(builder.serve_connection(io, service));
    let ended = match tokio::time::timeout(limits.request_time, &mut connection).await {
        Ok(ended) => Some(ended),
        Err(_) if listens.load(Ordering::Relaxed) => {
            tokio::time::timeout(limits.listen_time, connection)
                .await
                .ok()
        }
        Err(_) => None,
    };
    match ended {
        Some(Ok(())) => {}
        Some(Err(error)) => tracing::debug!(%error, "a connection for the status page broke off"),
        None => tracing::debug!("a connection for the status page took too long"),
    }
}

fn respond(
    request: Request<Incoming>,
    shared: &Arc<Shared>,
    listens: &AtomicBool,
) -> Response<Body> {
    // A body is nothing to us: it is not read.
    let (parts, _) = request.into_parts();
    let whole = |answer: Response<Bytes>| answer.map(|bytes| Full::new(bytes).boxed_unsync());
    match answer::answer(&parts, &shared.hosts, || shared.source.snapshot()) {
        Answer::Whole(answer) => whole(answer),
        Answer::Events => match Arc::clone(&shared.listeners).try_acquire_owned() {
            Err(_) => whole(answer::too_many()),
            Ok(slot) => {
                listens.store(true, Ordering::Relaxed);
                let mut answer = Response::new(events::Events::start(shared, slot).boxed_unsync());
                answer::guard(&mut answer, answer::EVENTS);
                answer
            }
        },
    }
}
