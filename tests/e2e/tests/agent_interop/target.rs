//! An agent to run scenarios against.

use std::path::{Path, PathBuf};
use std::time::Duration;

use longshore_agent::{Agent, AgentOptions, ShimCommand};
use longshore_agent_client::{AgentClient, AgentClientConfig, AgentEndpoint, Codec, Show, Waited};
use longshore_mesos_api::v1::agent::call::LaunchContainer;
use longshore_mesos_api::v1::agent::response::WaitContainer;
use longshore_mesos_api::v1::{CommandInfo, ContainerId};
use longshore_testkit::peers::MesosAgent;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::raw::{Raw, RawAnswer};

/// An agent, embedded or real, in a directory of its own.
pub(crate) struct Target {
    dir: TempDir,
    agent: Running,
    codec: Codec,
    ids: u32,
}

enum Running {
    /// `None` only while it is being restarted.
    Embedded(Option<Agent>),
    Real(MesosAgent),
}

impl Target {
    pub(crate) async fn embedded() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let agent = start_embedded(dir.path()).await;
        Self {
            dir,
            agent: Running::Embedded(Some(agent)),
            codec: Codec::Protobuf,
            ids: 0,
        }
    }

    /// `None` where there is no real agent.
    pub(crate) async fn real() -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let agent = MesosAgent::start(dir.path()).await?;
        Some(Self {
            dir,
            agent: Running::Real(agent),
            codec: Codec::Protobuf,
            ids: 0,
        })
    }

    pub(crate) fn is_real(&self) -> bool {
        matches!(self.agent, Running::Real(_))
    }

    pub(crate) fn set_codec(&mut self, codec: Codec) {
        self.codec = codec;
    }

    /// Kills the agent and starts it again; containers live on.
    pub(crate) async fn restart(&mut self) {
        match &mut self.agent {
            Running::Embedded(agent) => {
                if let Some(agent) = agent.take() {
                    agent.shutdown().await;
                }
                *agent = Some(start_embedded(self.dir.path()).await);
            }
            Running::Real(agent) => agent.restart().await,
        }
    }

    pub(crate) async fn shutdown(mut self) {
        if let Running::Embedded(agent) = &mut self.agent
            && let Some(agent) = agent.take()
        {
            agent.shutdown().await;
        }
    }

    pub(crate) fn client(&self) -> AgentClient {
        self.client_at(self.endpoint())
    }

    /// A client of the agent at another address of it.
    pub(crate) fn client_at(&self, endpoint: AgentEndpoint) -> AgentClient {
        let mut config = AgentClientConfig::new(endpoint);
        config.codec = self.codec;
        AgentClient::new(config).unwrap()
    }

    fn endpoint(&self) -> AgentEndpoint {
        match &self.agent {
            Running::Embedded(_) => AgentEndpoint::unix(socket(self.dir.path())),
            Running::Real(agent) => agent.url().parse().unwrap(),
        }
    }

    /// Where raw requests go.
    pub(crate) fn raw(&self) -> Raw {
        match &self.agent {
            Running::Embedded(_) => Raw::Unix(socket(self.dir.path())),
            Running::Real(agent) => Raw::Tcp(agent.port()),
        }
    }

    /// POSTs `json` as JSON, however wrong it is.
    pub(crate) async fn post(&self, json: &str) -> RawAnswer {
        self.raw().post_json(json).await
    }

    /// An id that no container of this agent has had.
    pub(crate) fn id(&mut self, name: &str) -> ContainerId {
        self.ids += 1;
        ContainerId {
            value: format!("{name}-{}", self.ids),
            ..ContainerId::default()
        }
    }

    /// A path in the test's own directory.
    pub(crate) fn path(&mut self, name: &str) -> PathBuf {
        self.ids += 1;
        self.dir.path().join(format!("{name}-{}", self.ids))
    }

    /// Where a real agent and the embedded one keep the sandbox of a top-level container.
    pub(crate) fn sandbox(&self, id: &ContainerId) -> PathBuf {
        let parent = match &self.agent {
            Running::Embedded(_) => self.dir.path().join("state"),
            Running::Real(_) => self.dir.path().join("mesos/agents/0/work"),
        };
        parent.join("containers").join(&id.value)
    }

    /// Ends what is running, so that no container outlives its scenario.
    pub(crate) async fn end_all_containers(&self) {
        let client = self.client();
        let ended = tokio::time::timeout(Duration::from_secs(60), async {
            loop {
                let running = client.get_containers(Show::ALL).await.unwrap();
                let Some(first) = running.iter().find(|c| c.container_id.parent.is_none()) else {
                    return;
                };
                // Errors show by the container being there still.
                drop(client.kill_container(&first.container_id, Some(9)).await);
                drop(client.wait_container(&first.container_id).await);
            }
        });
        ended.await.expect("all containers can be ended");
    }
}

