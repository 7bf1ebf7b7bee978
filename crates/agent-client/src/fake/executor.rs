//! The executor API of an agent, over TCP or a Unix socket, with every fault at the test's command.

use std::collections::VecDeque;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use longshore_mesos_api::v1::executor::{Call, Event, call, event};
use longshore_mesos_api::{DecodeLimits, decode, json, record_io};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::http::{self, Request};
use crate::Codec;

/// A fake agent for one executor. Dropping it closes everything.
#[derive(Debug)]
pub struct FakeExecutorApi {
    place: Place,
    shared: Arc<Shared>,
    calls: mpsc::UnboundedReceiver<ReceivedCall>,
    server: JoinSet<()>,
}

/// A call as it arrived.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ReceivedCall {
    /// The path of the request.
    pub path: String,
    /// The header `Authorization`.
    pub authorization: Option<String>,
    /// What the executor asked.
    pub call: Call,
}

/// What goes wrong with a call.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExecutorFault {
    /// This status and text.
    Status(u16, String),
    /// No answer, ever.
    Hang,
    /// The connection ends without an answer.
    Close,
    /// Bytes that are no HTTP.
    NotHttp,
    /// 200 with this content type and, in a stream that stays open, these bytes.
    Stream(String, Vec<u8>),
}

#[derive(Debug, Clone)]
enum Place {
    Tcp(std::net::SocketAddr),
    Unix(PathBuf),
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    calls: mpsc::UnboundedSender<ReceivedCall>,
}

#[derive(Debug, Default)]
struct State {
    faults: VecDeque<(call::Type, ExecutorFault)>,
    /// The open stream, and its form.
    stream: Option<(Codec, mpsc::UnboundedSender<Bytes>)>,
    subscribed: Option<event::Subscribed>,
}

impl FakeExecutorApi {
    /// Listens on a port of the loopback address.
    ///
    /// # Errors
    /// There is none.
    pub async fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        Ok(Self::new(
            Place::Tcp(listener.local_addr()?),
            |server, shared| {
                serve_tcp(server, shared, listener);
            },
        ))
    }

    /// Listens on a socket.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn start_on(socket: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(socket)?;
        Ok(Self::new(
            Place::Unix(socket.to_owned()),
            |server, shared| {
                serve_unix(server, shared, listener);
            },
        ))
    }

    fn new(place: Place, serve: impl FnOnce(&mut JoinSet<()>, Arc<Shared>)) -> Self {
        let (sender, calls) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            calls: sender,
        });
        let mut server = JoinSet::new();
        serve(&mut server, Arc::clone(&shared));
        Self {
            place,
            shared,
            calls,
            server,
        }
    }

    /// The environment that an agent would start its executor in; with `checkpoint`, short times.
    #[must_use]
    pub fn environment(&self, checkpoint: bool) -> Vec<(String, String)> {
        let mut variables = vec![
            ("MESOS_FRAMEWORK_ID", "framework".to_owned()),
            ("MESOS_EXECUTOR_ID", "executor".to_owned()),
            ("MESOS_SLAVE_ID", "agent".to_owned()),
            ("MESOS_EXECUTOR_SHUTDOWN_GRACE_PERIOD", "5secs".to_owned()),
            ("MESOS_CHECKPOINT", u8::from(checkpoint).to_string()),
            ("MESOS_RECOVERY_TIMEOUT", "15mins".to_owned()),
            ("MESOS_SUBSCRIPTION_BACKOFF_MAX", "20ms".to_owned()),
        ];
        match &self.place {
            Place::Tcp(address) => {
                variables.push(("MESOS_AGENT_ENDPOINT", address.to_string()));
                variables.push(("MESOS_SLAVE_PID", format!("slave(1)@{address}")));
            }
            Place::Unix(socket) => {
                variables.push(("MESOS_DOMAIN_SOCKET", socket.display().to_string()));
            }
        }
        let own = |(name, value): (&str, String)| (name.to_owned(), value);
        variables.into_iter().map(own).collect()
    }

    /// The next call that arrives, faults included. Dropping the future loses nothing.
    pub async fn next_call(&mut self) -> Option<ReceivedCall> {
        self.calls.recv().await
    }

    /// Makes the next call of this type go wrong that no earlier fault is for.
    pub fn fail(&self, kind: call::Type, fault: ExecutorFault) {
        self.shared.lock().faults.push_back((kind, fault));
    }

    /// What SUBSCRIBED says from now on.
    pub fn subscribed_is(&self, subscribed: event::Subscribed) {
        self.shared.lock().subscribed = Some(subscribed);
    }

    /// Sends an event; false when there is no stream.
    pub fn send(&self, event: &Event) -> bool {
        let state = self.shared.lock();
        let Some((codec, stream)) = &state.stream else {
            return false;
        };
        stream.send(record(*codec, event)).is_ok()
    }

    /// Sends bytes as they are, in place of a record; false when there is no stream.
    pub fn send_bytes(&self, bytes: impl Into<Bytes>) -> bool {
        let state = self.shared.lock();
        let stream = state.stream.as_ref();
        stream.is_some_and(|(_, stream)| stream.send(bytes.into()).is_ok())
    }

    /// Ends the stream as an agent does on purpose, with its last chunk.
    pub fn end_stream(&self) {
        self.shared.lock().stream = None;
    }

    /// Ends every connection and listens no more, as an agent that was killed.
    pub async fn stop(&mut self) {
        self.server.shutdown().await;
        self.shared.lock().stream = None;
        if let Place::Unix(socket) = &self.place {
            // Bound again by a restart.
            let _absent = std::fs::remove_file(socket);
        }
    }

    /// Listens again, at the same place.
    ///
    /// # Errors
    /// The place is taken.
    pub async fn restart(&mut self) -> io::Result<()> {
        self.stop().await;
        let shared = Arc::clone(&self.shared);
        match &self.place {
            Place::Tcp(address) => {
                let listener = TcpListener::bind(address).await?;
                serve_tcp(&mut self.server, shared, listener);
            }
            Place::Unix(socket) => {
                serve_unix(&mut self.server, shared, UnixListener::bind(socket)?);
            }
        }
        Ok(())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn serve_tcp(server: &mut JoinSet<()>, shared: Arc<Shared>, listener: TcpListener) {
    server.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(connection(Arc::clone(&shared), stream));
        }
    });
}

