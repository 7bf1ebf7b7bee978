//! One container of a plugin: its daemon, and what is done around its life.
//!
//! ```text
//!   pre-launch: record -> socket directory -> mount roots      (the record before anything exists)
//!   post-start: wait for the socket -> probe -> endpoint handed out -> describe -> liveness
//!   post-stop:  liveness off -> endpoint withdrawn -> last stderr lines -> socket removed
//! ```

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::Duration;

use longshore_checkpoint::{Durability, create_dir_all, sweep_temps};
use longshore_container_daemon::{
    ContainerDaemon, DaemonControl, DaemonOptions, DaemonStatus, Failure, Hooks, Phase,
};
use longshore_csi_probe::{
    ApiVersion, Endpoint, Links, ProbeError, ProbeOptions, Probed, SocketId,
};
use longshore_mesos_api::v1::ContainerId as MesosId;
use longshore_mesos_api::v1::agent::call::LaunchContainer;
use longshore_paths::{PluginName, PluginType};
use tokio::time::{Instant, timeout};
use tokio_util::task::AbortOnDropHandle;

use crate::board::PluginBoard;
use crate::config::{OnUnhealthy, PluginConfig};
use crate::host::{fuse_holder, listens_on};
use crate::liveness;
use crate::plan::{Plan, Planned};
use crate::probing::{Rpc, probe_telling};
use crate::shared::{Shared, blocking, line};
use crate::socket_dir::{Owner, SocketDir};
use crate::status::ReadyEndpoint;
use crate::turns::TURN;

/// How long a plugin may take to say what it is.
const DESCRIBE_DEADLINE: Duration = Duration::from_secs(10);

/// What post-start does besides probing, before its own deadline cuts it off.
const POST_START_EXTRA: Duration = Duration::from_secs(60);

/// A container with its daemon. Dropping it leaves the container running.
#[derive(Debug)]
pub(crate) struct Unit {
    pub(crate) core: Arc<UnitCore>,
    pub(crate) daemon: ContainerDaemon,
}

#[derive(Debug)]
pub(crate) struct UnitCore {
    pub(crate) shared: Arc<Shared>,
    pub(crate) board: Arc<PluginBoard>,
    pub(crate) index: usize,
    pub(crate) planned: Arc<Planned>,
    pub(crate) grace: Duration,
    pub(crate) on_unhealthy: OnUnhealthy,
    ty: PluginType,
    name: PluginName,
    mount_roots: Vec<PathBuf>,
    startup_timeout: Duration,
    pub(crate) liveness: Option<longshore_csi_probe::LivenessPolicy>,
    /// Hooks get `&self`; what they spawn needs more.
    me: Weak<Self>,
    control: OnceLock<DaemonControl>,
    socket_dir: OnceLock<SocketDir>,
    /// The record on disk is this container's.
    recorded: AtomicBool,
    /// It ran before we did.
    attached: AtomicBool,
    watching: Mutex<Option<AbortOnDropHandle<()>>>,
}

/// What a liveness probe begins with.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) endpoint: Endpoint,
    pub(crate) version: ApiVersion,
    pub(crate) socket: Option<SocketId>,
}

