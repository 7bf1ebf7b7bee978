//! Small servers that say what a test wants.

use std::net::SocketAddr;
use std::sync::Arc;

use longshore_health::{NetNamespace, Probe, ProbeResult, Prober};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// What is sent for a request line such as `GET /x HTTP/1.1`; then the connection is closed, or held open for ever.
pub(crate) type Answers = fn(head: &str) -> (Vec<u8>, Then);

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Then {
    Close,
    Hold,
    /// Sends zeroes until the other side has enough.
    Flood,
}

/// Serves until it is dropped.
pub(crate) struct Server {
    pub(crate) address: SocketAddr,
    _tasks: JoinSet<()>,
}

impl Server {
    pub(crate) async fn start(answers: Answers) -> Self {
        Self::on(
            TcpListener::bind("127.0.0.1:0").await.unwrap(),
            None,
            answers,
        )
    }

    pub(crate) async fn with_tls(answers: Answers) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        Self::on(listener, Some(acceptor()), answers)
    }

    pub(crate) fn on(listener: TcpListener, tls: Option<TlsAcceptor>, answers: Answers) -> Self {
        let address = listener.local_addr().unwrap();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let tls = tls.clone();
                connections.spawn(async move {
                    match tls {
                        None => answer(stream, answers).await,
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                answer(stream, answers).await;
                            }
                        }
                    }
                });
            }
        });
        Self {
            address,
            _tasks: tasks,
        }
    }

    pub(crate) fn port(&self) -> u32 {
        self.address.port().into()
    }
}

async fn answer<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, answers: Answers) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < 64 * 1024 {
        match stream.read_u8().await {
            // The beginning of TLS, said to a plain server.
            Ok(0x16) if head.is_empty() => break,
            Ok(byte) => head.push(byte),
            Err(_) => return,
        }
    }
    let (bytes, then) = answers(&String::from_utf8_lossy(&head));
    let sent = stream.write_all(&bytes).await;
    match then {
        Then::Hold => std::future::pending().await,
        Then::Flood => while stream.write_all(&[0; 4096]).await.is_ok() {},
        Then::Close => {}
    }
    drop(sent);
    drop(stream.shutdown().await);
}

/// A certificate that nobody has signed, for another name, expired long ago.
pub(crate) fn acceptor() -> TlsAcceptor {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["elsewhere.invalid".to_owned()]).unwrap();
    params.not_before = rcgen::date_time_ymd(2000, 1, 1);
    params.not_after = rcgen::date_time_ymd(2001, 1, 1);
    let certificate = params.self_signed(&key).unwrap().der().clone();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    TlsAcceptor::from(Arc::new(config))
}

pub(crate) fn ok(body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// One run in our own namespace, within the patience of a test.
pub(crate) async fn ask(probe: Probe) -> ProbeResult {
    let prober = Prober::new(NetNamespace::own());
    prober.once(probe, Some(crate::PATIENCE)).await.unwrap()
}
