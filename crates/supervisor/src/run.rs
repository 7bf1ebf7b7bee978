//! The daemon: everything wired together, from an empty process to a clean end.
//!
//! ```text
//!   config -> root (directories, locks, id) -> agent -> csi-manager -> control service -> READY
//!                                                  shutdown: the reverse; containers stay
//! ```

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use longshore_agent::images::ImageRuntime;
use longshore_agent::{Agent, AgentOptions, ShimCommand};
use longshore_agent_client::{AgentClient, AgentClientConfig, AgentEndpoint, Credentials};
use longshore_csi_manager::{CsiManager, ManagerOptions, PluginState};
use longshore_engine::{DockerConfig, DockerEngine};
use longshore_image_containers::{ImageContainers, ImageOptions, Rotation};
use longshore_kubelet_registration::Registrar;
use longshore_task_manager::CsiReadiness;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing_subscriber::Registry;
use tracing_subscriber::filter::Targets;

use crate::board::Board;
use crate::config::{AgentChoice, AgentTcp, EmbeddedAgent};
use crate::control::{self, Access, ControlService, ControlSocket, Facts, TaskControl, Tasks};
use crate::dirs::Root;
use crate::logs::Sandboxes;
use crate::nri::Nri;
use crate::observe::{self, Observer};
use crate::reload::Reloader;
use crate::{Config, Sources, SupervisorError};

/// How often an agent elsewhere is asked whether it is there.
const AGENT_INTERVAL: Duration = Duration::from_secs(10);

/// How long the end may take; the containers live on in any case.
const STOP_DEADLINE: Duration = Duration::from_secs(10);

/// What only the program around the supervisor knows.
#[derive(Debug, Clone)]
pub struct Program {
    /// Its version, for `status`.
    pub version: &'static str,
    /// How it becomes the parent of a container.
    pub shim: ShimCommand,
    /// The soft and the hard limit of open files that it was started with, for its containers;
    /// `None` where it has not changed its own.
    pub open_files: Option<(u64, u64)>,
    /// Where a log filter is put in force that a reload brought; `None` where logs are not by the
    /// configuration's filter.
    pub log: Option<LogHandle>,
}

/// Where containers of images are on record, below the agent's directory.
const IMAGES: &str = "images";
/// How long an engine that cannot be reached is asked again for a launch; whoever keeps the container running asks anew.
const ENGINE_PATIENCE: Duration = Duration::from_secs(10);

/// The filter of this process's logs.
pub type LogHandle = tracing_subscriber::reload::Handle<Targets, Registry>;