impl Unit {
    /// `recorded`: the record on disk is known to be this container's.
    pub(crate) fn new(
        shared: &Arc<Shared>,
        board: &Arc<PluginBoard>,
        plan: &Plan,
        index: usize,
        planned: &Arc<Planned>,
        recorded: bool,
    ) -> Self {
        let config: &PluginConfig = &plan.config;
        let core = Arc::new_cyclic(|me| UnitCore {
            me: Weak::clone(me),
            shared: Arc::clone(shared),
            board: Arc::clone(board),
            index,
            planned: Arc::clone(planned),
            grace: config.kill_grace,
            on_unhealthy: config.on_unhealthy,
            ty: plan.ty.clone(),
            name: plan.plugin_name.clone(),
            mount_roots: plan.mount_roots(&shared.places),
            startup_timeout: config.startup_timeout,
            liveness: config.liveness,
            control: OnceLock::new(),
            socket_dir: OnceLock::new(),
            recorded: AtomicBool::new(recorded),
            attached: AtomicBool::new(false),
            watching: Mutex::new(None),
        });
        let container_id = MesosId {
            value: planned.id.value().to_owned(),
            parent: None,
        };
        // The request itself is made at each launch; until then an id is enough.
        let request = LaunchContainer {
            container_id,
            ..LaunchContainer::default()
        };
        let mut options = DaemonOptions::new(request);
        options.policy = config.restart;
        options.grace = config.kill_grace;
        options.post_start_timeout = config.startup_timeout + POST_START_EXTRA;
        let daemon = ContainerDaemon::spawn(options, Arc::clone(&shared.agent), Arc::clone(&core));
        // Nobody else sets it: the unit is new.
        drop(core.control.set(daemon.control()));
        Self { core, daemon }
    }

    /// Starts the container, or takes one over that runs already.
    pub(crate) async fn begin(&self, attach: bool) {
        self.core.attached.store(attach, Ordering::Relaxed);
        let begun = if attach {
            self.daemon.attach().await
        } else {
            self.daemon.start().await
        };
        if let Err(error) = begun {
            tracing::error!(container = %self.core.planned.id, %error, "not started");
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.daemon.status().borrow().phase
    }

    /// A process of it that holds `/dev/fuse`.
    pub(crate) async fn fuse_holder(&self) -> Option<u32> {
        if matches!(
            self.phase(),
            Phase::Down | Phase::Pausing | Phase::Preparing
        ) {
            return None;
        }
        self.core.fuse_holder().await
    }
}

impl Drop for Unit {
    fn drop(&mut self) {
        self.core.watch(None);
    }
}

impl UnitCore {
    pub(crate) fn control(&self) -> Option<&DaemonControl> {
        self.control.get()
    }

    fn me(&self) -> Option<Arc<Self>> {
        self.me.upgrade()
    }

    fn watch(&self, task: Option<AbortOnDropHandle<()>>) {
        *self.watching.lock().unwrap_or_else(PoisonError::into_inner) = task;
    }

    pub(crate) async fn fuse_holder(&self) -> Option<u32> {
        self.shared.fuse_holder(&self.planned.id).await
    }

    /// The directory of its socket; looks the user up, so it blocks.
    fn socket_dir(&self) -> Result<SocketDir, Failure> {
        if let Some(dir) = self.socket_dir.get() {
            return Ok(dir.clone());
        }
        let owner = Owner::of(self.planned.user().as_deref());
        let owner = owner.map_err(|error| Failure::permanent(line(&error)))?;
        let dir = SocketDir::new(&self.shared.places.runtime, &self.planned.short, owner);
        Ok(self.socket_dir.get_or_init(|| dir).clone())
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.shared.places.runtime.csi_socket(&self.planned.short)
    }

    /// Whether the directory is there, and is (still) what it must be; blocks.
    fn check_socket_dir(&self) -> Result<bool, Failure> {
        let checked = self.socket_dir()?.check();
        checked.map_err(|error| Failure::new(line(&error)))
    }

    fn record_path(&self) -> PathBuf {
        self.shared
            .places
            .state
            .csi()
            .container_info(&self.ty, &self.name, &self.planned.id)
    }

    /// Makes everything that the container needs, its record first. Blocks.
    fn prepare(&self) -> Result<LaunchContainer, Failure> {
        let socket_dir = self.socket_dir()?;
        if !self.recorded.load(Ordering::Relaxed) {
            self.write_record(&socket_dir)?;
        }
        socket_dir
            .prepare()
            .map_err(|error| Failure::new(line(&error)))?;
        for root in &self.mount_roots {
            let made = create_dir_all(root, Durability::Process);
            made.map_err(|error| Failure::new(line(&error)))?;
        }
        Ok(self.planned.request(&self.shared.places))
    }

