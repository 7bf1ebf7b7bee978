//! What the handle of an adaptation and its tasks share.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longshore_nri_api::{EventMask, PluginId, ValidateContainerAdjustmentRequest};
use longshore_ttrpc::Status;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::builtin::{Builtin, BuiltinPlugin};
use crate::chain::join_all;
use crate::error::{AdaptationError, chain};
use crate::imitation::Imitation;
use crate::launch::{LaunchOptions, Program, discover};
use crate::launched::{Launched, supervise};
use crate::limits::Limits;
use crate::merge::Compat;
use crate::metrics::Metrics;
use crate::plugin::{self, Identity, Link, Origin, Plugin, Session};
use crate::pods::Pods;
use crate::policy::{Policies, Timeouts};
use crate::registry::Registry;
use crate::runtime::{BoxFuture, Runtime};
use crate::socket::{Listener, SocketOptions, is_worth_a_line};
use crate::status::{CloseCause, Closed, PluginKind, PluginState, PluginStatus};
use crate::validate::DefaultValidator;

/// What the builder gathers.
pub(crate) struct Settings {
    pub(crate) runtime_name: String,
    pub(crate) runtime_version: String,
    pub(crate) nri_version: String,
    pub(crate) imitation: Imitation,
    pub(crate) timeouts: Timeouts,
    pub(crate) policies: Policies,
    pub(crate) limits: Limits,
    pub(crate) compat: Compat,
    pub(crate) validator: Option<DefaultValidator>,
    pub(crate) metrics: Arc<dyn Metrics>,
}

/// Where plugins come from.
#[derive(Default)]
pub(crate) struct Sources {
    pub(crate) builtins: Vec<(PluginId, Arc<dyn Builtin>)>,
    pub(crate) programs: Vec<Program>,
    pub(crate) launch: Option<LaunchOptions>,
    pub(crate) socket: Option<SocketOptions>,
}

pub(crate) struct Core {
    pub(crate) settings: Settings,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) registry: Registry,
    pub(crate) pods: Arc<Pods>,
    /// Requests of the runtime under way.
    pub(crate) under_way: AtomicUsize,
    /// Places for connections that have not registered, and for those that have.
    unregistered: Arc<Semaphore>,
    /// How many connections found no place among them.
    crowded_out: AtomicU64,
    pub(crate) registered: Arc<Semaphore>,
    launched: Mutex<Vec<Arc<Launched>>>,
    pub(crate) tasks: TaskTracker,
    pub(crate) runtime_handle: Handle,
    /// No plugin is accepted any more.
    stopping: CancellationToken,
    /// Every task ends.
    killed: CancellationToken,
}

/// How long a plugin may take to answer Shutdown.
const SHUTDOWN: Duration = Duration::from_secs(1);

impl Core {
    pub(crate) fn new(settings: Settings, runtime: Arc<dyn Runtime>) -> Arc<Self> {
        let required = settings.policies.required().map(str::to_owned).collect();
        let limits = settings.limits;
        Arc::new(Self {
            registry: Registry::new(required, settings.compat, limits.kept_events),
            settings,
            runtime,
            pods: Arc::new(Pods::default()),
            under_way: AtomicUsize::new(0),
            unregistered: places(limits.unregistered),
            crowded_out: AtomicU64::new(0),
            registered: places(limits.registered),
            launched: Mutex::default(),
            tasks: TaskTracker::new(),
            runtime_handle: Handle::current(),
            stopping: CancellationToken::new(),
            killed: CancellationToken::new(),
        })
    }

    /// Built-in plugins first, then launched ones side by side, then those that connect.
    pub(crate) async fn start(self: &Arc<Self>, sources: Sources) -> Result<(), AdaptationError> {
        let mut programs = sources.programs;
        if let Some(mut options) = sources.launch {
            options.compat = self.settings.compat;
            // Before anything is started; a few directories are read.
            let discovered = discover(&options)?;
            programs.splice(0..0, discovered.programs);
        }
        self.start_builtins(sources.builtins).await?;
        let mut settled = Vec::new();
        for program in programs {
            let launched = Launched::new(program.id.clone());
            self.launched().push(Arc::clone(&launched));
            let (sender, receiver) = oneshot::channel();
            settled.push(receiver);
            self.tasks
                .spawn(supervise(Arc::clone(self), program, launched, sender));
        }
        for settled in settled {
            // Dropped when the plugin failed, which the log says.
            drop(settled.await);
        }
        if let Some(options) = sources.socket {
            let listener = Listener::bind(&options)?;
            self.tasks.spawn(Arc::clone(self).accept(listener));
        }
        Ok(())
    }