/// Runs a daemon until `shutdown`, then leaves the containers running. `ready` is called once the
/// control service answers. SIGHUP is taken over for reloads.
///
/// # Errors
/// [`SupervisorError`] when it cannot start; nothing is left running then but what ran before. Also when its
/// runtime directory was removed and cannot be had again: nobody could reach it any more.
pub async fn run(
    sources: Sources,
    config: Config,
    program: Program,
    ready: impl FnOnce(),
    shutdown: impl Future<Output = ()>,
) -> Result<(), SupervisorError> {
    let hangup = signal(SignalKind::hangup()).map_err(|source| SupervisorError::System {
        what: "handle SIGHUP",
        source,
    })?;
    let root = Root::open(&config.state_dir, &config.runtime_dir)?;
    let socket = ControlSocket::bind(&root.runtime, Access::new(config.control_group.clone()))?;
    let nri = Nri::new(&config.nri);
    let (agent, client) = agent(&config, &root, &program, &nri).await?;

    let mut options = ManagerOptions::new(
        root.state.clone(),
        root.runtime.clone(),
        root.instance.clone(),
        client.clone(),
    );
    options.agent_id.clone_from(&config.agent_id);
    options.eager = true;
    if agent.is_some() {
        options.logs = Some(Arc::new(Sandboxes::new(root.state.clone())));
    }
    let plugins = config
        .plugins
        .iter()
        .map(|plugin| plugin.config.clone())
        .collect();
    let manager = CsiManager::spawn(options, plugins)
        .map_err(|source| SupervisorError::Manager { source })?;

    let started = async {
        let docker = Tasks::start(&config.tasks, root.state.path(), &nri).await?;
        nri.serve(&config.nri, program.version).await?;
        Ok(docker)
    };
    let docker = match started.await {
        Ok(docker) => docker,
        Err(error) => {
            manager.shutdown().await;
            return Err(error);
        }
    };
    let mut config = config;
    let readiness = tokio::sync::watch::Sender::default();
    let (docker, problems) = docker.declare(&config, readiness.subscribe());
    config.errors.extend(problems);
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    for error in &config.errors {
        tracing::error!(%error, "a file of the configuration is refused");
    }
    let board = Board::new(Arc::new(config));
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    let (reloads, requests) = mpsc::channel(8);
    let facts = Arc::new(Facts {
        version: program.version,
        started_at: SystemTime::now(),
        instance: root.instance.clone(),
        state: root.state.clone(),
        runtime: root.runtime.clone(),
    });
    let registrar = Registrar::spawn(root.state.kubelet_sockets());
    let observer = Observer {
        facts,
        board: board.clone(),
        manager: manager.clone(),
        tasks: docker.clone(),
        nri: nri.control(),
        registrar: registrar.clone(),
    };
    let service = ControlService::new(&observer, reloads, tasks.clone(), stop.clone());
    let http = match observe::bind(&board, observer, &stop).await {
        Ok(http) => http,
        Err(error) => {
            registrar.shutdown().await;
            manager.shutdown().await;
            nri.shutdown().await;
            return Err(error);
        }
    };
    if let Some(http) = http {
        tasks.spawn(http.run());
    }
    let reloader = Reloader {
        sources,
        board: board.clone(),
        manager: manager.clone(),
        tasks: docker.declared().cloned(),
        requests,
        hangup,
        log: program.log,
    };
    spawn(&tasks, &stop, reloader.run());
    spawn(&tasks, &stop, tell_readiness(manager.clone(), readiness));
    let telling = crate::kubelet::tell(registrar.clone(), board.clone(), manager.clone());
    spawn(&tasks, &stop, telling);
    spawn(&tasks, &stop, crate::memory::stay_small(manager.clone()));
    if let Ok(engine) = board.now().config.tasks.endpoint() {
        spawn(&tasks, &stop, nri.clone().look_for_nri_of_engine(engine));
    }
    let (state, runtime) = (root.state.clone(), root.runtime.clone());
    let quarantine = crate::quarantine::watch(state, runtime, manager.clone(), board.clone());
    spawn(&tasks, &stop, quarantine);
    if agent.is_none() {
        spawn(&tasks, &stop, watch_agent(client, board));
    }
    let declared = docker.declared().cloned();
    let docker = TaskControl::new(docker, tasks.clone(), stop.clone());
    let served = control::serve(socket, service, nri.control(), docker, stop.clone());
    tasks.spawn(served);
    tasks.close();
    tracing::info!(instance = %root.instance, state_dir = %root.state.path().display(), "ready");
    ready();

    let lost = tokio::select! {
        () = shutdown => None,
        error = root.guard.clone().run(agent.as_ref()) => Some(error),
    };

    tracing::info!("stopping; the containers are left running");
    if let Some(declared) = declared {
        declared.hold("the daemon is stopping");
    }
    stop.cancel();
    let ended = tokio::time::timeout(STOP_DEADLINE, async {
        tasks.wait().await;
        // Before the plugins are given up: what kubelet knows of them stays true.
        registrar.shutdown().await;
        manager.shutdown().await;
        nri.shutdown().await;
        if let Some(agent) = agent {
            agent.shutdown().await;
        }
    });
    if ended.await.is_err() {
        tracing::warn!("not everything ended within {}s", STOP_DEADLINE.as_secs());
    }
    lost.map_or(Ok(()), Err)
}

fn spawn(
    tasks: &TaskTracker,
    stop: &CancellationToken,
    future: impl Future<Output = ()> + Send + 'static,
) {
    let stop = stop.clone();
    tasks.spawn(async move {
        tokio::select! {
            () = future => {}
            () = stop.cancelled() => {}
        }
    });
}

