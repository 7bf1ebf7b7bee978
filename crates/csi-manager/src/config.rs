//! What the operator says about one plugin.

use std::collections::BTreeSet;
use std::time::Duration;

use longshore_backoff::RestartPolicy;
use longshore_csi_probe::LivenessPolicy;
use longshore_mesos_api::v1::CsiPluginInfo;
use longshore_paths::Service;

/// What to do with a plugin whose liveness probe keeps failing.
///
/// Whatever is chosen, a plugin is never restarted by itself while a process of its tree holds
/// `/dev/fuse`: the restart would take its mounts down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnUnhealthy {
    /// Stop it with grace and start it again; counts as a failure of the plugin.
    #[default]
    Restart,
    /// Only say so; its endpoint is withdrawn until it answers again.
    Report,
}

/// One plugin: what to run (or where it listens) and how to look after it.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginConfig {
    /// The operator's name of the plugin, unique among all plugins.
    pub name: String,
    /// What Mesos calls `CSIPluginInfo`: either `containers` (managed: we run it) or `endpoints`
    /// (unmanaged: somebody else does).
    pub info: CsiPluginInfo,
    /// The services wanted; empty means every service that `info` offers.
    pub services: BTreeSet<Service>,
    /// What a failing liveness probe leads to.
    pub on_unhealthy: OnUnhealthy,
    /// From launch to the first good probe. Default one minute, as in Mesos.
    pub startup_timeout: Duration,
    /// The periodic probe; `None` turns it off.
    pub liveness: Option<LivenessPolicy>,
    /// Backoff, start limit and slow retry.
    pub restart: RestartPolicy,
    /// From SIGTERM to SIGKILL when a container is stopped. Default ten seconds.
    pub kill_grace: Duration,
}

impl PluginConfig {
    /// A plugin with every default: all services, restart when unhealthy.
    #[must_use]
    pub fn new(name: impl Into<String>, info: CsiPluginInfo) -> Self {
        Self {
            name: name.into(),
            info,
            services: BTreeSet::new(),
            on_unhealthy: OnUnhealthy::default(),
            startup_timeout: Duration::from_secs(60),
            liveness: Some(LivenessPolicy::default()),
            restart: RestartPolicy::default(),
            kill_grace: Duration::from_secs(10),
        }
    }

    /// True when the plugin runs elsewhere and only its endpoints are known.
    #[must_use]
    pub fn is_unmanaged(&self) -> bool {
        self.info.containers.is_empty()
    }
}