fn serve_unix(server: &mut JoinSet<()>, shared: Arc<Shared>, listener: UnixListener) {
    server.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            connections.spawn(connection(Arc::clone(&shared), stream));
        }
    });
}

/// Serves until either side closes.
async fn connection(shared: Arc<Shared>, mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    let mut buffer = Vec::new();
    while let Ok(Some(request)) = http::read_request(&mut stream, &mut buffer).await {
        match serve(&shared, &mut stream, request).await {
            Ok(true) => {}
            Ok(false) | Err(_) => return,
        }
    }
}

/// Whether the connection can be used again.
async fn serve(
    shared: &Shared,
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    request: Request,
) -> io::Result<bool> {
    let limits = DecodeLimits::default();
    let is_json = request.content_type == "application/json";
    let call: Result<Call, String> = if is_json {
        json::from_slice(&request.body, &limits).map_err(|error| error.to_string())
    } else {
        decode(&request.body, &limits).map_err(|error| error.to_string())
    };
    let call = match call {
        Ok(call) => call,
        Err(error) => {
            let answer = http::answer(400, Some("text/plain"), error.as_bytes());
            stream.write_all(&answer).await?;
            return Ok(true);
        }
    };
    let kind = call.r#type();
    // Nobody looks at calls any more: the test is over.
    let _over = shared.calls.send(ReceivedCall {
        path: request.path,
        authorization: request.authorization,
        call,
    });
    let fault = {
        let mut state = shared.lock();
        let at = state.faults.iter().position(|(of, _)| *of == kind);
        at.and_then(|at| state.faults.remove(at))
    };
    let codec = if request.accept == "application/json" {
        Codec::Json
    } else {
        Codec::Protobuf
    };
    match fault.map(|(_, fault)| fault) {
        Some(ExecutorFault::Status(status, text)) => {
            let answer = http::answer(status, Some("text/plain"), text.as_bytes());
            stream.write_all(&answer).await?;
            Ok(true)
        }
        Some(ExecutorFault::Hang) => std::future::pending().await,
        Some(ExecutorFault::Close) => Ok(false),
        Some(ExecutorFault::NotHttp) => {
            stream.write_all(b"SSH-2.0-odd\r\n\r\n").await?;
            Ok(false)
        }
        Some(ExecutorFault::Stream(content_type, bytes)) => {
            stream.write_all(&head(&content_type)).await?;
            stream.write_all(&chunk(&bytes)).await?;
            std::future::pending().await
        }
        None if kind == call::Type::Subscribe => subscribe(shared, stream, codec).await,
        None => {
            stream.write_all(&http::answer(202, None, b"")).await?;
            Ok(true)
        }
    }
}

/// The stream: SUBSCRIBED, then what the test sends, until it ends it or another one is opened.
async fn subscribe(
    shared: &Shared,
    stream: &mut (impl AsyncWrite + Unpin),
    codec: Codec,
) -> io::Result<bool> {
    let (sender, mut records) = mpsc::unbounded_channel();
    let subscribed = {
        let mut state = shared.lock();
        let event = Event {
            r#type: Some(event::Type::Subscribed.into()),
            subscribed: Some(state.subscribed.clone().unwrap_or_default()),
            ..Event::default()
        };
        // Before anybody can see the stream, so that SUBSCRIBED is its first record.
        let first = record(codec, &event);
        state.stream = Some((codec, sender));
        first
    };
    let media_type = codec.media_type();
    let content_type = media_type.to_str().unwrap_or_default();
    stream.write_all(&head(content_type)).await?;
    stream.write_all(&chunk(&subscribed)).await?;
    while let Some(bytes) = records.recv().await {
        stream.write_all(&chunk(&bytes)).await?;
    }
    stream.write_all(b"0\r\n\r\n").await?;
    Ok(true)
}

fn head(content_type: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nTransfer-Encoding: chunked\r\n\r\n")
        .into_bytes()
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    let mut chunk = format!("{:x}\r\n", bytes.len()).into_bytes();
    chunk.extend_from_slice(bytes);
    chunk.extend_from_slice(b"\r\n");
    chunk
}

fn record(codec: Codec, event: &Event) -> Bytes {
    let encoded = codec.encode(event).unwrap_or_default();
    record_io::Encoder.to_bytes(&encoded)
}
