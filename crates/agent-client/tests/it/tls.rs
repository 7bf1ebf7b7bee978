//! `https://` with certificates made here.

use std::sync::Arc;

use longshore_agent_client::{AgentClient, AgentClientConfig, AgentError, RetryPolicy, Waited};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls_pki_types::PrivateKeyDer;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::crypto::ring;

use crate::helpers::{Fixture, Proxy, chain, fixture, id, launch, soon};

struct Tls {
    fixture: Fixture,
    proxy: Proxy,
    ca_file: std::path::PathBuf,
}

/// A fake agent behind TLS, with a certificate for `name`.
async fn tls(name: &str) -> Tls {
    let fixture = fixture();
    let CertifiedKey { cert, signing_key } =
        generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    let ca_file = fixture.write("ca.pem", cert.pem());
    let key = PrivateKeyDer::Pkcs8(signing_key.serialize_der().into());
    let server = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![cert.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(server));
    let proxy = Proxy::start(fixture.agent.socket(), Some(acceptor)).await;
    Tls {
        fixture,
        proxy,
        ca_file,
    }
}

impl Tls {
    fn config(&self, host: &str) -> AgentClientConfig {
        let endpoint = format!("https://{host}:{}", self.proxy.address.port());
        let mut config = AgentClientConfig::new(endpoint.parse().unwrap());
        config.tls.ca_file = Some(self.ca_file.clone());
        config.retry = RetryPolicy::never();
        config
    }
}

#[tokio::test]
async fn an_agent_with_a_certificate_of_the_given_ca_is_spoken_to() {
    let tls = tls("127.0.0.1").await;
    let client = AgentClient::new(tls.config("127.0.0.1")).unwrap();
    assert!(soon(client.get_health()).await.unwrap());
    client.launch_container(launch(id("c"))).await.unwrap();
    let c = id("c");
    let wait = client.wait_container(&c);
    let kill = client.kill_container(&c, None);
    let (waited, _) = soon(async { tokio::join!(wait, kill) }).await;
    assert!(matches!(waited.unwrap(), Waited::Exited(_)));
    assert_eq!(tls.fixture.agent.connections(), 3);
}

#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let tls = tls("agent.example").await;
    let client = AgentClient::new(tls.config("127.0.0.1")).unwrap();
    let error = soon(client.get_health()).await.unwrap_err();
    assert!(matches!(error, AgentError::Connect { .. }));
    assert!(
        chain(&error).contains("not valid for name"),
        "{}",
        chain(&error)
    );
    assert_eq!(tls.fixture.agent.log(), []);
}

#[tokio::test]
async fn a_certificate_of_another_ca_is_refused() {
    let tls = tls("127.0.0.1").await;
    let other = generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let mut config = tls.config("127.0.0.1");
    config.tls.ca_file = Some(tls.fixture.write("other.pem", other.cert.pem()));
    let client = AgentClient::new(config).unwrap();
    let error = soon(client.get_health()).await.unwrap_err();
    assert!(matches!(error, AgentError::Connect { .. }), "{error:?}");
    assert_eq!(tls.fixture.agent.log(), []);
}

#[tokio::test]
async fn an_agent_without_tls_is_refused() {
    let tls = tls("127.0.0.1").await;
    let plain = Proxy::start(tls.fixture.agent.socket(), None).await;
    let mut config = tls.config("127.0.0.1");
    config.endpoint = format!("https://{}", plain.address).parse().unwrap();
    let client = AgentClient::new(config).unwrap();
    let error = soon(client.get_health()).await.unwrap_err();
    assert!(matches!(error, AgentError::Connect { .. }), "{error:?}");
}

#[tokio::test]
async fn a_ca_file_that_is_none_is_named() {
    let tls = tls("127.0.0.1").await;
    for (name, content) in [
        ("none", None),
        ("empty", Some("")),
        (
            "bad",
            Some("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        ),
    ] {
        let mut config = tls.config("127.0.0.1");
        let path = tls.fixture.dir.path().join(name);
        if let Some(content) = content {
            std::fs::write(&path, content).unwrap();
        }
        config.tls.ca_file = Some(path);
        let error = AgentClient::new(config).unwrap_err();
        assert!(matches!(error, AgentError::CaFile { .. }), "{error:?}");
        assert!(error.to_string().contains(name), "{error}");
    }
}
