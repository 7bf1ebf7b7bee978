//! Adaptations: the one that is measured, and one in a process of its own.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longshore_bench::Failure;
use longshore_bench::nri::{plugin_index, plugin_name, runtime};
use longshore_nri_adaptation::socket::SocketOptions;
use longshore_nri_adaptation::{
    Adaptation, ApplyUpdates, Changes, Metrics, NodeState, RuntimeError, Snapshot, Timeouts,
};
use longshore_nri_api::ContainerUpdate;
use tokio::time::timeout;

pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A runtime with this state, which does what it is told.
#[derive(Debug, Default)]
pub(crate) struct Node(pub(crate) NodeState);

impl Snapshot for Node {
    async fn snapshot(&self) -> Result<NodeState, RuntimeError> {
        Ok(self.0.clone())
    }
}

impl ApplyUpdates for Node {
    async fn apply(&self, _changes: Changes) -> Result<Vec<ContainerUpdate>, RuntimeError> {
        Ok(Vec::new())
    }
}

/// Keeps how long synchronizations took.
#[derive(Debug, Clone, Default)]
pub(crate) struct Synchronized(Arc<Mutex<Vec<Duration>>>);

impl Synchronized {
    pub(crate) fn take(&self) -> Vec<Duration> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Metrics for Synchronized {
    fn synchronized(&self, _plugin: &str, _parts: usize, took: Duration) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(took);
    }
}

pub(crate) async fn start(
    socket: &Path,
    node: Node,
    metrics: impl Metrics,
) -> Result<Adaptation, Failure> {
    let adaptation = Adaptation::builder("bench", "v1.0.0")
        .socket(SocketOptions::new(socket))
        .timeouts(Timeouts {
            registration: PATIENCE,
            request: PATIENCE,
        })
        .metrics(metrics)
        .start(node)
        .await?;
    Ok(adaptation)
}

/// Waits until so many plugins, from the first on, are active.
pub(crate) async fn active(adaptation: &Adaptation, count: usize) -> Result<(), Failure> {
    for nth in 0..count {
        let name = format!("{}-{}", plugin_index(nth), plugin_name(nth));
        timeout(PATIENCE, adaptation.active(&name))
            .await
            .map_err(|_| format!("{name} does not become active"))?;
    }
    Ok(())
}

pub(crate) fn run(mut arguments: impl Iterator<Item = String>) -> Result<(), Failure> {
    let socket = PathBuf::from(arguments.next().ok_or("no socket")?);
    runtime()?.block_on(async {
        let adaptation = start(&socket, Node::default(), Synchronized::default()).await?;
        std::future::pending::<()>().await;
        drop(adaptation);
        Ok(())
    })
}