    async fn accept(self: Arc<Self>, mut listener: Listener) {
        loop {
            tokio::select! {
                () = self.stopping.cancelled() => return,
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        let origin = Origin {
                            pid: peer.pid.and_then(|pid| u32::try_from(pid).ok()),
                            ..Origin::new(PluginKind::External)
                        };
                        self.connect(stream, origin);
                    }
                    Err(error) => {
                        tracing::error!(error = chain(&error), "no more plugins can connect");
                        return;
                    }
                },
            }
        }
    }

    fn launched(&self) -> MutexGuard<'_, Vec<Arc<Launched>>> {
        self.launched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All are configured before any is told what runs.
    async fn start_builtins(
        self: &Arc<Self>,
        mut builtins: Vec<(PluginId, Arc<dyn Builtin>)>,
    ) -> Result<(), AdaptationError> {
        if let Some(validator) = self.settings.validator.clone() {
            let id = PluginId::new("00", "default-validator");
            let id = id.map_err(|source| AdaptationError::BuiltinName {
                index: "00".into(),
                name: "default-validator".into(),
                source,
            })?;
            builtins.insert(0, (id, Arc::new(validator)));
        }
        let mut configured = Vec::new();
        for (id, builtin) in builtins {
            let name = id.to_string();
            let identity = Identity {
                kind: PluginKind::Builtin,
                pid: None,
                nri_version: self.settings.nri_version.clone(),
                id,
            };
            let policy = self
                .settings
                .policies
                .get(&name, identity.id.base())
                .clone();
            let allowed = policy.allow_events;
            let arrival = self.registry.arrival();
            let plugin = Plugin::new(identity, arrival, policy, Link::Builtin(builtin));
            let bits = self.configure(&plugin, String::new()).await;
            let bits = bits.map_err(|failure| AdaptationError::Builtin {
                plugin: name,
                failure,
            })?;
            // Plugins of this process are made with the same set of events.
            let mut session = Session::new(None);
            let subscription = session.configured(bits, allowed, EventMask::ALL, Compat::Correct);
            if let Ok(subscription) = subscription {
                self.registry.list(&plugin);
                configured.push((plugin, subscription));
            }
        }
        if configured.is_empty() {
            return Ok(());
        }
        let snapshot = self.runtime.snapshot().await;
        let snapshot = Arc::new(snapshot.map_err(|source| AdaptationError::Snapshot { source })?);
        for (plugin, subscription) in configured {
            let admitted = self
                .admit(&plugin, subscription, Some(Arc::clone(&snapshot)))
                .await;
            if let Err(cause) = admitted {
                self.close(&plugin, cause);
            }
        }
        Ok(())
    }

    /// Takes a stream as a plugin's trunk, when there is a place for it.
    pub(crate) fn attach(self: &Arc<Self>, stream: impl AsyncRead + AsyncWrite + Send + 'static) {
        self.connect(stream, Origin::new(PluginKind::Attached));
    }

    /// Takes a stream as the trunk of a plugin that the caller has started. Resolves to why it ended.
    pub(crate) fn attach_launched(
        self: &Arc<Self>,
        stream: impl AsyncRead + AsyncWrite + Send + 'static,
        id: PluginId,
        pid: Option<u32>,
    ) -> oneshot::Receiver<CloseCause> {
        let (sender, ended) = oneshot::channel();
        let origin = Origin {
            pid,
            fixed: Some(id),
            ..Origin::new(PluginKind::Attached)
        };
        if !self.is_stopping() && !self.killed.is_cancelled() {
            let core = Arc::clone(self);
            self.tasks.spawn_on(
                async move {
                    let cause = plugin::run(core, stream, origin, None).await;
                    // Nobody has to look.
                    let _unheard = sender.send(cause);
                },
                &self.runtime_handle,
            );
        }
        ended
    }

    pub(crate) fn connect(
        self: &Arc<Self>,
        stream: impl AsyncRead + AsyncWrite + Send + 'static,
        origin: Origin,
    ) {
        if self.stopping.is_cancelled() || self.killed.is_cancelled() {
            return;
        }
        let Ok(waiting) = Arc::clone(&self.unregistered).try_acquire_owned() else {
            let max = self.settings.limits.unregistered;
            let cause = CloseCause::TooManyUnregistered { max };
            let count = self.crowded_out.fetch_add(1, Ordering::Relaxed) + 1;
            if is_worth_a_line(count) {
                let kind = origin.kind.as_str();
                tracing::warn!(kind, pid = origin.pid, %cause, count, "connection is refused");
            }
            self.settings.metrics.closed("", &cause);
            return;
        };
        let core = Arc::clone(self);
        self.tasks.spawn_on(
            plugin::run(core, stream, origin, Some(waiting)),
            &self.runtime_handle,
        );
    }

    /// Ends a plugin: from here on no request reaches it.
    pub(crate) fn close(&self, plugin: &Arc<Plugin>, cause: CloseCause) {
        let first = self.registry.close(plugin, &cause);
        plugin.end(cause);
        if !first {
            return;
        }
        let cause = plugin.cause().unwrap_or(CloseCause::Shutdown);
        match cause {
            CloseCause::Shutdown | CloseCause::Removed { .. } => {
                tracing::info!(plugin = %plugin.name, %cause, "plugin is closed");
            }
            _ => tracing::warn!(plugin = %plugin.name, %cause, "plugin is closed"),
        }
        self.settings.metrics.closed(&plugin.name, &cause);
        self.report_count();
    }

    pub(crate) fn report_count(&self) {
        self.settings
            .metrics
            .plugin_count(self.registry.roster().active.len());
    }

    pub(crate) async fn killed(&self) {
        self.killed.cancelled().await;
    }

    pub(crate) async fn stopped(&self) {
        self.stopping.cancelled().await;
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// Ends everything at once.
    pub(crate) fn abandon(&self) {
        self.registry.shut();
        self.stopping.cancel();
        self.killed.cancel();
    }

    pub(crate) fn plugins(&self) -> Vec<PluginStatus> {
        let (all, mut closed) = self.registry.known();
        let (mut plugins, mut others): (Vec<_>, Vec<_>) = all
            .iter()
            .map(|plugin| plugin.status())
            .partition(|status| status.state == PluginState::Active);
        plugins.append(&mut others);
        if !self.is_stopping() {
            let launched = self.launched();
            let away = launched.iter().filter(|launched| {
                let is = |plugin: &Arc<Plugin>| {
                    plugin.kind == PluginKind::Launched && plugin.id == launched.id
                };
                !all.iter().any(is)
            });
            plugins.extend(away.filter_map(|launched| launched.status(&mut closed)));
        }
        for name in &self.registry.roster().missing {
            let last = take(&mut closed, |status| status.is_named(name));
            plugins.push(PluginStatus::missing(name, last));
        }
        plugins.append(&mut closed);
        plugins
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.registry.changes()
    }

    pub(crate) async fn active(&self, name: &str) {
        let mut changes = self.registry.changes();
        let is_active = |_: &u64| {
            self.registry
                .roster()
                .active
                .iter()
                .any(|plugin| plugin.is_named(name))
        };
        // The sender lives as long as this core.
        drop(changes.wait_for(is_active).await);
    }

    pub(crate) fn remove(&self, name: &str, reason: &str) -> usize {
        let cause = CloseCause::Removed {
            reason: reason.to_owned(),
        };
        // What was closed before is old news now.
        let forgotten = self.registry.forget(name);
        let plugins = self.registry.all();
        let named: Vec<_> = plugins
            .iter()
            .filter(|plugin| plugin.is_named(name))
            .collect();
        let launched: Vec<_> = self
            .launched()
            .extract_if(.., |launched| launched.is_named(name))
            .collect();
        for launched in &launched {
            launched.remove();
        }
        let away = launched.iter().filter(|launched| {
            let mut listed = named.iter();
            !listed.any(|plugin| plugin.id == launched.id)
        });
        let mut gone = 0;
        for launched in away {
            gone += 1;
            // One that had ended for good is old news, too.
            if !launched.is_gone() {
                let closed = Closed::now(cause.to_string());
                self.registry
                    .remember(PluginStatus::ended(&launched.id, closed, true, None));
            }
        }
        for plugin in &named {
            self.close(plugin, cause.clone());
        }
        let waived = self.registry.waive(name);
        (named.len() + gone).max(usize::from(waived || forgotten))
    }

    pub(crate) async fn shutdown(&self) {
        self.stopping.cancel();
        if self.registry.shut() {
            let plugins = self.registry.all();
            let asking = plugins.iter().map(|plugin| {
                let asked: BoxFuture<'_, ()> = Box::pin(plugin.shut_down(SHUTDOWN));
                asked
            });
            join_all(asking.collect()).await;
            for plugin in &plugins {
                self.close(plugin, CloseCause::Shutdown);
            }
        }
        self.killed.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Takes the first of `closed` that is meant.
pub(crate) fn take(
    closed: &mut Vec<PluginStatus>,
    is_meant: impl Fn(&PluginStatus) -> bool,
) -> Option<PluginStatus> {
    let place = closed.iter().position(is_meant)?;
    Some(closed.remove(place))
}

fn places(limit: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(limit.min(Semaphore::MAX_PERMITS)))
}

impl BuiltinPlugin for DefaultValidator {
    async fn configure(&self, _: longshore_nri_api::ConfigureRequest) -> Result<EventMask, Status> {
        Ok(EventMask::of(
            longshore_nri_api::Event::ValidateContainerAdjustment,
        ))
    }

    async fn validate_container_adjustment(
        &self,
        request: ValidateContainerAdjustmentRequest,
    ) -> Result<(), String> {
        self.check(&request)
            .map_err(|rejection| rejection.to_string())
    }
}
