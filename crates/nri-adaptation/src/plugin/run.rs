//! The life of one connection, from the first byte to the last.
//!
//! Each connection has a task of its own, so that none waits for another. See `session` for what
//! a peer may do when.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use longshore_nri_api::{ConfigureRequest, PluginId, service};
use longshore_ttrpc::{Client, Layout, Options, start};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::service::{Connection, Registered, RuntimeService, UNREGISTERED_MAX};
use super::{Identity, Link, Plugin};
use crate::core::Core;
use crate::policy::PluginPolicy;
use crate::status::{CloseCause, PluginKind};

/// Where a connection comes from.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) kind: PluginKind,
    pub(crate) pid: Option<u32>,
    /// Who it is, when the adaptation launched it.
    pub(crate) fixed: Option<PluginId>,
    /// The text of its configuration file.
    pub(crate) config: String,
    /// Told when the plugin is active; dropped when that will not happen.
    pub(crate) active: Option<oneshot::Sender<()>>,
    /// Cancelled when the process that was launched has ended, whoever keeps its socket open.
    pub(crate) orphaned: CancellationToken,
}

impl Origin {
    pub(crate) fn new(kind: PluginKind) -> Self {
        Self {
            kind,
            pid: None,
            fixed: None,
            config: String::new(),
            active: None,
            orphaned: CancellationToken::new(),
        }
    }
}

/// How long a peer that is refused may take to read why.
const LINGER: Duration = Duration::from_millis(250);

/// The most requests of one plugin that are handled at once; their updates are applied one after
/// another.
const REQUESTS_IN_FLIGHT: usize = 16;

/// Serves one connection to its end. `waiting` is its place among the unregistered
/// ones, which launched plugins do not need.
pub(crate) async fn run(
    core: Arc<Core>,
    stream: impl AsyncRead + AsyncWrite + Send + 'static,
    origin: Origin,
    waiting: Option<OwnedSemaphorePermit>,
) -> CloseCause {
    let (connection, registered) = Connection::new(origin.fixed.clone());
    let service = RuntimeService {
        core: Arc::clone(&core),
        connection: Arc::clone(&connection),
    };
    let mut options = Options::default();
    options.request_limit = UNREGISTERED_MAX;
    options.requests_in_flight = REQUESTS_IN_FLIGHT;
    let layout = Layout::Mux {
        client: service::PLUGIN_CONNECTION,
        server: service::RUNTIME_CONNECTION,
    };
    let (client, driver) = start(stream, layout, service, options);
    connection.set_client(&client);
    let driver = core.tasks.spawn(driver);
    let life = Life {
        core: &core,
        client: &client,
        connection: &connection,
        origin,
    };
    let cause = life.live(registered, waiting).await;
    connection.session().close();
    if connection.is_broken() {
        drop(timeout(LINGER, client.closed()).await);
    }
    client.close(cause.to_string());
    // The trunk is closed: the driver ends, and with it every handler.
    drop(driver.await);
    cause
}

struct Life<'a> {
    core: &'a Arc<Core>,
    client: &'a Client,
    connection: &'a Arc<Connection>,
    origin: Origin,
}

