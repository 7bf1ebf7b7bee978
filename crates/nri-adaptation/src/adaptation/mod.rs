//! The handle by which a runtime tells plugins what happens, and the builder of it.

mod builder;
mod requests;

pub use builder::Builder;

use std::fmt;
use std::sync::Arc;

use longshore_nri_api::PluginId;
use longshore_ttrpc::KeyValue;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::core::Core;
use crate::status::{CloseCause, PluginStatus};

/// The runtime's side of NRI: all plugins of a node, as one.
///
/// A cheap handle; clones speak to the same plugins, from any task (`Send + Sync`). Made by
/// [`Adaptation::builder`]. When the last handle is dropped, plugins are closed at once, and
/// launched ones killed; [`Adaptation::shutdown`] does it gracefully.
///
/// # Order
///
/// Requests of one pod reach plugins in the order in which they were made (in which their futures
/// were first polled); requests of different pods run side by side. Create, update and stop go
/// from plugin to plugin, by index, name and arrival; the other events go to all plugins at once.
/// A plugin gets one request at a time unless its [`PluginPolicy`](crate::PluginPolicy) says
/// otherwise.
///
/// # Cancelling a request
///
/// Dropping the future of a request, or its deadline, harms no plugin. Plugins that were asked
/// already are not told that the request was given up; the one that is being asked is still
/// waited for, in the background and no longer than its own timeout, before it gets another
/// request, and before the next request of the same pod begins. Plugins that come later in the
/// chain are not asked.
#[derive(Clone)]
pub struct Adaptation {
    core: Arc<Core>,
    _owner: Arc<Owner>,
}

/// Ends everything when the last handle is dropped: tasks hold the core, never this.
struct Owner(Arc<Core>);

impl Drop for Owner {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

/// What goes along with one request.
#[derive(Debug, Clone, Default)]
pub struct RequestOptions {
    /// When the caller gives up; `None` for never. Plugins have their own timeouts beside it.
    pub deadline: Option<Instant>,
    /// Metadata for plugins, such as trace headers.
    pub metadata: Vec<KeyValue>,
}

impl Adaptation {
    /// Starts to describe an adaptation for the runtime of this name and version, which plugins
    /// are told.
    pub fn builder(runtime_name: impl Into<String>, runtime_version: impl Into<String>) -> Builder {
        Builder::new(runtime_name.into(), runtime_version.into())
    }

    fn new(core: Arc<Core>) -> Self {
        let owner = Arc::new(Owner(Arc::clone(&core)));
        Self {
            core,
            _owner: owner,
        }
    }

    /// Takes a connected stream as the trunk of a plugin, as if it had connected to the socket.
    /// Returns at once; the plugin registers by itself, and counts against the same limits.
    pub fn attach(&self, stream: impl AsyncRead + AsyncWrite + Send + 'static) {
        self.core.attach(stream);
    }

    /// Takes a connected stream as the trunk of a plugin that the caller has started: `id` is who it is,
    /// whatever it registers as, and it needs no place among those that have not registered. The future resolves
    /// to why the connection ended, or to nothing when the adaptation takes no plugins any more; the plugin stays
    /// when it is dropped.
    pub fn attach_launched(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + 'static,
        id: PluginId,
        pid: Option<u32>,
    ) -> impl Future<Output = Option<CloseCause>> + Send + 'static {
        let ended = self.core.attach_launched(stream, id, pid);
        async move { ended.await.ok() }
    }

    /// The plugins: active ones in the order in which they are asked, then those that are not
    /// (yet), then what is missing, then those that were closed, with why and when.
    #[must_use]
    pub fn plugins(&self) -> Vec<PluginStatus> {
        self.core.plugins()
    }

    /// A number that rises with each change of [`Self::plugins`]' names or states.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.core.changes()
    }

    /// Waits until the plugin of this full or base name is active. Drop the future to give up.
    pub async fn active(&self, name: &str) {
        self.core.active(name).await;
    }

    /// Removes plugins by full or base name: closes them, stops launched ones for good, and lets
    /// containers be created without them if they were required. Returns how many there were.
    /// They are listed as closed from then on, until they come back or are removed once more.
    pub fn remove_plugin(&self, name: &str) -> usize {
        self.core.remove(name, "")
    }

    /// As [`Self::remove_plugin`], with the operator's `reason`, which is told with their status.
    pub fn remove_plugin_because(&self, name: &str, reason: &str) -> usize {
        self.core.remove(name, reason)
    }

    /// Ends everything gracefully: no plugin is accepted any more, each is asked to shut down,
    /// launched ones get SIGTERM, then SIGKILL for their group, and are reaped. Requests that are
    /// under way fail, later ones, too. Idempotent. Returns when every task of the adaptation has
    /// ended; when the future is dropped before, call it again or drop the handle.
    pub async fn shutdown(&self) {
        self.core.shutdown().await;
    }
}

impl fmt::Debug for Adaptation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Adaptation")
            .field("plugins", &self.plugins().len())
            .finish_non_exhaustive()
    }
}
