//! What an embedder implements: a snapshot of what runs, and the application of updates.

use std::future::Future;
use std::pin::Pin;

use longshore_nri_api::{Container, ContainerEviction, ContainerUpdate, PluginId, PodSandbox};

/// The error of an embedder's code, whatever it is.
pub type RuntimeError = Box<dyn std::error::Error + Send + Sync>;

/// The pods and containers of a node, as every plugin is told of them when it connects.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NodeState {
    /// The pods.
    pub pods: Vec<PodSandbox>,
    /// The containers, each with the id of its pod.
    pub containers: Vec<Container>,
}

/// Tells which pods and containers there are.
pub trait Snapshot: Send + Sync + 'static {
    /// The pods and containers at this moment.
    ///
    /// Called once for each plugin, before it is active, side by side for several. Events that
    /// the adaptation is told of from before the call until the plugin is synchronized are kept
    /// for that plugin, so nothing has to be locked: what the snapshot does not show yet reaches
    /// the plugin as an event.
    ///
    /// The future is dropped when it takes longer than the plugin's request timeout.
    ///
    /// # Errors
    /// The plugin is closed with this reason.
    fn snapshot(&self) -> impl Future<Output = Result<NodeState, RuntimeError>> + Send;
}

/// Applies what plugins want changed while no request of the runtime is under way.
pub trait ApplyUpdates: Send + Sync + 'static {
    /// Applies changes of containers that exist, and returns the updates that failed: what names
    /// an unknown container has failed, too.
    ///
    /// Called for one list at a time for each plugin, side by side for several plugins, and also
    /// while requests are under way: a plugin may ask from inside a handler. An implementation
    /// must therefore neither wait for a lock that it holds around requests to the adaptation,
    /// nor make such requests itself before it returns.
    ///
    /// The future is run to its end in a task of its own, also when the plugin goes away or gives
    /// up.
    ///
    /// # Errors
    /// The plugin is answered with status 2 and this text.
    fn apply(
        &self,
        changes: Changes,
    ) -> impl Future<Output = Result<Vec<ContainerUpdate>, RuntimeError>> + Send;
}

/// What a plugin wants changed.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Changes {
    /// Who asks.
    pub plugin: PluginId,
    /// When it asks.
    pub cause: ChangeCause,
    /// New resources of containers, neither merged nor checked against those of other plugins.
    pub updates: Vec<ContainerUpdate>,
    /// Containers to stop.
    pub evictions: Vec<ContainerEviction>,
}

/// Why changes are asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ChangeCause {
    /// The answer of a plugin that was just synchronized.
    Synchronize,
    /// The plugin asked by itself.
    Unsolicited,
    /// The answer to an event that was kept for the plugin until it was synchronized.
    Late,
}

pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The two traits together, as one object.
pub(crate) trait Runtime: Send + Sync + 'static {
    fn snapshot(&self) -> BoxFuture<'_, Result<NodeState, RuntimeError>>;

    fn apply(&self, changes: Changes) -> BoxFuture<'_, Result<Vec<ContainerUpdate>, RuntimeError>>;
}

impl<T: Snapshot + ApplyUpdates> Runtime for T {
    fn snapshot(&self) -> BoxFuture<'_, Result<NodeState, RuntimeError>> {
        Box::pin(Snapshot::snapshot(self))
    }

    fn apply(&self, changes: Changes) -> BoxFuture<'_, Result<Vec<ContainerUpdate>, RuntimeError>> {
        Box::pin(ApplyUpdates::apply(self, changes))
    }
}