impl Life<'_> {
    async fn live(
        mut self,
        registered: oneshot::Receiver<Registered>,
        waiting: Option<OwnedSemaphorePermit>,
    ) -> CloseCause {
        let registered = match self.registration(registered).await {
            Ok(registered) => registered,
            Err(cause) => {
                let kind = self.origin.kind.as_str();
                tracing::warn!(kind, pid = self.origin.pid, %cause, "connection is closed before it registered");
                self.core.settings.metrics.closed("", &cause);
                return cause;
            }
        };
        drop(waiting);
        let Registered {
            id,
            nri_version,
            place,
        } = registered;
        let name = id.to_string();
        let policy = self.core.settings.policies.get(&name, id.base()).clone();
        let identity = Identity {
            id,
            kind: self.origin.kind,
            pid: self.origin.pid,
            nri_version,
        };
        let link = Link::Remote(self.client.clone());
        let plugin = Plugin::new(identity, self.core.registry.arrival(), policy, link);
        if self.core.settings.imitation.state_change_only {
            plugin.state_change_only.store(true, Ordering::Release);
        }
        tracing::info!(plugin = %name, kind = plugin.kind.as_str(), pid = plugin.pid, nri_version = plugin.nri_version, "plugin is registered");
        let cause = if self.core.registry.list(&plugin) {
            self.until_it_ends(&plugin).await
        } else {
            CloseCause::Shutdown
        };
        self.core.close(&plugin, cause.clone());
        drop(place);
        plugin.cause().unwrap_or(cause)
    }

    async fn registration(
        &self,
        registered: oneshot::Receiver<Registered>,
    ) -> Result<Registered, CloseCause> {
        let default = self.core.settings.timeouts.registration;
        let limit = self
            .launch_policy()
            .and_then(|policy| policy.registration_timeout);
        let limit = limit.unwrap_or(default);
        tokio::select! {
            biased;
            Ok(registered) = registered => Ok(registered),
            cause = self.connection.misbehaved() => Err(cause),
            reason = self.client.closed() => Err(CloseCause::Connection(reason)),
            () = self.core.killed() => Err(CloseCause::Shutdown),
            () = self.origin.orphaned.cancelled() => Err(CloseCause::Orphaned),
            () = tokio::time::sleep(limit) => Err(CloseCause::NotRegistered(limit)),
        }
    }

    fn launch_policy(&self) -> Option<&PluginPolicy> {
        let id = self.origin.fixed.as_ref()?;
        Some(self.core.settings.policies.get(&id.to_string(), id.base()))
    }

    /// From registration on, whatever ends it.
    async fn until_it_ends(&mut self, plugin: &Arc<Plugin>) -> CloseCause {
        let active = self.origin.active.take();
        let this = &*self;
        let alive = async {
            if let Err(cause) = this.admit(plugin).await {
                return cause;
            }
            if let Some(active) = active {
                // Nobody listens any more after the start.
                let _ = active.send(());
            }
            std::future::pending().await
        };
        tokio::select! {
            biased;
            cause = this.connection.misbehaved() => cause,
            () = plugin.ended() => plugin.cause().unwrap_or(CloseCause::Shutdown),
            () = this.core.killed() => CloseCause::Shutdown,
            () = this.origin.orphaned.cancelled() => CloseCause::Orphaned,
            cause = alive => cause,
            reason = this.client.closed() => CloseCause::Connection(reason),
        }
    }

    async fn admit(&self, plugin: &Arc<Plugin>) -> Result<(), CloseCause> {
        let config = self.origin.config.clone();
        let bits = self
            .core
            .configure(plugin, config)
            .await
            .map_err(CloseCause::Configure)?;
        let configured = self.connection.session().configured(
            bits,
            plugin.policy.allow_events,
            self.core.settings.imitation.events,
            self.core.settings.compat,
        );
        let subscription = configured?;
        self.connection.session().synchronizing();
        self.core.admit(plugin, subscription, None).await?;
        self.connection.session().active();
        Ok(())
    }
}

impl Core {
    /// Asks a plugin for its events.
    pub(crate) async fn configure(
        &self,
        plugin: &Plugin,
        config: String,
    ) -> Result<i32, crate::error::CallFailure> {
        let settings = &self.settings;
        let told = |timeout: Duration| match settings.imitation.tells_timeouts {
            true => i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX),
            false => 0,
        };
        let request_timeout = plugin.policy.request_timeout(&settings.timeouts);
        let request = ConfigureRequest {
            config,
            runtime_name: settings.runtime_name.clone(),
            runtime_version: settings.runtime_version.clone(),
            registration_timeout: told(settings.timeouts.registration),
            request_timeout: told(request_timeout),
            nri_version: settings.nri_version.clone(),
        };
        plugin.configure(request, request_timeout).await
    }
}
