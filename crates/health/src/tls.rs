//! TLS without verification: a probe asks whether somebody answers, at an address inside the container, and not who
//! that is. Nothing secret is sent.

use std::fmt;
use std::io;
use std::sync::Arc;

use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::client::danger::{
    HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier,
};
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::{ClientConfig, DigitallySignedStruct, Error, SignatureScheme};

use crate::HealthError;

#[derive(Clone)]
pub(crate) struct Connector(tokio_rustls::TlsConnector);

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector")
    }
}

impl Connector {
    pub(crate) fn new() -> Result<Self, HealthError> {
        let provider = Arc::new(ring::default_provider());
        let schemes = provider
            .signature_verification_algorithms
            .supported_schemes();
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            // Only when the provider lacks all ciphers of a version.
            .map_err(|_| HealthError::NoTls)?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Anyone { schemes }))
            .with_no_client_auth();
        Ok(Self(tokio_rustls::TlsConnector::from(Arc::new(config))))
    }

    pub(crate) async fn connect(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> io::Result<TlsStream<TcpStream>> {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let name = ServerName::try_from(bare.to_owned()).map_err(io::Error::other)?;
        self.0.connect(name, stream).await
    }
}

/// Takes every certificate.
#[derive(Debug)]
struct Anyone {
    schemes: Vec<SignatureScheme>,
}

impl ServerCertVerifier for Anyone {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.schemes.clone()
    }
}
