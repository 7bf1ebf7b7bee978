//! One GET request with its redirects: only the last status counts.

use std::io;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use http::{HeaderValue, Request, StatusCode, header};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::location::Location;
use crate::prober::is_ours;
use crate::result::clip;
use crate::{Family, HealthError, HttpProbe, NetNamespace, ProbeResult, Scheme};

/// How many redirects are followed, as curl does.
const MAX_REDIRECTS: usize = 50;
/// The longest head of an answer; hyper refuses more than 100 headers by itself.
const MAX_HEAD: usize = 64 << 10;
/// How much of a body is read, so that a small answer ends in order; what is longer is cut off and counts all the same.
const MAX_BODY: usize = 64 << 10;

/// Asks. Without state but for the TLS configuration, which is made once.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    #[cfg(feature = "tls")]
    tls: crate::tls::Connector,
}

/// Why there is no status.
#[derive(Debug)]
enum Fault {
    Io(String, io::Error),
    Protocol(String),
}

impl Client {
    /// A redirect may lead to `https` even where the probe does not begin there.
    #[cfg(feature = "tls")]
    pub(crate) fn new(_scheme: Scheme) -> Result<Self, HealthError> {
        Ok(Self {
            tls: crate::tls::Connector::new()?,
        })
    }

    #[cfg(not(feature = "tls"))]
    pub(crate) fn new(scheme: Scheme) -> Result<Self, HealthError> {
        match scheme {
            Scheme::Http => Ok(Self {}),
            Scheme::Https => Err(HealthError::NoTls),
        }
    }

    pub(crate) async fn get(&self, namespace: &NetNamespace, probe: &HttpProbe) -> ProbeResult {
        match self.follow(namespace, probe).await {
            Ok(status) => ProbeResult::Status(status.as_u16()),
            Err(Fault::Io(doing, error)) if is_ours(&error) => {
                ProbeResult::Transient(format!("{doing}: {error}"))
            }
            Err(Fault::Io(doing, error)) => ProbeResult::Failed(clip(&format!("{doing}: {error}"))),
            Err(Fault::Protocol(what)) => ProbeResult::Failed(clip(&what)),
        }
    }

    async fn follow(
        &self,
        namespace: &NetNamespace,
        probe: &HttpProbe,
    ) -> Result<StatusCode, Fault> {
        let mut at = Location::first(probe);
        for _ in 0..=MAX_REDIRECTS {
            let stream = connect(namespace, &at, probe.family).await?;
            let (status, next) = self.exchange(stream, &at).await?;
            match next {
                Some(next) if status.is_redirection() && !probe.wants(status.as_u16()) => {
                    let next = next.to_str().map_err(|_| "it is no text");
                    at = next.and_then(|next| at.join(next)).map_err(|problem| {
                        Fault::Protocol(format!("a redirect ({status}) leads nowhere: {problem}"))
                    })?;
                }
                _ => return Ok(status),
            }
        }
        Err(Fault::Protocol(format!(
            "more than {MAX_REDIRECTS} redirects"
        )))
    }

    async fn exchange(
        &self,
        stream: TcpStream,
        at: &Location,
    ) -> Result<(StatusCode, Option<HeaderValue>), Fault> {
        match at.scheme {
            Scheme::Http => request(stream, at).await,
            #[cfg(feature = "tls")]
            Scheme::Https => {
                let stream = self.tls.connect(&at.host, stream).await;
                let stream = stream
                    .map_err(|error| Fault::Io(format!("TLS with {}", at.authority()), error))?;
                Box::pin(request(stream, at)).await
            }
            #[cfg(not(feature = "tls"))]
            Scheme::Https => Err(Fault::Protocol(
                "a redirect leads to https, and the feature `tls` is not compiled in".to_owned(),
            )),
        }
    }
}

/// The loopback addresses need no look-up; other names come from redirects alone.
async fn connect(
    namespace: &NetNamespace,
    at: &Location,
    family: Family,
) -> Result<TcpStream, Fault> {
    let fault = |error| Fault::Io(format!("connecting to {}", at.authority()), error);
    let bare = at.host.trim_start_matches('[').trim_end_matches(']');
    let addresses = if let Ok(address) = bare.parse::<IpAddr>() {
        vec![address]
    } else if bare.eq_ignore_ascii_case("localhost") {
        vec![family.loopback()]
    } else {
        namespace.resolve(bare.to_owned()).await.map_err(fault)?
    };
    let mut last = io::Error::other("the name has no address");
    for address in addresses {
        match namespace.connect(SocketAddr::new(address, at.port)).await {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(fault(last))
}

async fn request<S>(stream: S, at: &Location) -> Result<(StatusCode, Option<HeaderValue>), Fault>
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let fault = |error: hyper::Error| {
        Fault::Protocol(format!("asking {}: {}", at.authority(), chain(&error)))
    };
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(MAX_HEAD)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(fault)?;
    // Ends with this function, whatever the server does.
    let mut driver = JoinSet::new();
    driver.spawn(connection);
    let request = Request::get(at.path.as_str())
        .header(header::HOST, at.authority())
        .header(
            header::USER_AGENT,
            concat!("longshore-health/", env!("CARGO_PKG_VERSION")),
        )
        .header(header::ACCEPT, "*/*")
        .header(header::CONNECTION, "close")
        .body(Empty::<Bytes>::new())
        .map_err(|error| Fault::Protocol(format!("asking {}: {error}", at.authority())))?;
    let answer = sender.send_request(request).await.map_err(fault)?;
    let (parts, mut body) = answer.into_parts();
    drain(&mut body).await.map_err(fault)?;
    let next = parts.headers.get(header::LOCATION).cloned();
    Ok((parts.status, next))
}

/// A body that is cut off by the server is a failure, as with curl.
async fn drain(body: &mut Incoming) -> Result<(), hyper::Error> {
    let mut seen = 0usize;
    while let Some(frame) = body.frame().await {
        seen = seen.saturating_add(frame?.data_ref().map_or(1, Bytes::len).max(1));
        if seen > MAX_BODY {
            break;
        }
    }
    Ok(())
}

fn chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
