//! One HTTP/1.1 connection to an agent.

use std::io;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper::client::conn::TrySendError;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use nix::fcntl::OFlag;
use nix::sys::socket::{setsockopt, sockopt};
use nix::sys::stat::Mode;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::task::JoinSet;

use crate::endpoint::Transport;
use crate::{AgentEndpoint, AgentError, KeepAlive};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// Longest head of an answer; hyper refuses more than 100 headers by itself.
const MAX_HEAD: usize = 64 << 10;

/// An open connection. Dropping it closes the socket and ends its task.
#[derive(Debug)]
pub(crate) struct Connection {
    sender: SendRequest<Full<Bytes>>,
    /// Holds the one task that moves the bytes.
    _driver: JoinSet<()>,
    /// It has carried a whole answer, so the agent may have closed it meanwhile.
    pub(crate) reused: bool,
}

impl Connection {
    /// Waits until the next request can be sent; false when the agent has closed meanwhile.
    pub(crate) async fn is_open(&mut self) -> bool {
        self.sender.ready().await.is_ok()
    }

    /// False when the answer, or the agent, has closed it.
    pub(crate) fn may_be_kept(&self) -> bool {
        self.reused && !self.sender.is_closed()
    }

    pub(crate) async fn send(
        &mut self,
        request: Request<Full<Bytes>>,
    ) -> Result<hyper::Response<hyper::body::Incoming>, TrySendError<Request<Full<Bytes>>>> {
        self.sender.try_send_request(request).await
    }
}

/// Opens connections to one endpoint.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    endpoint: AgentEndpoint,
    keep_alive: KeepAlive,
    #[cfg(feature = "tls")]
    tls: Option<crate::tls::TlsConnector>,
}

impl Connector {
    pub(crate) fn new(config: &crate::AgentClientConfig) -> Result<Self, AgentError> {
        #[cfg(not(feature = "tls"))]
        if config.endpoint.is_tls() {
            return Err(AgentError::NoTls {
                endpoint: config.endpoint.to_string(),
            });
        }
        Ok(Self {
            endpoint: config.endpoint.clone(),
            keep_alive: config.keep_alive,
            #[cfg(feature = "tls")]
            tls: if config.endpoint.is_tls() {
                Some(crate::tls::TlsConnector::new(&config.tls)?)
            } else {
                None
            },
        })
    }

    /// Connects within `deadline`. The larger futures are on the heap and gone once connected: a
    /// WAIT keeps its own for as long as its container runs.
    pub(crate) async fn connect(&self, deadline: Duration) -> Result<Connection, AgentError> {
        let refuse = |source| AgentError::Connect {
            endpoint: self.endpoint.to_string(),
            source,
        };
        match tokio::time::timeout(deadline, self.open()).await {
            Ok(Ok(connection)) => Ok(connection),
            Ok(Err(source)) => Err(refuse(source)),
            Err(_) => Err(refuse(format!("no connection within {deadline:?}").into())),
        }
    }

    async fn open(&self) -> Result<Connection, BoxError> {
        match self.endpoint.transport() {
            Transport::Unix(socket) => {
                let stream = connect_unix(socket).await?;
                Ok(handshake(stream).await?)
            }
            Transport::Tcp { host, port, tls } => Box::pin(self.open_tcp(host, *port, *tls)).await,
        }
    }

    async fn open_tcp(&self, host: &str, port: u16, tls: bool) -> Result<Connection, BoxError> {
        let stream = TcpStream::connect((host, port)).await?;
        stream.set_nodelay(true)?;
        keep_alive(&stream, self.keep_alive)?;
        if !tls {
            return Ok(handshake(stream).await?);
        }
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let stream = Box::pin(tls.connect(host, stream)).await?;
            return Ok(Box::pin(handshake(stream)).await?);
        }
        Err("the feature `tls` is not compiled in".into())
    }
}

/// The longest path that a socket's address holds, with the NUL byte after it.
const SOCKET_PATH: usize = 108;

/// Connects to a socket whose path may be too long for an address: then by a handle of its directory.
async fn connect_unix(path: &Path) -> io::Result<UnixStream> {
    if path.as_os_str().len() < SOCKET_PATH {
        return UnixStream::connect(path).await;
    }
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return UnixStream::connect(path).await;
    };
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let directory = nix::fcntl::open(parent, flags, Mode::empty())?;
    let short = format!("/proc/self/fd/{}", directory.as_raw_fd());
    UnixStream::connect(Path::new(&short).join(name)).await
}

async fn handshake<S>(stream: S) -> Result<Connection, hyper::Error>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let (sender, connection) = http1::Builder::new()
        .max_buf_size(MAX_HEAD)
        .handshake(TokioIo::new(stream))
        .await?;
    let mut driver = JoinSet::new();
    driver.spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "connection to the agent ended");
        }
    });
    Ok(Connection {
        sender,
        _driver: driver,
        reused: false,
    })
}

/// Lets the kernel find out that the peer is gone while nothing is said, and bounds how long
/// sent bytes may stay unacknowledged.
fn keep_alive(stream: &TcpStream, settings: KeepAlive) -> io::Result<()> {
    let seconds = |duration: Duration| u32::try_from(duration.as_secs().max(1)).unwrap_or(u32::MAX);
    let (idle, interval) = (seconds(settings.idle), seconds(settings.interval));
    let probes = settings.probes.max(1);
    setsockopt(stream, sockopt::KeepAlive, &true)?;
    setsockopt(stream, sockopt::TcpKeepIdle, &idle)?;
    setsockopt(stream, sockopt::TcpKeepInterval, &interval)?;
    setsockopt(stream, sockopt::TcpKeepCount, &probes)?;
    let silence = idle.saturating_add(interval.saturating_mul(probes));
    setsockopt(
        stream,
        sockopt::TcpUserTimeout,
        &silence.saturating_mul(1000),
    )?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::getsockopt;

    #[tokio::test]
    async fn a_tcp_connection_is_kept_alive_as_configured() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        let settings = KeepAlive {
            idle: Duration::from_secs(7),
            interval: Duration::from_millis(10),
            probes: 4,
        };
        keep_alive(&stream, settings).unwrap();
        assert!(getsockopt(&stream, sockopt::KeepAlive).unwrap());
        assert_eq!(getsockopt(&stream, sockopt::TcpKeepIdle).unwrap(), 7);
        assert_eq!(getsockopt(&stream, sockopt::TcpKeepInterval).unwrap(), 1);
        assert_eq!(getsockopt(&stream, sockopt::TcpKeepCount).unwrap(), 4);
        assert_eq!(
            getsockopt(&stream, sockopt::TcpUserTimeout).unwrap(),
            11_000
        );
    }
}
