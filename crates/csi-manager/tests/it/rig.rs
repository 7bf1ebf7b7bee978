//! A root of its own, a fake agent, a fake plugin for each container it launches, a fake host.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longshore_agent_client::fake::FakeAgent;
use longshore_backoff::{Backoff, RestartPolicy, StartLimit};
use longshore_csi_manager::{
    CsiManager, HostView, LogReader, ManagerOptions, ManagerStatus, PluginConfig, PluginState,
    PluginStatus, ReadyEndpoint,
};
use longshore_mesos_api::v1::agent::call::LaunchContainer;
use longshore_mesos_api::v1::{CommandInfo, CsiPluginContainerInfo, CsiPluginInfo};
use longshore_paths::{ContainerId, InstanceId, RuntimeDir, Service, StateRoot};
use longshore_testkit::csi::{Behaviour, FakePlugin};
use tokio::time::{Instant, timeout};

pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
pub(crate) const INSTANCE: &str = "0123456789abcdef";

/// Facts about processes and mounts, as a test wants them.
#[derive(Debug, Default)]
pub(crate) struct FakeHost {
    pub(crate) mounts: Mutex<Vec<PathBuf>>,
    pub(crate) files: Mutex<BTreeMap<u32, Vec<PathBuf>>>,
    pub(crate) environments: Mutex<BTreeMap<u32, Vec<u8>>>,
    pub(crate) listeners: Mutex<Vec<(u64, String)>>,
    /// The files of every process.
    pub(crate) all_files: Mutex<Vec<PathBuf>>,
}

impl HostView for FakeHost {
    fn mount_points(&self) -> io::Result<Vec<PathBuf>> {
        Ok(self.mounts.lock().unwrap().clone())
    }

    fn tree(&self, root: u32) -> Vec<u32> {
        vec![root]
    }

    fn open_files(&self, pid: u32) -> Vec<PathBuf> {
        let mut files = self
            .files
            .lock()
            .unwrap()
            .get(&pid)
            .cloned()
            .unwrap_or_default();
        files.extend(self.all_files.lock().unwrap().iter().cloned());
        files
    }

    fn environment(&self, pid: u32) -> Vec<Vec<u8>> {
        self.environments
            .lock()
            .unwrap()
            .get(&pid)
            .cloned()
            .into_iter()
            .collect()
    }

    fn listeners(&self, _: u32) -> Vec<(u64, String)> {
        self.listeners.lock().unwrap().clone()
    }
}

#[derive(Debug)]
struct FakeLogs;

impl LogReader for FakeLogs {
    fn stderr_tail(&self, _: &ContainerId, _: usize) -> Vec<String> {
        vec!["starting".to_owned(), "cannot bind".to_owned()]
    }
}

type Plugins = Arc<Mutex<BTreeMap<String, FakePlugin>>>;

pub(crate) struct Rig {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) agent: FakeAgent,
    pub(crate) host: Arc<FakeHost>,
    pub(crate) plugins: Plugins,
    /// Of the plugins that are launched from now on.
    pub(crate) behaviour: Arc<Mutex<Behaviour>>,
}

impl Rig {
    pub(crate) fn new() -> Self {
        let dir = tempfile::Builder::new().prefix("ls").tempdir().unwrap();
        let agent = FakeAgent::start(dir.path().join("agent.sock")).unwrap();
        let rig = Self {
            dir,
            agent,
            host: Arc::default(),
            plugins: Arc::default(),
            behaviour: Arc::new(Mutex::new(Behaviour::v1())),
        };
        let (plugins, behaviour) = (Arc::clone(&rig.plugins), Arc::clone(&rig.behaviour));
        rig.agent.on_launch(move |launch| {
            let id = launch.container_id.value.clone();
            let mut plugins = plugins.lock().unwrap();
            // The old process is gone before the new one binds.
            drop(plugins.remove(&id));
            if let Some(socket) = endpoint_of(launch) {
                let behaviour = behaviour.lock().unwrap().clone();
                plugins.insert(id, FakePlugin::start(socket, behaviour));
            }
        });
        rig
    }

    pub(crate) fn state(&self) -> StateRoot {
        StateRoot::new(self.dir.path().join("state"))
    }

    pub(crate) fn runtime(&self) -> RuntimeDir {
        RuntimeDir::new(self.dir.path().join("run"))
    }

    pub(crate) fn options(&self) -> ManagerOptions {
        let instance = InstanceId::new(INSTANCE).unwrap();
        let agent = self.agent.client();
        let mut options = ManagerOptions::new(self.state(), self.runtime(), instance, agent);
        options.host = Arc::clone(&self.host) as Arc<dyn HostView>;
        options.logs = Some(Arc::new(FakeLogs));
        options
    }

    pub(crate) fn manager(&self, plugins: Vec<PluginConfig>) -> CsiManager {
        CsiManager::spawn(self.options(), plugins).unwrap()
    }

