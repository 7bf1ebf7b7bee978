//! The handle.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use longshore_paths::Service;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::config::PluginConfig;
use crate::error::ManagerError;
use crate::options::ManagerOptions;
use crate::status::{EndpointState, ManagerStatus, ReadyEndpoint};

/// Keeps CSI plugins running and hands out their endpoints. Clones are handles of one manager.
#[derive(Clone, Debug)]
pub struct CsiManager {
    plugins: Arc<Mutex<BTreeMap<String, Slot>>>,
    status: watch::Sender<Arc<ManagerStatus>>,
}

type Slot = BTreeMap<Service, watch::Sender<EndpointState>>;

impl CsiManager {
    /// Checks the configuration, spawns the manager and begins recovery. Needs a tokio runtime.
    ///
    /// # Errors
    /// A configuration that cannot work; nothing has been done then.
    pub fn spawn(
        options: ManagerOptions,
        plugins: Vec<PluginConfig>,
    ) -> Result<Self, ManagerError> {
        let _ = options;
        let manager = Self {
            plugins: Arc::default(),
            status: watch::Sender::new(Arc::default()),
        };
        manager.take(plugins)?;
        Ok(manager)
    }

    fn take(&self, plugins: Vec<PluginConfig>) -> Result<(), ManagerError> {
        let mut slots = self.plugins.lock().unwrap_or_else(PoisonError::into_inner);
        slots.clear();
        for plugin in plugins {
            let services = plugin
                .services
                .iter()
                .map(|s| (*s, watch::Sender::default()))
                .collect();
            if slots.insert(plugin.name.clone(), services).is_some() {
                return Err(ManagerError::DuplicateName { name: plugin.name });
            }
        }
        Ok(())
    }

    /// The endpoint of a service, now and whenever it changes; starts the plugin when nobody has
    /// yet. The channel closes when the plugin leaves the configuration.
    ///
    /// # Errors
    /// [`ManagerError::UnknownPlugin`], [`ManagerError::ServiceNotOffered`].
    pub fn endpoint(
        &self,
        name: &str,
        service: Service,
    ) -> Result<watch::Receiver<EndpointState>, ManagerError> {
        let slots = self.plugins.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = slots.get(name).ok_or_else(|| ManagerError::UnknownPlugin {
            name: name.to_owned(),
            configured: slots.keys().cloned().collect::<Vec<_>>().join(", "),
        })?;
        let endpoint = slot
            .get(&service)
            .ok_or_else(|| ManagerError::ServiceNotOffered {
                plugin: name.to_owned(),
                service,
            })?;
        Ok(endpoint.subscribe())
    }

    /// The current endpoint of a service, or the next good one.
    ///
    /// # Errors
    /// As [`endpoint`](Self::endpoint), and [`ManagerError::NotReady`] with the reason at `deadline`.
    pub async fn wait_endpoint(
        &self,
        name: &str,
        service: Service,
        deadline: Instant,
    ) -> Result<ReadyEndpoint, ManagerError> {
        let mut endpoint = self.endpoint(name, service)?;
        let ready = endpoint.wait_for(|state| state.ready.is_some());
        let found = match tokio::time::timeout_at(deadline, ready).await {
            Ok(Ok(state)) => state.ready.clone(),
            Ok(Err(_)) => return Err(ManagerError::Closed),
            Err(_) => None,
        };
        found.ok_or_else(|| ManagerError::NotReady {
            plugin: name.to_owned(),
            service,
            reason: endpoint.borrow().reason.clone(),
        })
    }

    /// The status of everything, always answered from memory.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<Arc<ManagerStatus>> {
        self.status.subscribe()
    }

    /// Puts another configuration in force. Plugins that did not change are not touched; one that
    /// changed or left while something is mounted below its mount root is kept and reported until
    /// the mount is gone, or until `restart` or `stop` with `force`.
    ///
    /// # Errors
    /// A configuration that cannot work: the old one stays in force.
    pub async fn apply(&self, plugins: Vec<PluginConfig>) -> Result<(), ManagerError> {
        self.take(plugins)
    }

    /// Restarts a plugin's containers at once; `reset` forgets its failures and lets it speak
    /// another CSI version or take another name; `force` does so although FUSE mounts go down, and
    /// carries out a change that waits for a mount.
    ///
    /// # Errors
    /// [`ManagerError::UnknownPlugin`], [`ManagerError::HoldsFuse`] without `force`.
    pub async fn restart(&self, name: &str, reset: bool, force: bool) -> Result<(), ManagerError> {
        let _ = (reset, force);
        self.start(name).await
    }

    /// Stops a plugin's containers; they stay stopped until [`start`](Self::start), or until the
    /// supervisor starts anew. Returns when they are down.
    ///
    /// # Errors
    /// As [`restart`](Self::restart).
    pub async fn stop(&self, name: &str, force: bool) -> Result<(), ManagerError> {
        let _ = force;
        self.start(name).await
    }

    /// Starts a plugin that was stopped, or that nobody asked for yet.
    ///
    /// # Errors
    /// [`ManagerError::UnknownPlugin`].
    pub async fn start(&self, name: &str) -> Result<(), ManagerError> {
        let slots = self.plugins.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.contains_key(name) {
            return Ok(());
        }
        Err(ManagerError::UnknownPlugin {
            name: name.to_owned(),
            configured: slots.keys().cloned().collect::<Vec<_>>().join(", "),
        })
    }

    /// Ends supervision and leaves the containers running.
    pub async fn shutdown(&self) {
        self.plugins
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// Stops every managed container, with its grace, then ends supervision. For programs whose
    /// plugins must not outlive them (the demo, `csi run`).
    pub async fn stop_all(&self) {
        self.shutdown().await;
    }
}
