//! What is counted and measured. Nothing, by default.

use std::time::Duration;

use longshore_nri_api::ContainerAdjustment;

use crate::error::CallFailure;
use crate::status::CloseCause;

/// Receives what the adaptation does, as it happens. All methods do nothing by default.
///
/// Called from the tasks that make the requests: an implementation must not block, and has to
/// gather histograms itself. Plugins are named in full, as `10-logger`; operations by their
/// events, as `CreateContainer`, and `Synchronize`.
///
/// For each call to a plugin [`Self::latency`] comes first, then [`Self::invocation`], then
/// [`Self::adjustments`] when there is an answer that can hold some.
pub trait Metrics: Send + Sync + 'static {
    /// How long a plugin took, without the time that the request waited for others.
    fn latency(&self, plugin: &str, operation: &str, latency: Duration) {
        let _ = (plugin, operation, latency);
    }

    /// How a call ended.
    fn invocation(&self, plugin: &str, operation: &str, outcome: Result<(), &CallFailure>) {
        let _ = (plugin, operation, outcome);
    }

    /// What an answer asks for.
    fn adjustments(
        &self,
        plugin: &str,
        operation: &str,
        adjustment: Option<&ContainerAdjustment>,
        updates: usize,
        evictions: usize,
    ) {
        let _ = (plugin, operation, adjustment, updates, evictions);
    }

    /// How many plugins are active now.
    fn plugin_count(&self, active: usize) {
        let _ = active;
    }

    /// How long a request waited for the plugin's other requests; only when it had to wait.
    fn queued(&self, plugin: &str, operation: &str, waited: Duration) {
        let _ = (plugin, operation, waited);
    }

    /// A plugin was synchronized, in this many parts.
    fn synchronized(&self, plugin: &str, parts: usize, took: Duration) {
        let _ = (plugin, parts, took);
    }

    /// A plugin, or a connection that never named itself (then `plugin` is empty), was closed.
    fn closed(&self, plugin: &str, cause: &CloseCause) {
        let _ = (plugin, cause);
    }
}

/// Counts nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoMetrics;

impl Metrics for NoMetrics {}

/// Passes everything on: for one receiver of several adaptations.
impl<M: Metrics + ?Sized> Metrics for std::sync::Arc<M> {
    fn latency(&self, plugin: &str, operation: &str, latency: Duration) {
        (**self).latency(plugin, operation, latency);
    }

    fn invocation(&self, plugin: &str, operation: &str, outcome: Result<(), &CallFailure>) {
        (**self).invocation(plugin, operation, outcome);
    }

    fn adjustments(
        &self,
        plugin: &str,
        operation: &str,
        adjustment: Option<&ContainerAdjustment>,
        updates: usize,
        evictions: usize,
    ) {
        (**self).adjustments(plugin, operation, adjustment, updates, evictions);
    }

    fn plugin_count(&self, active: usize) {
        (**self).plugin_count(active);
    }

    fn queued(&self, plugin: &str, operation: &str, waited: Duration) {
        (**self).queued(plugin, operation, waited);
    }

    fn synchronized(&self, plugin: &str, parts: usize, took: Duration) {
        (**self).synchronized(plugin, parts, took);
    }

    fn closed(&self, plugin: &str, cause: &CloseCause) {
        (**self).closed(plugin, cause);
    }
}
