//! An agent under test, ours or a real one, and short words for what the scenarios do with it.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use longshore_agent::{Agent, AgentOptions, ShimCommand};
use longshore_agent_client::{
    AgentClient, AgentClientConfig, Codec, Killed, Launched, Show, Waited,
};
use longshore_mesos_api::v1::agent::call::LaunchContainer;
use longshore_mesos_api::v1::agent::response::get_containers::Container;
use longshore_mesos_api::v1::{CommandInfo, ContainerId};
use longshore_testkit::peers::MesosAgent;
use tokio::net::{TcpStream, UnixStream};

use crate::http::private_dir;
use crate::http::raw::{Connection, Reply, request};

/// Whatever is waited for here takes milliseconds; this is for a loaded machine.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct Target {
    agent: Which,
    pub(super) client: AgentClient,
    pub(super) json: AgentClient,
    dir: tempfile::TempDir,
}

enum Which {
    /// `None` while the agent is restarted.
    Embedded(Mutex<Option<Agent>>),
    Mesos(Mutex<Option<MesosAgent>>, u16),
}

fn client(endpoint: &str, codec: Codec) -> AgentClient {
    let mut config = AgentClientConfig::new(endpoint.parse().unwrap());
    config.codec = codec;
    AgentClient::new(config).unwrap()
}

fn options(dir: &Path) -> AgentOptions {
    let shim = ShimCommand::new(env!("CARGO_BIN_EXE_longshore-shim"), Vec::<String>::new());
    let socket = dir.join("http").join("agent.sock");
    let mut options = AgentOptions::new(dir.join("state"), dir.join("run"), socket, shim);
    // The tests of the limits are elsewhere; these run where there is no cgroup to write to as well.
    options.cgroups = false;
    options
}

impl Target {
    pub(super) async fn embedded() -> Self {
        let dir = private_dir();
        let agent = Agent::start(options(dir.path())).await.unwrap();
        let endpoint = format!("unix://{}", dir.path().join("http/agent.sock").display());
        Self {
            agent: Which::Embedded(Mutex::new(Some(agent))),
            client: client(&endpoint, Codec::Protobuf),
            json: client(&endpoint, Codec::Json),
            dir,
        }
    }

    pub(super) async fn mesos() -> Option<Self> {
        let dir = private_dir();
        let agent = MesosAgent::start(dir.path()).await?;
        let (endpoint, port) = (agent.url(), agent.port());
        Some(Self {
            agent: Which::Mesos(Mutex::new(Some(agent)), port),
            client: client(&endpoint, Codec::Protobuf),
            json: client(&endpoint, Codec::Json),
            dir,
        })
    }

    pub(super) fn is_mesos(&self) -> bool {
        matches!(self.agent, Which::Mesos(..))
    }

    /// The agent goes and another one comes, on the same directories.
    pub(super) async fn restart(&self) {
        match &self.agent {
            Which::Embedded(agent) => {
                let old = agent.lock().unwrap().take().unwrap();
                old.shutdown().await;
                let new = Agent::start(options(self.dir.path())).await.unwrap();
                *agent.lock().unwrap() = Some(new);
            }
            Which::Mesos(agent, _) => {
                let mut taken = agent.lock().unwrap().take().unwrap();
                taken.restart().await;
                *agent.lock().unwrap() = Some(taken);
            }
        }
    }

    /// Ends what is left of the containers, and the agent.
    pub(super) async fn end(self) {
        let show = Show {
            nested: false,
            standalone: true,
        };
        for container in self.client.get_containers(show).await.unwrap() {
            self.client
                .kill_container(&container.container_id, None)
                .await
                .unwrap();
            self.wait(&container.container_id).await;
        }
        match self.agent {
            Which::Embedded(agent) => {
                let agent = agent.into_inner().unwrap().unwrap();
                agent.shutdown().await;
            }
            Which::Mesos(agent, _) => drop(agent),
        }
    }

    /// A directory that containers may write to.
    pub(super) fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub(super) fn sandbox(&self, id: &str) -> PathBuf {
        self.dir.path().join("state").join("containers").join(id)
    }

    pub(super) async fn launch(&self, id: &ContainerId, command: CommandInfo) -> Launched {
        let launch = LaunchContainer {
            container_id: id.clone(),
            command: Some(command),
            ..LaunchContainer::default()
        };
        self.client.launch_container(launch).await.unwrap()
    }

    /// The raw wait status, `None` when the agent does not know the container.
    pub(super) async fn wait(&self, id: &ContainerId) -> Option<i32> {
        let waited = tokio::time::timeout(PATIENCE, self.client.wait_container(id)).await;
        match waited.unwrap().unwrap() {
            Waited::Exited(wait) => Some(wait.exit_status()),
            Waited::Unknown => None,
        }
    }

    pub(super) async fn kill(&self, id: &ContainerId, signal: Option<i32>) -> Killed {
        self.client.kill_container(id, signal).await.unwrap()
    }

    pub(super) async fn list(&self, nested: bool, standalone: bool) -> Vec<Container> {
        self.client
            .get_containers(Show { nested, standalone })
            .await
            .unwrap()
    }

    /// One request by hand.
    pub(super) async fn post(&self, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let bytes = request("POST /api/v1", headers, body);
        match &self.agent {
            Which::Embedded(_) => {
                let socket = self.dir.path().join("http/agent.sock");
                let mut connection = Connection::over(UnixStream::connect(socket).await.unwrap());
                connection.send(&bytes).await;
                connection.reply().await
            }
            Which::Mesos(_, port) => {
                let address = ("127.0.0.1", *port);
                let mut connection = Connection::over(TcpStream::connect(address).await.unwrap());
                connection.send(&bytes).await;
                connection.reply().await
            }
        }
    }

    /// Polls until the file is there.
    pub(super) async fn file_appears(&self, path: &Path) {
        crate::http::eventually("the file", || path.exists()).await;
    }
}

/// `id("root.child")` is nested.
pub(super) fn id(dotted: &str) -> ContainerId {
    let mut values = dotted.split('.');
    let root = ContainerId {
        value: values.next().unwrap().to_owned(),
        parent: None,
    };
    values.fold(root, |parent, value| ContainerId {
        value: value.to_owned(),
        parent: Some(Box::new(parent)),
    })
}

/// A program with its arguments.
pub(super) fn run(program: &str, arguments: &[&str]) -> CommandInfo {
    CommandInfo {
        shell: Some(false),
        value: Some(program.to_owned()),
        arguments: std::iter::once(program)
            .chain(arguments.iter().copied())
            .map(str::to_owned)
            .collect(),
        ..CommandInfo::default()
    }
}

/// A line for the shell.
pub(super) fn shell(line: &str) -> CommandInfo {
    CommandInfo {
        value: Some(line.to_owned()),
        ..CommandInfo::default()
    }
}