impl Drop for Target {
    /// After a failure too, no container outlives the test: what runs it has the test's own
    /// directory in its command line.
    fn drop(&mut self) {
        let directory = self.dir.path().as_os_str().as_encoded_bytes().to_vec();
        let Ok(processes) = std::fs::read_dir("/proc") else {
            return;
        };
        for process in processes.flatten() {
            let pid = process
                .file_name()
                .to_str()
                .and_then(|name| name.parse().ok());
            let line = std::fs::read(process.path().join("cmdline")).unwrap_or_default();
            let ours = line.windows(directory.len()).any(|part| part == directory);
            if let Some(pid) = pid
                && ours
            {
                let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }
}

async fn start_embedded(dir: &Path) -> Agent {
    let shim = ShimCommand::new(env!("CARGO_BIN_EXE_e2e-shim"), [] as [&str; 0]);
    let mut options = AgentOptions::new(dir.join("state"), dir.join("run"), socket(dir), shim);
    options.agent_id = Some("embedded".to_owned());
    Agent::start(options).await.unwrap()
}

fn socket(dir: &Path) -> PathBuf {
    dir.join("api/agent.sock")
}

pub(crate) fn nested(parent: &ContainerId, value: &str) -> ContainerId {
    ContainerId {
        value: value.to_owned(),
        parent: Some(Box::new(parent.clone())),
    }
}

/// LAUNCH of a shell command.
pub(crate) fn shell(id: &ContainerId, command: &str) -> LaunchContainer {
    LaunchContainer {
        container_id: id.clone(),
        command: Some(CommandInfo {
            shell: Some(true),
            value: Some(command.to_owned()),
            ..CommandInfo::default()
        }),
        ..LaunchContainer::default()
    }
}

pub(crate) fn sleep(id: &ContainerId) -> LaunchContainer {
    shell(id, "exec sleep 1000")
}

/// The exit that WAIT found.
#[track_caller]
pub(crate) fn exited(waited: Waited) -> WaitContainer {
    match waited {
        Waited::Exited(exit) => exit,
        Waited::Unknown => panic!("the agent does not know the container"),
    }
}

/// Launches and, at once, waits: a real agent forgets a top-level container that has ended. The
/// command holds until the returned file is made.
pub(crate) async fn launch_held(target: &mut Target, id: &ContainerId, command: &str) -> PathBuf {
    let gate = target.path("gate");
    let held = format!(
        "while ! test -e {}; do sleep 0.02; done; {command}",
        gate.display()
    );
    target
        .client()
        .launch_container(shell(id, &held))
        .await
        .unwrap();
    gate
}

/// Runs `command` in a new container and tells how it ended.
pub(crate) async fn run_to_end(
    target: &mut Target,
    id: &ContainerId,
    command: &str,
) -> WaitContainer {
    let gate = launch_held(target, id, command).await;
    let client = target.client();
    let (waited, ()) = tokio::join!(client.wait_container(id), async {
        settle(target).await;
        std::fs::write(&gate, "").unwrap();
    });
    exited(waited.unwrap())
}

/// Lets the agent take what was sent to it before, on other connections: a real agent answers a
/// WAIT that comes after the end with 404.
pub(crate) async fn settle(target: &Target) {
    for _ in 0..3 {
        target.client().get_health().await.unwrap();
    }
}

/// Waits until a file is there that a container makes.
pub(crate) async fn appears(path: &Path) {
    let found = tokio::time::timeout(Duration::from_secs(30), async {
        while !path.exists() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    });
    found.await.expect("the container makes the file");
}
