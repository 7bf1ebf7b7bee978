use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use longshore_agent_client::fake::{FakeAgent, Flavor};
use longshore_agent_client::{AgentClient, AgentClientConfig, AgentError, Codec};
use longshore_mesos_api::v1::agent::call::LaunchContainer;
use longshore_mesos_api::v1::{CommandInfo, ContainerId};
use tempfile::TempDir;
use tokio::net::{TcpListener, UnixStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// A fake agent in a directory of its own.
pub(crate) struct Fixture {
    pub(crate) dir: TempDir,
    pub(crate) agent: FakeAgent,
}

pub(crate) fn fixture() -> Fixture {
    fixture_as(Flavor::Longshore)
}

pub(crate) fn fixture_as(flavor: Flavor) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let agent = FakeAgent::start_as(flavor, dir.path().join("agent.sock")).unwrap();
    Fixture { dir, agent }
}

impl Fixture {
    pub(crate) fn config(&self) -> AgentClientConfig {
        AgentClientConfig::new(self.agent.endpoint())
    }

    pub(crate) fn client_with(&self, change: impl FnOnce(&mut AgentClientConfig)) -> AgentClient {
        let mut config = self.config();
        change(&mut config);
        AgentClient::new(config).unwrap()
    }

    pub(crate) fn codec(&self, codec: Codec) -> AgentClient {
        self.client_with(|config| config.codec = codec)
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }
}

pub(crate) fn id(value: &str) -> ContainerId {
    ContainerId {
        value: value.into(),
        ..ContainerId::default()
    }
}

pub(crate) fn nested_id(parent: &str, value: &str) -> ContainerId {
    ContainerId {
        value: value.into(),
        parent: Some(Box::new(id(parent))),
    }
}

pub(crate) fn launch(id: ContainerId) -> LaunchContainer {
    LaunchContainer {
        container_id: id,
        command: Some(CommandInfo {
            shell: Some(true),
            value: Some("sleep 1000".into()),
            ..CommandInfo::default()
        }),
        ..LaunchContainer::default()
    }
}

/// The error with its causes, as a program prints it.
pub(crate) fn chain(error: &AgentError) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

/// What the test waits for must come within this.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(30), future)
        .await
        .expect("it did not happen within 30 s")
}

/// A TCP or TLS front of a Unix socket, whose connections can be cut.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    cut: tokio::sync::watch::Sender<u64>,
    _server: JoinSet<()>,
}

impl Proxy {
    pub(crate) async fn start(socket: &Path, tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let cut = tokio::sync::watch::Sender::new(0);
        let mut server = JoinSet::new();
        let (socket, cuts) = (socket.to_owned(), cut.clone());
        server.spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((mut tcp, _)) = listener.accept().await {
                let (socket, tls) = (socket.clone(), tls.clone());
                let mut cut = cuts.subscribe();
                connections.spawn(async move {
                    let Ok(mut unix) = UnixStream::connect(&socket).await else {
                        return;
                    };
                    let copy = async {
                        if let Some(tls) = tls {
                            let Ok(mut tcp) = tls.accept(tcp).await else {
                                return;
                            };
                            drop(tokio::io::copy_bidirectional(&mut tcp, &mut unix).await);
                        } else {
                            drop(tokio::io::copy_bidirectional(&mut tcp, &mut unix).await);
                        }
                    };
                    tokio::select! {
                        () = copy => {}
                        _ = cut.changed() => {}
                    }
                });
            }
        });
        Self {
            address,
            cut,
            _server: server,
        }
    }

    /// Ends every connection there is.
    pub(crate) fn cut(&self) {
        self.cut.send_modify(|number| *number += 1);
    }
}
