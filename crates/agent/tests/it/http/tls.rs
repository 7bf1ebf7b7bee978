//! TLS of the TCP listener.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use longshore_agent::TlsFiles;
use longshore_agent::http::{HttpError, HttpLimits};
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use super::access::{TOKEN, refused, tcp, token_file};
use super::raw::{Connection, JSON};
use super::{private_dir, serve_with};

const HEALTH: &[u8] = br#"{"type":"GET_HEALTH"}"#;

/// A certificate for `localhost` and its key, as files in `dir`.
fn certificate(dir: &Path) -> (TlsFiles, CertificateDer<'static>) {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
    let files = TlsFiles {
        certificates: dir.join("cert.pem"),
        key: dir.join("key.pem"),
    };
    fs::write(&files.certificates, made.cert.pem()).unwrap();
    fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    (files, made.cert.der().clone())
}

async fn connect(
    address: SocketAddr,
    trusted: CertificateDer<'static>,
) -> std::io::Result<Connection<TlsStream<TcpStream>>> {
    let mut roots = RootCertStore::empty();
    roots.add(trusted).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await?;
    let name = ServerName::try_from("localhost").unwrap();
    Ok(Connection::over(
        TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await?,
    ))
}

#[tokio::test]
async fn other_machines_are_served_over_tls_with_the_token() {
    let dir = private_dir();
    let (files, trusted) = certificate(dir.path());
    let mut options = tcp("0.0.0.0:0", token_file(dir.path(), TOKEN, 0o600));
    options.tls = Some(files);
    let limits = HttpLimits {
        body_timeout: Duration::from_millis(200),
        ..HttpLimits::default()
    };
    let served = serve_with(limits, Some(&options)).await;
    let port = served.server.tcp_address().unwrap().port();
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let bearer = format!("Bearer {TOKEN}");
    let mut connection = connect(address, trusted.clone()).await.unwrap();
    assert_eq!(
        connection
            .post(&[JSON, ("Authorization", &bearer)], HEALTH)
            .await
            .status,
        200
    );
    assert_eq!(connection.post(&[JSON], HEALTH).await.status, 401);
    // Whoever speaks plain HTTP, or does not speak, is not heard.
    let mut plain = Connection::over(TcpStream::connect(address).await.unwrap());
    plain
        .send(&super::raw::request("POST /api/v1", &[JSON], HEALTH))
        .await;
    while !plain.is_closed_in_silence().await {}
    let mut silent = Connection::over(TcpStream::connect(address).await.unwrap());
    assert!(silent.is_closed_in_silence().await);
    served.server.shutdown().await;
}

#[tokio::test]
async fn a_certificate_or_key_that_cannot_be_used_is_refused_by_name() {
    let dir = private_dir();
    let (files, _) = certificate(dir.path());
    let other = dir.path().join("other");
    fs::create_dir(&other).unwrap();
    let (foreign, _) = certificate(&other);
    let empty = dir.path().join("empty.pem");
    fs::write(&empty, "").unwrap();
    for (certificates, key, named) in [
        (dir.path().join("none.pem"), files.key.clone(), "none.pem"),
        (empty.clone(), files.key.clone(), "empty.pem"),
        (files.certificates.clone(), empty, "empty.pem"),
        (files.certificates.clone(), foreign.key, "other/key.pem"),
    ] {
        let mut options = tcp("127.0.0.1:0", token_file(dir.path(), TOKEN, 0o600));
        options.tls = Some(TlsFiles { certificates, key });
        let error = refused(&options).await;
        assert!(matches!(error, HttpError::TlsFile { .. }), "{error}");
        assert!(error.to_string().contains(named), "{named}: {error}");
    }
}
