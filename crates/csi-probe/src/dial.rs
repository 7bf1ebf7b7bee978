//! From an endpoint to an HTTP/2 channel.
//!
//! C-core servers (Python, C++) refuse a request whose `:scheme` or `:authority` they do not understand, and some
//! clients derive both from the socket's path. We send `:scheme http` and `:authority localhost` over a Unix
//! socket, as C-core's own clients do.

use std::{
    fs,
    future::Future,
    io::{self, ErrorKind},
    os::{fd::AsRawFd, unix::fs::FileTypeExt},
    path::Path,
    pin::Pin,
};

use hyper_util::rt::TokioIo;
use nix::{
    fcntl::{OFlag, open},
    sys::stat::{Mode, SFlag, fstat},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, UnixStream},
    time::{Instant, sleep_until, timeout_at},
};
use tonic::transport::{Channel, Uri};

use crate::{
    Endpoint, Links, ProbeError, SocketId, Waiting,
    call::{Broken, broken},
    error::timed_out,
    retry::Pauses,
    socket::{is_absent, not_a_socket, wait},
};

/// Plugins send few and small headers.
const MAX_HEADER_BYTES: u32 = 16 * 1024;

/// An open channel, and which socket file it leads to.
#[derive(Debug)]
pub(crate) struct Dialled {
    pub(crate) channel: Channel,
    pub(crate) socket: Option<SocketId>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Dial {
    /// Wait for a socket that does not exist.
    pub(crate) wait: bool,
    /// Try again when nobody listens.
    pub(crate) retry: bool,
    pub(crate) links: Links,
    pub(crate) deadline: Instant,
}

/// Connects to a plugin's endpoint.
///
/// ECONNREFUSED, which lies between a plugin's `bind` and `listen`, is tried again after 1, 1, 2, 2, 4 … 10 ms until
/// the deadline. A socket that does not exist is an error at once: [`wait_for_socket`](crate::wait_for_socket) first.
/// The channel dials the same path again when its connection ends, so it outlives a restart of the plugin.
/// It must be called within a tokio runtime; cancel safe.
///
/// # Errors
/// [`ProbeError::SocketMissing`], [`ProbeError::NotASocket`], [`ProbeError::Connect`], [`ProbeError::TimedOut`].
pub async fn connect(endpoint: &Endpoint, deadline: Instant) -> Result<Channel, ProbeError> {
    let dial = Dial {
        wait: false,
        retry: true,
        links: Links::Follow,
        deadline,
    };
    Ok(dial.to(endpoint, &mut |_| ()).await?.channel)
}

impl Dial {
    /// `waiting` is told whenever the reason for waiting changes.
    pub(crate) async fn to(
        &self,
        endpoint: &Endpoint,
        waiting: &mut (dyn FnMut(Waiting) + Send),
    ) -> Result<Dialled, ProbeError> {
        let tries = Tries {
            dial: self,
            endpoint,
            started: Instant::now(),
            pauses: Pauses::default(),
            waiting,
        };
        match endpoint {
            Endpoint::Unix(path) => tries.unix(path).await,
            Endpoint::Tcp { host, port } => tries.tcp(host, *port).await,
        }
    }
}

/// The tries to reach one endpoint.
struct Tries<'a> {
    dial: &'a Dial,
    endpoint: &'a Endpoint,
    started: Instant,
    pauses: Pauses,
    waiting: &'a mut (dyn FnMut(Waiting) + Send),
}

