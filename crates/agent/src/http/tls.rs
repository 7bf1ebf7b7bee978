//! TLS of the TCP listener (feature `tls`): rustls with ring, TLS 1.2 and 1.3.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;

use super::error::HttpError;
use crate::options::TlsFiles;

/// What turns a TCP stream into a TLS one.
#[derive(Clone)]
pub(crate) struct Acceptor(pub(crate) TlsAcceptor);

impl fmt::Debug for Acceptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Acceptor(..)")
    }
}

/// Reads the certificate chain and the key; blocking.
pub(crate) fn acceptor(files: &TlsFiles) -> Result<Acceptor, HttpError> {
    let certificates = CertificateDer::pem_file_iter(&files.certificates)
        .and_then(Iterator::collect::<Result<Vec<_>, pem::Error>>)
        .map_err(|error| unusable(&files.certificates, &error))?;
    if certificates.is_empty() {
        return Err(unusable(&files.certificates, &"it has no certificate"));
    }
    let key =
        PrivateKeyDer::from_pem_file(&files.key).map_err(|error| unusable(&files.key, &error))?;
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&files.certificates, &error))?
        .with_no_client_auth()
        .with_single_cert(certificates, key)
        .map_err(|error| unusable(&files.key, &error))?;
    Ok(Acceptor(TlsAcceptor::from(Arc::new(config))))
}

fn unusable(path: &Path, problem: &dyn std::fmt::Display) -> HttpError {
    HttpError::TlsFile {
        path: path.to_owned(),
        problem: problem.to_string(),
    }
}