/// The agent and a client for it.
async fn agent(
    config: &Config,
    root: &Root,
    program: &Program,
    nri: &Nri,
) -> Result<(Option<Agent>, AgentClient), SupervisorError> {
    let (agent, client) = match &config.agent {
        AgentChoice::Embedded(settings) => {
            let mut options = agent_options(settings, config, root, program);
            options.images = images(config, &options, nri)?;
            let socket = options.socket.clone();
            let agent = Agent::start(options)
                .await
                .map_err(|source| SupervisorError::Agent { source })?;
            (
                Some(agent),
                AgentClientConfig::new(AgentEndpoint::unix(socket)),
            )
        }
        AgentChoice::External { url, token_file } => {
            let endpoint = url
                .parse()
                .map_err(|source| SupervisorError::Client { source })?;
            let mut client = AgentClientConfig::new(endpoint);
            client.credentials = token_file
                .clone()
                .map_or(Credentials::None, Credentials::BearerFile);
            (None, client)
        }
    };
    let client = AgentClient::new(client).map_err(|source| SupervisorError::Client { source })?;
    Ok((agent, client))
}

fn agent_options(
    settings: &EmbeddedAgent,
    config: &Config,
    root: &Root,
    program: &Program,
) -> AgentOptions {
    let run_dir: PathBuf = root.runtime.agent_dir();
    let mut options = AgentOptions::new(
        root.state.agent_dir(),
        run_dir,
        root.runtime.agent_socket(),
        program.shim.clone(),
    );
    let own_id = || format!("longshore-{}", root.instance);
    options.agent_id = Some(config.agent_id.clone().unwrap_or_else(own_id));
    options.open_files = program.open_files;
    options.exit_retention = settings.exit_retention;
    options.max_containers = settings.max_containers;
    options.cgroups = settings.cgroups;
    options.sandbox_gc.max_age = settings.sandbox_max_age;
    options.sandbox_gc.max_bytes = settings.sandbox_max_bytes;
    options.logs.max_bytes = settings.log_max_bytes;
    options.tcp = settings.tcp.as_ref().map(AgentTcp::options);
    options
}

/// What runs containers of images: nothing where there is no engine to ask, whose absence the agent then tells
/// whoever wants one.
fn images(
    config: &Config,
    options: &AgentOptions,
    nri: &Nri,
) -> Result<Option<Arc<dyn ImageRuntime>>, SupervisorError> {
    let Ok(endpoint) = config.tasks.endpoint() else {
        return Ok(None);
    };
    let engine = Arc::new(DockerEngine::new(DockerConfig::new(endpoint)));
    let settings = ImageOptions {
        state_dir: options.state_dir.join(IMAGES),
        rotation: Rotation {
            max_bytes: options.logs.max_bytes,
            keep: options.logs.keep,
        },
        patience: ENGINE_PATIENCE,
    };
    let images = ImageContainers::with_hooks(engine, settings, nri.hooks())
        .map_err(|source| SupervisorError::Images { source })?;
    nri.reaches(images.executor().clone());
    Ok(Some(Arc::new(images)))
}

/// Tells declared tasks which plugins answer.
async fn tell_readiness(manager: CsiManager, readiness: watch::Sender<Arc<CsiReadiness>>) {
    let mut status = manager.status();
    loop {
        let now = Arc::clone(&status.borrow_and_update());
        let plugins = now.plugins.iter().map(|(name, plugin)| {
            let ready = match plugin.state {
                PluginState::Ready => Ok(()),
                state if plugin.reason.is_empty() => Err(format!("{state:?}").to_lowercase()),
                _ => Err(plugin.reason.clone()),
            };
            (name.clone(), ready)
        });
        let next: CsiReadiness = plugins.collect();
        readiness.send_if_modified(|known| {
            let changed = **known != next;
            if changed {
                *known = Arc::new(next);
            }
            changed
        });
        if status.changed().await.is_err() {
            return;
        }
    }
}

/// Notes since when an agent elsewhere has been silent; the manager has its own retries.
async fn watch_agent(client: AgentClient, board: Board) {
    let mut interval = tokio::time::interval(AGENT_INTERVAL);
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        interval.tick().await;
        let silent = match client.get_health().await {
            Ok(true) => None,
            Ok(false) => Some("it says that it is not healthy".to_owned()),
            Err(error) => Some(crate::reload::chain(&error)),
        };
        board.agent(silent);
    }
}