impl Tries<'_> {
    async fn unix(mut self, path: &Path) -> Result<Dialled, ProbeError> {
        let links = self.dial.links;
        loop {
            match connect_unix(path, links).await {
                Ok((stream, socket)) => {
                    let owned = path.to_owned();
                    let redial = move || {
                        let path = owned.clone();
                        async move { connect_unix(&path, links).await.map(|(stream, _)| stream) }
                    };
                    let origin = Uri::from_static("http://localhost");
                    match channel(origin, stream, redial).await {
                        Ok(channel) => return Ok(Dialled { channel, socket }),
                        Err(how) => self.broke(how).await?,
                    }
                }
                Err(error) if is_absent(&error) && self.dial.wait => {
                    (self.waiting)(Waiting::Socket);
                    wait(path, links, self.dial.deadline).await?;
                    self.pauses = Pauses::default();
                }
                Err(error) if is_absent(&error) => {
                    return Err(ProbeError::SocketMissing {
                        path: path.to_owned(),
                    });
                }
                Err(error) => {
                    // ECONNREFUSED is also what a regular file gets.
                    must_be_a_socket(path, links)?;
                    self.refused(error).await?;
                }
            }
        }
    }

    async fn tcp(mut self, host: &str, port: u16) -> Result<Dialled, ProbeError> {
        loop {
            let trying = timeout_at(self.dial.deadline, TcpStream::connect((host, port)));
            let Ok(tried) = trying.await else {
                return Err(timed_out(self.endpoint, self.started, Waiting::Listener));
            };
            match tried.and_then(|stream| stream.set_nodelay(true).map(|()| stream)) {
                Ok(stream) => {
                    let address = (host.to_owned(), port);
                    let redial = move || TcpStream::connect(address.clone());
                    match channel(tcp_origin(host, port), stream, redial).await {
                        Ok(channel) => {
                            return Ok(Dialled {
                                channel,
                                socket: None,
                            });
                        }
                        Err(how) => self.broke(how).await?,
                    }
                }
                Err(error) => self.refused(error).await?,
            }
        }
    }

    /// A pause before the next try, where that may do better.
    async fn refused(&mut self, source: io::Error) -> Result<(), ProbeError> {
        if self.dial.retry && is_refused(&source) {
            self.pause(Waiting::Listener).await
        } else {
            Err(ProbeError::Connect {
                endpoint: self.endpoint.clone(),
                source,
            })
        }
    }

    /// The same for a connection that broke before anything was asked.
    async fn broke(&mut self, how: Broken) -> Result<(), ProbeError> {
        match how {
            Broken::Ended(detail) if self.dial.retry => {
                self.pause(Waiting::Disconnected { detail }).await
            }
            Broken::Ended(detail) => {
                let waiting = Waiting::Disconnected { detail };
                Err(timed_out(self.endpoint, self.started, waiting))
            }
            Broken::NotGrpc(detail) => Err(ProbeError::NotGrpc {
                endpoint: self.endpoint.clone(),
                detail,
            }),
        }
    }

    async fn pause(&mut self, waiting: Waiting) -> Result<(), ProbeError> {
        (self.waiting)(waiting.clone());
        let remote = self.endpoint.socket().is_none();
        let until = Instant::now() + self.pauses.refused(remote);
        sleep_until(until.min(self.dial.deadline)).await;
        if until >= self.dial.deadline {
            return Err(timed_out(self.endpoint, self.started, waiting));
        }
        Ok(())
    }
}

/// After a failure: whether the file's kind is the reason for it.
fn must_be_a_socket(path: &Path, links: Links) -> Result<(), ProbeError> {
    let found = match links {
        Links::Follow => fs::metadata(path),
        Links::Refuse => fs::symlink_metadata(path),
    };
    match found.map(|meta| meta.file_type()) {
        Ok(kind) if !kind.is_socket() => Err(not_a_socket(path, kind)),
        _ => Ok(()),
    }
}

async fn connect_unix(path: &Path, links: Links) -> io::Result<(UnixStream, Option<SocketId>)> {
    match links {
        Links::Follow => {
            let stream = UnixStream::connect(path).await?;
            Ok((stream, SocketId::of(path)))
        }
        Links::Refuse => {
            let handle = open(
                path,
                OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC,
                Mode::empty(),
            )?;
            let stat = fstat(&handle)?;
            if SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT != SFlag::S_IFSOCK {
                return Err(ErrorKind::InvalidInput.into());
            }
            let stream =
                UnixStream::connect(format!("/proc/self/fd/{}", handle.as_raw_fd())).await?;
            let socket = SocketId {
                device: stat.st_dev,
                inode: stat.st_ino,
            };
            Ok((stream, Some(socket)))
        }
    }
}

/// A channel over `first`, which dials again with `redial` once that connection has ended.
async fn channel<S, R, F>(origin: Uri, first: S, redial: R) -> Result<Channel, Broken>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    R: Fn() -> F + Send + 'static,
    F: Future<Output = io::Result<S>> + Send + 'static,
{
    type Connecting<S> = Pin<Box<dyn Future<Output = io::Result<TokioIo<S>>> + Send>>;
    let mut first = Some(first);
    let connector = tower::service_fn(move |_: Uri| -> Connecting<S> {
        match first.take() {
            Some(stream) => Box::pin(std::future::ready(Ok(TokioIo::new(stream)))),
            None => {
                let dialling = redial();
                Box::pin(async move { dialling.await.map(TokioIo::new) })
            }
        }
    });
    tonic::transport::Endpoint::from(origin)
        .http2_max_header_list_size(MAX_HEADER_BYTES)
        .buffer_size(32)
        .connect_with_connector(connector)
        .await
        .map_err(|error| broken(&error))
}

fn tcp_origin(host: &str, port: u16) -> Uri {
    let host = if host.contains(':') {
        format!("[{host}]")
    } else {
        host.to_owned()
    };
    format!("http://{host}:{port}")
        .parse()
        .unwrap_or_else(|_| Uri::from_static("http://localhost"))
}

/// Refused, or the listener's backlog is full, or it was closed with us in the backlog: a moment later it may do.
fn is_refused(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused | ErrorKind::WouldBlock | ErrorKind::ConnectionReset
    )
}
