//! TLS by rustls with ring; the certificates come from a file.

use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::{AgentError, TlsOptions};

/// Where Debian, Alpine and others keep all CA certificates in one file.
const SYSTEM_CA_FILE: &str = "/etc/ssl/certs/ca-certificates.crt";

/// A bundle of all public CAs has about 250 KiB.
const MAX_CA_FILE: u64 = 8 << 20;

#[derive(Clone)]
pub(crate) struct TlsConnector(tokio_rustls::TlsConnector);

impl fmt::Debug for TlsConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TlsConnector")
    }
}

impl TlsConnector {
    pub(crate) fn new(options: &TlsOptions) -> Result<Self, AgentError> {
        let path = options
            .ca_file
            .clone()
            .unwrap_or_else(|| PathBuf::from(SYSTEM_CA_FILE));
        let roots = read_roots(&path).map_err(|source| AgentError::CaFile {
            path: path.clone(),
            source,
        })?;
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|source| AgentError::CaFile {
                path,
                source: source.into(),
            })?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(tokio_rustls::TlsConnector::from(Arc::new(config))))
    }

    pub(crate) async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        self.0.connect(name, stream).await
    }
}

fn read_roots(path: &Path) -> Result<RootCertStore, Box<dyn std::error::Error + Send + Sync>> {
    let mut pem = Vec::new();
    std::fs::File::open(path)?
        .take(MAX_CA_FILE + 1)
        .read_to_end(&mut pem)?;
    if u64::try_from(pem.len())? > MAX_CA_FILE {
        return Err("the file is over 8 MiB".into());
    }
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        roots.add(certificate?)?;
    }
    if roots.is_empty() {
        return Err("there is no PEM certificate in it".into());
    }
    Ok(roots)
}