    /// The intent, on disk before the container exists.
    pub(crate) fn write_record(&self, socket_dir: &SocketDir) -> Result<(), Failure> {
        let path = self.record_path();
        if let Some(dir) = path.parent() {
            sweep_temps(dir).map_err(|error| Failure::new(line(&error)))?;
        }
        let record = self.planned.record(&self.shared.places, socket_dir.uid());
        let written = self.shared.writer.write(&path, &record, Durability::Power);
        written.map_err(|error| Failure::new(line(&error)))?;
        self.recorded.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Writes the record of a container that was found without one.
    pub(crate) async fn adopt(self: &Arc<Self>) -> Result<(), Failure> {
        let this = Arc::clone(self);
        blocking(move || this.socket_dir().and_then(|dir| this.write_record(&dir))).await?
    }

    /// Waits for the socket and probes it.
    async fn probe(&self) -> Result<Probed, ProbeError> {
        let endpoint = Endpoint::Unix(self.socket());
        let mut options = ProbeOptions::until(Instant::now() + self.startup_timeout);
        options.expect = self.board.fixed().0;
        options.links = Links::Refuse;
        let rpc = Rpc::begin(&self.board);
        let tell = |waiting: &str| {
            let services = &self.planned.services;
            self.board.waiting(self.index, services, waiting);
        };
        let probed = probe_telling(&endpoint, options, tell).await;
        rpc.end(probed.is_ok());
        probed
    }

    /// Another name than before is a failure.
    fn same_name(&self, name: &str) -> Result<(), Failure> {
        match self.board.fixed().1 {
            Some(before) if before != name => Err(Failure::permanent(format!(
                "it calls itself {name:?} and was {before:?}: the name may only change with the \
                 configuration, or by restart --reset"
            ))),
            _ => Ok(()),
        }
    }

    /// Asks for its name alone, which takes a fraction of a description.
    async fn check_name(&self, probed: &Probed) -> Result<(), Failure> {
        let rpc = Rpc::begin(&self.board);
        let named = probed.name(Instant::now() + DESCRIBE_DEADLINE).await;
        rpc.end(named.is_ok());
        match named {
            Ok(name) => self.same_name(&name),
            // It answers probes; whether it can be described is found out next.
            Err(_) => Ok(()),
        }
    }

    /// What it says about itself.
    async fn describe(&self, probed: &Probed) -> Result<(), Failure> {
        let rpc = Rpc::begin(&self.board);
        let described = probed.describe(Instant::now() + DESCRIBE_DEADLINE).await;
        rpc.end(described.is_ok());
        match described {
            Ok(details) => {
                self.same_name(&details.name)?;
                self.board.details(details);
            }
            // It answers probes; what it is may come later.
            Err(error) => {
                tracing::warn!(container = %self.planned.id, error = line(&error), "not described");
            }
        }
        Ok(())
    }

    /// A failed start in words: what it listens on instead, and its last stderr lines; and whether
    /// the container may be stopped for it.
    async fn diagnose(&self, mut failure: Failure, looked_for_socket: bool) -> Failure {
        let pid = self.shared.pid(&self.planned.id).await;
        if let (Some(pid), true) = (pid, looked_for_socket) {
            let host = Arc::clone(&self.shared.host);
            let mut found = blocking(move || listens_on(host.as_ref(), pid))
                .await
                .unwrap_or_default();
            let own = format!("unix://{}", self.socket().display());
            found.retain(|address| *address != own);
            if !found.is_empty() {
                failure.message.push_str("; it listens on ");
                failure.message.push_str(&found.join(", "));
            }
        }
        let stderr = self.shared.stderr(&self.planned.id).await;
        if let Some(last) = stderr.last() {
            failure.message.push_str("; its last words: ");
            failure.message.push_str(last);
        }
        self.board.stderr(stderr);
        if let Some(pid) = pid {
            let host = Arc::clone(&self.shared.host);
            if let Ok(Some(holder)) = blocking(move || fuse_holder(host.as_ref(), pid)).await {
                let why = format!("; not restarted, process {holder} of it holds /dev/fuse");
                failure.message.push_str(&why);
                failure.keep = true;
            }
        }
        if self.attached.load(Ordering::Relaxed) && self.on_unhealthy == OnUnhealthy::Report {
            failure.keep = true;
        }
        failure
    }

    /// Waits until it answers, hands the endpoint out and asks what it is. The connection does not outlive this.
    async fn find(&self) -> Result<Found, Failure> {
        let probed = match Box::pin(self.probe()).await {
            Ok(probed) => probed,
            Err(error) => {
                let failure = match &error {
                    ProbeError::VersionChanged { .. } => {
                        Failure::permanent(format!("{}, or by restart --reset", line(&error)))
                    }
                    _ => Failure::new(line(&error)),
                };
                let silent = matches!(
                    error,
                    ProbeError::TimedOut { .. } | ProbeError::SocketMissing { .. }
                );
                return Err(Box::pin(self.diagnose(failure, silent)).await);
            }
        };
        // Known already: another name is found out before anybody gets the endpoint.
        let known = self.board.fixed().1.is_some();
        if known && let Err(failure) = Box::pin(self.check_name(&probed)).await {
            return Err(Box::pin(self.diagnose(failure, false)).await);
        }
        let ready = ReadyEndpoint {
            uri: probed.endpoint.to_string(),
            version: probed.version,
        };
        self.board.ready(self.index, &self.planned.services, ready);
        if let Err(failure) = Box::pin(self.describe(&probed)).await {
            return Err(Box::pin(self.diagnose(failure, false)).await);
        }
        Ok(Found {
            endpoint: probed.endpoint,
            version: probed.version,
            socket: probed.socket,
        })
    }
}

impl Hooks for UnitCore {
    async fn pre_launch(&self, _: LaunchContainer) -> Result<LaunchContainer, Failure> {
        self.attached.store(false, Ordering::Relaxed);
        match self.me() {
            Some(this) => {
                blocking(move || {
                    this.shared.begins(&this.planned.id);
                    this.prepare()
                })
                .await?
            }
            None => Err(Failure::new("the plugin is being taken down")),
        }
    }

