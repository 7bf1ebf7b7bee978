//! What is told over HTTP: everything that the daemon's boards know, as one snapshot.

mod process;

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use longshore_control_api::v1;
use longshore_csi_manager::{CsiManager, ManagerStatus};
use longshore_kubelet_registration::{Registrar, RegistrarStatus, RegistrationState};
use longshore_status_http::{
    Agent, Changes, DeclaredTask, Endpoint, Engine, Hosts, Latency, Limits, NriPlugin, Plugin,
    Probes, Server, Snapshot, Source, State, Task, Tasks as TaskCounts,
};
use longshore_task_manager::{DeclaredStatus, Phase, TaskStatus};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::SupervisorError;
use crate::board::{Board, DaemonState};
use crate::config::AgentChoice;
use crate::control::{Facts, NriControl, Tasks, convert};

/// The most tasks that are shown one by one.
const TASKS_SHOWN: usize = 100;

/// Who knows what is told; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Observer {
    pub(crate) facts: Arc<Facts>,
    pub(crate) board: Board,
    pub(crate) manager: CsiManager,
    pub(crate) tasks: Tasks,
    pub(crate) nri: NriControl,
    pub(crate) registrar: Registrar,
}

/// The server that the configuration wants; `None` where it wants none.
///
/// # Errors
/// [`SupervisorError::Http`].
pub(crate) async fn bind(
    board: &Board,
    observer: Observer,
    stop: &CancellationToken,
) -> Result<Option<Server>, SupervisorError> {
    let config = Arc::clone(&board.now().config);
    let Some(settings) = &config.http else {
        return Ok(None);
    };
    let own = nix::unistd::gethostname().ok();
    let own = own.and_then(|name| name.into_string().ok());
    let hosts = Hosts::new(settings.hosts.iter().cloned().chain(own));
    let bound = Server::bind(
        settings.listen,
        hosts,
        Limits::default(),
        observer,
        stop.clone(),
    );
    let server = bound
        .await
        .map_err(|source| SupervisorError::Http { source })?;
    let address = server.address().map_err(|source| SupervisorError::System {
        what: "tell the address of the HTTP listener",
        source,
    })?;
    tracing::info!(%address, "metrics and the status page are served");
    if settings.listen.is_open() {
        tracing::warn!(
            %address,
            "the address is not loopback: whoever reaches it can read the state of plugins and tasks, without a password"
        );
    }
    Ok(Some(server))
}

impl Source for Observer {
    fn snapshot(&self) -> Snapshot {
        let (daemon, manager) = (self.board.now(), self.manager.status().borrow().clone());
        snapshot(self, &daemon, &manager)
    }

    fn changes(&self) -> Box<dyn Changes> {
        Box::new(Wait {
            daemon: self.board.subscribe(),
            manager: self.manager.status(),
            tasks: self.tasks.changes(),
            declared: self.tasks.declared_changes(),
            nri: self.nri.changes(),
            registered: self.registrar.status(),
        })
    }
}

struct Wait {
    daemon: watch::Receiver<Arc<DaemonState>>,
    manager: watch::Receiver<Arc<ManagerStatus>>,
    tasks: watch::Receiver<u64>,
    declared: watch::Receiver<u64>,
    nri: Option<watch::Receiver<u64>>,
    registered: watch::Receiver<Arc<RegistrarStatus>>,
}

impl Changes for Wait {
    fn changed<'a>(&'a mut self) -> Pin<Box<dyn Future<Output = bool> + Send + 'a>> {
        Box::pin(async move {
            tokio::select! {
                changed = self.daemon.changed() => changed.is_ok(),
                changed = self.manager.changed() => changed.is_ok(),
                changed = self.tasks.changed() => changed.is_ok(),
                changed = self.declared.changed() => changed.is_ok(),
                changed = self.registered.changed() => changed.is_ok(),
                () = moved(self.nri.as_mut()) => true,
            }
        })
    }
}

/// An adaptation that has ended changes no more.
async fn moved(nri: Option<&mut watch::Receiver<u64>>) {
    if let Some(nri) = nri
        && nri.changed().await.is_ok()
    {
        return;
    }
    std::future::pending::<()>().await;
}

fn snapshot(of: &Observer, daemon: &DaemonState, manager: &ManagerStatus) -> Snapshot {
    let config = &daemon.config;
    let registered = Arc::clone(&of.registrar.status().borrow());
    let address = match &config.agent {
        AgentChoice::Embedded(_) => "embedded".to_owned(),
        AgentChoice::External { url, .. } => url.clone(),
    };
    let waiting = manager.waiting.as_ref();
    let silent = daemon
        .silent
        .clone()
        .or_else(|| waiting.map(|waiting| (waiting.since, waiting.reason.clone())));
    let wrong: Vec<_> = daemon
        .broken
        .iter()
        .chain(&daemon.refused)
        .map(|(_, error)| error.as_str())
        .collect();
    Snapshot {
        version: of.facts.version.to_owned(),
        instance: of.facts.instance.to_string(),
        pid: std::process::id(),
        started: of.facts.started_at,
        generation: daemon.generation
            + manager.generation
            + registered.generation
            + *of.tasks.changes().borrow()
            + *of.tasks.declared_changes().borrow(),
        recovered: manager.recovered,
        config_error: wrong.join("; "),
        warnings: config.warnings.clone(),
        config_loaded: daemon.loaded_at,
        log: config.log.clone(),
        agent: Agent { address, silent },
        engine: engine(of.tasks.engine()),
        plugins: manager
            .plugins
            .values()
            .map(|it| Plugin {
                registered: registered
                    .plugins
                    .get(&it.name)
                    .map(|it| it.state == RegistrationState::Registered),
                ..plugin(it, manager.recovered)
            })
            .collect(),
        tasks: TaskCounts {
            declared: of
                .tasks
                .declared_all()
                .iter()
                .map(|it| declared(it))
                .collect(),
            ..tasks(&of.tasks.all())
        },
        nri: of.nri.look().map(|all| all.into_iter().map(nri).collect()),
        set_aside: daemon.quarantined.len(),
        strays: manager.strays.len(),
        process: process::look(),
    }
}