    /// The container ends, and its plugin with it.
    pub(crate) fn kill(&self, id: &str) {
        drop(self.plugins.lock().unwrap().remove(id));
        assert!(self.agent.exit(id, 9), "{id} runs");
    }

    pub(crate) fn mount(&self, path: Option<&Path>) {
        *self.host.mounts.lock().unwrap() = path.map(Path::to_owned).into_iter().collect();
    }

    /// `<state>/csi/<type>/default/containers/<id>`.
    pub(crate) fn container_dir(&self, ty: &str, id: &str) -> PathBuf {
        self.dir
            .path()
            .join("state/csi")
            .join(ty)
            .join("default/containers")
            .join(id)
    }

    pub(crate) fn mount_root(&self, ty: &str) -> PathBuf {
        self.dir
            .path()
            .join("state/csi")
            .join(ty)
            .join("default/mounts")
    }

    /// Everything below the sockets' directory.
    pub(crate) fn sockets(&self) -> BTreeSet<PathBuf> {
        let list = std::fs::read_dir(self.dir.path().join("run/csi"));
        list.into_iter()
            .flatten()
            .map(|entry| entry.unwrap().path())
            .collect()
    }
}

fn endpoint_of(launch: &LaunchContainer) -> Option<PathBuf> {
    let variables = &launch.command.as_ref()?.environment.as_ref()?.variables;
    let endpoint = variables
        .iter()
        .find(|variable| variable.name == "CSI_ENDPOINT")?;
    endpoint
        .value
        .as_ref()?
        .strip_prefix("unix://")
        .map(PathBuf::from)
}

/// Quick restarts, no jitter.
pub(crate) fn policy() -> RestartPolicy {
    let (initial, max) = (Duration::from_millis(20), Duration::from_millis(100));
    RestartPolicy {
        backoff: Backoff::new(initial, max, 0.0).unwrap(),
        stable_after: Duration::from_secs(10),
        start_limit: StartLimit::new(50, Duration::from_secs(60)).unwrap(),
        slow_retry: Duration::from_millis(200),
    }
}

/// A managed plugin of type `t.<name>`, one container for each list of services.
pub(crate) fn plugin(name: &str, containers: &[&[i32]]) -> PluginConfig {
    let container = |services: &&[i32]| CsiPluginContainerInfo {
        services: services.to_vec(),
        command: Some(CommandInfo {
            value: Some("plugin".to_owned()),
            ..CommandInfo::default()
        }),
        ..CsiPluginContainerInfo::default()
    };
    let info = CsiPluginInfo {
        r#type: format!("t.{name}"),
        containers: containers.iter().map(container).collect(),
        ..CsiPluginInfo::default()
    };
    let mut config = PluginConfig::new(name, info);
    config.restart = policy();
    config.kill_grace = Duration::from_millis(200);
    config.startup_timeout = Duration::from_secs(10);
    config
}

/// The same plugin with another command.
pub(crate) fn changed(mut config: PluginConfig) -> PluginConfig {
    for container in &mut config.info.containers {
        container.command.as_mut().unwrap().value = Some("plugin --changed".to_owned());
    }
    config
}

/// The id of the container of `t.<name>` with these services.
pub(crate) fn id(name: &str, services: &str) -> String {
    format!("longshore-{INSTANCE}-csi-t-{name}-default--{services}")
}

pub(crate) const BOTH: &str = "CONTROLLER_SERVICE-NODE_SERVICE";

pub(crate) async fn ready(manager: &CsiManager, name: &str, service: Service) -> ReadyEndpoint {
    let deadline = Instant::now() + PATIENCE;
    match manager.wait_endpoint(name, service, deadline).await {
        Ok(ready) => ready,
        Err(error) => panic!("{error}: {:#?}", manager.status().borrow()),
    }
}

/// Waits until the manager's status is like this.
pub(crate) async fn reach(
    manager: &CsiManager,
    what: &str,
    mut like: impl FnMut(&ManagerStatus) -> bool,
) -> Arc<ManagerStatus> {
    let mut status = manager.status();
    let reached = timeout(PATIENCE, status.wait_for(|status| like(status))).await;
    match reached {
        Ok(reached) => Arc::clone(&reached.unwrap()),
        Err(_) => panic!("not {what}: {:#?}", manager.status().borrow()),
    }
}

/// Waits until a plugin's status is like this.
pub(crate) async fn plugin_is(
    manager: &CsiManager,
    name: &str,
    what: &str,
    mut like: impl FnMut(&PluginStatus) -> bool,
) -> Arc<PluginStatus> {
    let found = |status: &ManagerStatus| status.plugins.get(name).map(Arc::clone);
    let status = reach(manager, what, |status| {
        found(status).is_some_and(|plugin| like(&plugin))
    });
    found(&status.await.clone()).unwrap()
}

pub(crate) async fn state_is(
    manager: &CsiManager,
    name: &str,
    state: PluginState,
) -> Arc<PluginStatus> {
    plugin_is(manager, name, state.as_str(), |plugin| {
        plugin.state == state
    })
    .await
}