    async fn post_start(&self) -> Result<(), Failure> {
        if let Some(this) = self.me() {
            let there = blocking(move || this.check_socket_dir()).await??;
            if !there {
                // What it listens on is nowhere, and what it makes now is nowhere, too.
                let gone = format!(
                    "the directory of its socket {} is gone",
                    self.socket().display()
                );
                return Err(Box::pin(self.diagnose(Failure::new(gone), false)).await);
            }
        }
        let turn = self.shared.turn(&self.socket()).await;
        let mut finding = Box::pin(self.find());
        let found = match turn {
            None => finding.await,
            Some(turn) => match timeout(TURN, &mut finding).await {
                Ok(found) => found,
                // It is slow: the others go on without it.
                Err(_) => {
                    drop(turn);
                    finding.await
                }
            },
        }?;
        // It runs from here on: what else is nice to know must not be waited for.
        self.watch(self.me().and_then(|core| liveness::spawn(&core, found)));
        Ok(())
    }

    async fn post_stop(&self) -> Result<(), Failure> {
        self.watch(None);
        self.board
            .metrics(|metrics| metrics.container_terminations += 1);
        self.board
            .stderr(self.shared.stderr(&self.planned.id).await);
        let Some(this) = self.me() else { return Ok(()) };
        let removed = blocking(move || {
            this.socket_dir().and_then(|dir| {
                dir.remove_socket()
                    .map_err(|error| Failure::new(line(&error)))
            })
        });
        removed.await?
    }

    fn changed(&self, status: &DaemonStatus) {
        if !matches!(status.phase, Phase::Starting | Phase::Running) {
            self.watch(None);
        }
        self.board.daemon(self.index, status);
    }
}