fn time(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis)
}

fn engine(engine: v1::TaskEngine) -> Option<Engine> {
    if engine.address.is_empty() {
        return None;
    }
    let silent =
        (engine.silent_since_ms != 0).then(|| (time(engine.silent_since_ms), engine.error));
    Some(Engine {
        address: engine.address,
        version: engine.version,
        silent,
        wanted: engine.wanted,
    })
}

fn plugin(status: &longshore_csi_manager::PluginStatus, recovered: bool) -> Plugin {
    let shown = convert::plugin(status, recovered, false, &|_| String::new());
    let metrics = &status.metrics;
    Plugin {
        state: state(shown.state()),
        name: shown.name,
        plugin_type: shown.r#type,
        reason: shown.reason,
        since: status.since,
        next_retry: status.next_retry,
        version: shown.api_version,
        launches: status.containers.iter().map(|it| it.runs).sum(),
        restarts: status.restarts,
        endpoints: shown
            .endpoints
            .into_iter()
            .map(|it| Endpoint {
                service: it.service,
                uri: Some(it.uri).filter(|uri| !uri.is_empty()),
            })
            .collect(),
        pids: status.containers.iter().filter_map(|it| it.pid).collect(),
        mounts: status.mounts.len(),
        registered: None,
        probes: Probes {
            terminations: metrics.container_terminations,
            pending: metrics.rpcs_pending,
            finished: metrics.rpcs_finished,
            failed: metrics.rpcs_failed,
            cancelled: metrics.rpcs_cancelled,
            latency: None,
        },
    }
}

fn state(state: v1::State) -> State {
    match state {
        v1::State::Ready => State::Ready,
        v1::State::Unspecified | v1::State::Recovering => State::Recovering,
        v1::State::Starting | v1::State::Probing => State::Starting,
        v1::State::Unhealthy => State::Unhealthy,
        v1::State::Backoff => State::Backoff,
        v1::State::Failing => State::Failing,
        v1::State::Stopping => State::Stopping,
        v1::State::Stopped => State::Stopped,
        v1::State::Kept => State::Kept,
        v1::State::Idle => State::Idle,
    }
}

/// The unfinished first, then those that ended last.
fn tasks(all: &[Arc<TaskStatus>]) -> TaskCounts {
    let mut states = BTreeMap::<String, u64>::new();
    for task in all {
        let state = if task.state.is_empty() {
            "TASK_STAGING"
        } else {
            task.state
        };
        *states.entry(state.to_owned()).or_default() += 1;
    }
    let unfinished = all.iter().rev().filter(|it| !it.has_ended());
    let mut ended: Vec<_> = all.iter().filter(|it| it.has_ended()).collect();
    ended.sort_by_key(|it| std::cmp::Reverse(it.ended));
    let shown = unfinished.chain(ended).take(TASKS_SHOWN);
    TaskCounts {
        total: all.len(),
        states,
        shown: shown.map(|it| task(it)).collect(),
        declared: Vec::new(),
    }
}

fn declared(task: &DeclaredStatus) -> DeclaredTask {
    let shown = crate::control::shown(task);
    DeclaredTask {
        name: shown.name,
        state: shown.state,
        waits: task.waits(),
        reason: shown.reason,
        restart: shown.restart,
        attempts: shown.attempts,
        last_reason: shown.last_reason,
        next_try: (shown.next_try_at_ms != 0).then(|| time(shown.next_try_at_ms)),
        healthy: shown.healthy,
    }
}

fn task(task: &TaskStatus) -> Task {
    let waiting = task
        .waiting
        .as_ref()
        .filter(|_| task.phase == Phase::Starting);
    Task {
        id: task.id.clone(),
        image: task.image.clone(),
        state: if task.state.is_empty() {
            "TASK_STAGING"
        } else {
            task.state
        }
        .to_owned(),
        message: waiting.unwrap_or(&task.message).clone(),
        launched: UNIX_EPOCH + task.launched,
        ended: task.ended.map(|ended| UNIX_EPOCH + ended),
        healthy: task.healthy,
    }
}

fn nri(plugin: v1::NriPlugin) -> NriPlugin {
    let kind = match plugin.kind() {
        v1::NriPluginKind::Unspecified => "",
        v1::NriPluginKind::Builtin => "built in",
        v1::NriPluginKind::Launched => "launched",
        v1::NriPluginKind::External => "external",
        v1::NriPluginKind::Attached => "attached",
    };
    NriPlugin {
        kind: kind.to_owned(),
        name: plugin.name,
        state: plugin.state,
        since: (plugin.since_ms != 0).then(|| time(plugin.since_ms)),
        pid: (plugin.pid != 0).then_some(plugin.pid),
        requests: plugin.requests,
        failures: plugin.failures,
        queued: plugin.queued,
        latency: plugin.latency.map(|latency| Latency {
            last: Duration::from_micros(latency.last_us),
            max: Duration::from_micros(latency.max_us),
            median: Some(Duration::from_micros(latency.p50_us)),
            total: None,
        }),
        last_error: plugin.last_error,
    }
}
