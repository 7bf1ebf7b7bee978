//! Binding: everything that can be refused is refused here, before anything is served.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::time::Instant;

use super::auth::BearerToken;
use super::error::HttpError;
use super::unix::{self, SocketFile, UnixSocket};
use crate::dir_lock::DirLock;
use crate::options::TcpOptions;

/// Bound listeners, nothing served yet. Connections wait in the queues of the sockets.
#[derive(Debug)]
pub struct Listeners {
    // Before the listener: fields are dropped in this order.
    pub(super) file: SocketFile,
    pub(super) unix: UnixListener,
    pub(super) tcp: Option<Tcp>,
}

/// The TCP listener and what it asks of its clients.
#[derive(Debug)]
pub(super) struct Tcp {
    pub(super) listener: TcpListener,
    pub(super) address: SocketAddr,
    pub(super) token: Arc<BearerToken>,
    #[cfg(feature = "tls")]
    pub(super) tls: Option<super::tls::Acceptor>,
}

/// How long the lock of the socket's directory is waited for, and how often it is tried. It is held for microseconds.
const BIND_PATIENCE: Duration = Duration::from_secs(5);
const BIND_PAUSE: Duration = Duration::from_millis(10);

impl Listeners {
    /// Binds the Unix socket and, when configured, the TCP address with its token and TLS.
    ///
    /// # Errors
    /// Whatever makes a listener unsafe or impossible; nothing is left bound then.
    pub async fn bind(socket: &Path, tcp: Option<&TcpOptions>) -> Result<Self, HttpError> {
        Self::bind_under(socket, tcp, None).await
    }

    /// The same for an agent that may hold the lock of the socket's directory already.
    pub(crate) async fn bind_under(
        socket: &Path,
        tcp: Option<&TcpOptions>,
        held: Option<Arc<DirLock>>,
    ) -> Result<Self, HttpError> {
        // TCP first: it leaves nothing behind when the Unix socket is refused.
        let tcp = match tcp {
            Some(options) => Some(Tcp::bind(options).await?),
            None => None,
        };
        let (unix, file) = bind_unix(socket, held).await?;
        Ok(Self { unix, file, tcp })
    }
}

/// Binds the Unix socket; waits a moment for another server that is just starting or ending in the same directory.
pub(super) async fn bind_unix(
    socket: &Path,
    held: Option<Arc<DirLock>>,
) -> Result<(UnixListener, SocketFile), HttpError> {
    let failed = |source| HttpError::BindUnix {
        path: socket.to_owned(),
        source,
    };
    let deadline = Instant::now() + BIND_PATIENCE;
    loop {
        let (path, held) = (socket.to_owned(), held.clone());
        let bound = tokio::task::spawn_blocking(move || unix::bind(&path, held)).await;
        let bound = bound.map_err(|error| failed(std::io::Error::other(error)))?;
        match bound {
            Err(HttpError::SocketStarting { .. }) if Instant::now() < deadline => {
                tokio::time::sleep(BIND_PAUSE).await;
            }
            bound => {
                let UnixSocket { listener, file } = bound?;
                let listener = UnixListener::from_std(listener).map_err(failed)?;
                return Ok((listener, file));
            }
        }
    }
}

impl Tcp {
    async fn bind(options: &TcpOptions) -> Result<Self, HttpError> {
        let address = options.address;
        #[cfg(not(feature = "tls"))]
        if options.tls.is_some() {
            return Err(HttpError::TlsNotBuilt { address });
        }
        if !is_loopback(address) && options.tls.is_none() {
            return Err(HttpError::TlsRequired { address });
        }
        let token = Arc::new(BearerToken::load(&options.token_file)?);
        #[cfg(feature = "tls")]
        let tls = options.tls.as_ref().map(super::tls::acceptor).transpose()?;
        let failed = |source| HttpError::BindTcp { address, source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        Ok(Self {
            listener,
            address,
            token,
            #[cfg(feature = "tls")]
            tls,
        })
    }
}

/// Whether the TCP listener could be bound as far as its files say: token, certificates, key. Blocking.
///
/// # Errors
/// [`HttpError`] that names the file and what is wrong with it.
pub fn check_tcp(options: &TcpOptions) -> Result<(), HttpError> {
    BearerToken::load(&options.token_file)?;
    #[cfg(feature = "tls")]
    options.tls.as_ref().map(super::tls::acceptor).transpose()?;
    Ok(())
}

/// Whether only this machine can reach the address. An IPv4 address in IPv6 clothes counts as what it is.
fn is_loopback(address: SocketAddr) -> bool {
    match address.ip().to_canonical() {
        std::net::IpAddr::V4(ip) => ip.is_loopback(),
        std::net::IpAddr::V6(ip) => ip.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_addresses_are_loopback() {
        for (address, expected) in [
            ("127.0.0.1:0", true),
            ("127.8.8.8:0", true),
            ("[::1]:0", true),
            ("[::ffff:127.0.0.1]:0", true),
            ("0.0.0.0:0", false),
            ("[::]:0", false),
            ("10.0.0.1:0", false),
            ("[::ffff:10.0.0.1]:0", false),
        ] {
            assert_eq!(is_loopback(address.parse().unwrap()), expected, "{address}");
        }
    }
}
