//! The whole way: the embedded agent, its shims, and plugins that are processes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use longshore_agent::{Agent, AgentOptions, ShimCommand};
use longshore_agent_client::{AgentClient, AgentClientConfig, Show};
use longshore_csi_manager::{CsiManager, ManagerOptions, PluginConfig, PluginState};
use longshore_mesos_api::v1::environment::Variable;
use longshore_mesos_api::v1::{CommandInfo, ContainerId, Environment};
use longshore_paths::{InstanceId, RuntimeDir, Service, StateRoot};
use longshore_testkit::csi;

use crate::rig::{BOTH, INSTANCE, id, plugin, plugin_is, reach, ready, state_is};

struct Node {
    dir: tempfile::TempDir,
    agent: Agent,
    client: AgentClient,
}

impl Node {
    async fn start(dir: tempfile::TempDir) -> Self {
        let socket = dir.path().join("a/agent.sock");
        let shim = ShimCommand::new(csi::built("agent", "longshore-shim"), [""; 0]);
        let (state, run) = (dir.path().join("agent"), dir.path().join("run-agent"));
        let agent = Agent::start(AgentOptions::new(state, run, &socket, shim))
            .await
            .unwrap();
        let endpoint = format!("unix://{}", socket.display()).parse().unwrap();
        let client = AgentClient::new(AgentClientConfig::new(endpoint)).unwrap();
        Self { dir, agent, client }
    }

    fn manager(&self, plugins: Vec<PluginConfig>) -> CsiManager {
        let state = StateRoot::new(self.dir.path().join("state"));
        let runtime = RuntimeDir::new(self.dir.path().join("run"));
        let instance = InstanceId::new(INSTANCE).unwrap();
        let options = ManagerOptions::new(state, runtime, instance, self.client.clone());
        CsiManager::spawn(options, plugins).unwrap()
    }

    /// Running containers by id, with their pids.
    async fn running(&self) -> BTreeMap<String, u32> {
        let found = self.client.get_containers(Show::ALL).await.unwrap();
        let pid = |status: &longshore_mesos_api::v1::ContainerStatus| status.executor_pid;
        let pair = |c: &longshore_mesos_api::v1::agent::response::get_containers::Container| {
            Some((
                c.container_id.value.clone(),
                c.container_status.as_ref().and_then(pid)?,
            ))
        };
        found.iter().filter_map(pair).collect()
    }

    async fn kill(&self, id: &str) {
        let id = ContainerId {
            value: id.to_owned(),
            parent: None,
        };
        self.client.kill_container(&id, Some(9)).await.unwrap();
    }
}

/// The fake plugin as a program, with these arguments.
fn program(name: &str, arguments: &str) -> PluginConfig {
    let mut config = plugin(name, &[&[1, 2]]);
    let value = csi::program().display().to_string();
    config.info.containers[0].command = Some(CommandInfo {
        shell: Some(false),
        arguments: vec![value.clone()],
        value: Some(value),
        environment: Some(Environment {
            variables: vec![Variable {
                name: "FAKE_CSI_ARGS".to_owned(),
                value: Some(arguments.to_owned()),
                ..Variable::default()
            }],
        }),
        ..CommandInfo::default()
    });
    config.kill_grace = Duration::from_secs(2);
    config
}

fn temp() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("ls").tempdir().unwrap()
}

fn record(dir: &Path) -> PathBuf {
    let containers = dir.join("state/csi/t.a/default/containers");
    containers.join(id("a", BOTH)).join("container.info")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn launched_killed_restarted_kept_adopted_and_stopped_on_the_embedded_agent() {
    let node = Node::start(temp()).await;
    let manager = node.manager(vec![program("a", "")]);
    let endpoint = ready(&manager, "a", Service::Node).await;
    state_is(&manager, "a", PluginState::Ready).await;
    let first = node.running().await[&id("a", BOTH)];

    // Killed, it comes back as another process at the same endpoint.
    node.kill(&id("a", BOTH)).await;
    plugin_is(&manager, "a", "back", |p| {
        p.restarts == 1 && p.state == PluginState::Ready
    })
    .await;
    assert_eq!(ready(&manager, "a", Service::Node).await, endpoint);
    let second = node.running().await[&id("a", BOTH)];
    assert_ne!(first, second);

    // Manager and agent end and start anew: the same process is kept.
    manager.shutdown().await;
    node.agent.shutdown().await;
    let node = Node::start(node.dir).await;
    let manager = node.manager(vec![program("a", "")]);
    assert_eq!(ready(&manager, "a", Service::Node).await, endpoint);
    assert_eq!(node.running().await[&id("a", BOTH)], second);

    // Without a record: its own environment says that it was launched as today.
    manager.shutdown().await;
    std::fs::remove_dir_all(record(node.dir.path()).parent().unwrap()).unwrap();
    let manager = node.manager(vec![program("a", "")]);
    assert_eq!(ready(&manager, "a", Service::Node).await, endpoint);
    assert_eq!(node.running().await[&id("a", BOTH)], second, "adopted");
    assert!(record(node.dir.path()).exists());

    // With another command it is stopped and launched anew.
    manager
        .apply(vec![program("a", "--ignore-term")])
        .await
        .unwrap();
    plugin_is(&manager, "a", "changed", |p| {
        p.metrics.container_terminations == 1
    })
    .await;
    ready(&manager, "a", Service::Node).await;
    state_is(&manager, "a", PluginState::Ready).await;
    assert_ne!(node.running().await[&id("a", BOTH)], second);

    manager.stop_all().await;
    assert!(node.running().await.is_empty());
    node.agent.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_program_that_listens_elsewhere_or_exits_is_told_apart() {
    let node = Node::start(temp()).await;
    let elsewhere = node.dir.path().join("elsewhere.sock");
    let mut lost = program("a", &format!("--listen-at {}", elsewhere.display()));
    lost.startup_timeout = Duration::from_secs(1);
    let manager = node.manager(vec![lost, program("b", "--exit 7")]);
    manager.start("a").await.unwrap();
    manager.start("b").await.unwrap();
    let named = format!("it listens on unix://{}", elsewhere.display());
    plugin_is(&manager, "a", &named, |p| p.reason.contains(&named)).await;
    let status = plugin_is(&manager, "b", "exited", |p| {
        p.reason.contains("exited with 7")
    })
    .await;
    assert!(
        status
            .history
            .iter()
            .any(|entry| entry.exit_status == Some(7 << 8))
    );
    manager.apply(Vec::new()).await.unwrap();
    reach(&manager, "gone", |status| status.plugins.is_empty()).await;
    assert!(node.running().await.is_empty());
    manager.shutdown().await;
    node.agent.shutdown().await;
}
