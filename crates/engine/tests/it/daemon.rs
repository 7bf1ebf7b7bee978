//! A daemon that answers on a Unix socket with the bytes that a test gives it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longshore_engine::{Deadlines, DockerConfig, DockerEngine, EngineEndpoint};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What a test waits for at most.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A request as it came.
#[derive(Debug, Clone, Default)]
pub(crate) struct Request {
    pub(crate) line: String,
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: String,
}

/// What to do with one.
#[derive(Debug, Clone)]
pub(crate) enum Reply {
    /// These bytes, then the end.
    Bytes(Vec<u8>),
    /// These bytes, then nothing until the client has gone.
    Stay(Vec<u8>),
    /// These bytes again and again, as long as the client takes them.
    Endless(Vec<u8>, Vec<u8>),
}

pub(crate) fn answer(status: u16, body: &str) -> Reply {
    let length = body.len();
    Reply::Bytes(
        format!("HTTP/1.1 {status} x\r\nContent-Length: {length}\r\n\r\n{body}").into_bytes(),
    )
}

/// The head of a stream, and what is sent of it at once.
pub(crate) fn stream(body: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\n\r\n{body}").into_bytes()
}

pub(crate) struct Daemon {
    dir: tempfile::TempDir,
    log: Arc<Mutex<Vec<Request>>>,
    /// Connections that are open now.
    open: watch::Sender<usize>,
    tasks: JoinSet<()>,
}

type Script = dyn Fn(usize, &Request) -> Reply + Send + Sync;

impl Daemon {
    /// Answers pings with API 1.45, and the Nth other request with what `script` says.
    pub(crate) fn start(script: impl Fn(usize, &Request) -> Reply + Send + Sync + 'static) -> Self {
        let mut daemon = Self {
            dir: tempfile::tempdir().unwrap(),
            log: Arc::default(),
            open: watch::Sender::new(0),
            tasks: JoinSet::new(),
        };
        daemon.listen(Arc::new(script));
        daemon
    }

    fn listen(&mut self, script: Arc<Script>) {
        let listener = UnixListener::bind(self.socket()).unwrap();
        let (log, open) = (self.log.clone(), self.open.clone());
        self.tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                open.send_modify(|count| *count += 1);
                let (script, log, open) = (script.clone(), log.clone(), open.clone());
                connections.spawn(async move {
                    // The client may go at any moment.
                    drop(serve(stream, &*script, &log).await);
                    open.send_modify(|count| *count -= 1);
                });
            }
        });
    }

    /// Ends it with all its connections, as a killed daemon ends; then another one listens.
    pub(crate) async fn restart(
        &mut self,
        script: impl Fn(usize, &Request) -> Reply + Send + Sync + 'static,
    ) {
        self.stop().await;
        self.listen(Arc::new(script));
    }

    pub(crate) async fn stop(&mut self) {
        self.tasks.shutdown().await;
        std::fs::remove_file(self.socket()).unwrap();
        self.open.send_replace(0);
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("d.sock")
    }

    pub(crate) fn engine(&self) -> DockerEngine {
        self.engine_with(|_| {})
    }

    pub(crate) fn engine_with(&self, change: impl FnOnce(&mut DockerConfig)) -> DockerEngine {
        let address = format!("unix://{}", self.socket().display());
        let endpoint: EngineEndpoint = address.parse().unwrap();
        let mut config = DockerConfig::new(endpoint);
        config.client_config = None;
        config.deadlines = Deadlines {
            quick: PATIENCE,
            slow: PATIENCE,
            stop: PATIENCE,
        };
        change(&mut config);
        DockerEngine::new(config)
    }

    /// The requests so far, without pings.
    pub(crate) fn log(&self) -> Vec<Request> {
        self.log.lock().unwrap().clone()
    }

    /// Waits until no connection is open.
    pub(crate) async fn until_left(&self) {
        let mut open = self.open.subscribe();
        let left = open.wait_for(|count| *count == 0);
        tokio::time::timeout(PATIENCE, left).await.unwrap().unwrap();
    }
}

async fn serve(
    mut stream: UnixStream,
    script: &Script,
    log: &Mutex<Vec<Request>>,
) -> std::io::Result<()> {
    let request = read(&mut stream).await?;
    let reply = if request.line.starts_with("GET /_ping") {
        let ping = "HTTP/1.1 200 OK\r\nApi-Version: 1.45\r\nContent-Length: 2\r\n\r\nOK";
        Reply::Bytes(ping.as_bytes().to_vec())
    } else {
        let number = {
            let mut log = log.lock().unwrap();
            log.push(request.clone());
            log.len()
        };
        script(number, &request)
    };
    match reply {
        Reply::Bytes(bytes) => stream.write_all(&bytes).await,
        Reply::Stay(bytes) => {
            stream.write_all(&bytes).await?;
            stream.read(&mut [0; 1]).await.map(drop)
        }
        Reply::Endless(head, bytes) => {
            stream.write_all(&head).await?;
            loop {
                stream.write_all(&bytes).await?;
            }
        }
    }
}

async fn read(stream: &mut UnixStream) -> std::io::Result<Request> {
    let mut bytes = Vec::new();
    let end = loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut bytes).await? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.lines();
    let line = lines.next().unwrap_or_default().to_owned();
    let headers: BTreeMap<_, _> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers
        .get("content-length")
        .map_or(0, |text| text.parse().unwrap());
    while bytes.len() < end + length {
        if stream.read_buf(&mut bytes).await? == 0 {
            break;
        }
    }
    Ok(Request {
        line,
        headers,
        body: String::from_utf8_lossy(&bytes[end..]).into_owned(),
    })
}
