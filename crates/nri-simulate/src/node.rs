//! The runtime that pretends: pods and containers in a table.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longshore_nri_adaptation::{
    ApplyUpdates, ChangeCause, Changes, NodeState, RuntimeError, Snapshot,
};
use longshore_nri_api::{Container, ContainerUpdate, PodSandbox};
use longshore_nri_oci::oci_spec::runtime::Spec;

/// Pods and containers, and what plugins wanted changed by themselves. A handle; clones share the table.
#[derive(Debug, Clone, Default)]
pub struct Node {
    table: Arc<Mutex<Table>>,
}

#[derive(Debug, Default)]
struct Table {
    pods: Vec<PodSandbox>,
    containers: Vec<(Container, Option<Spec>)>,
    changes: Vec<Changes>,
}

impl Node {
    pub(crate) fn put_pod(&self, pod: PodSandbox) {
        let mut table = self.lock();
        table.pods.retain(|known| known.id != pod.id);
        table.pods.push(pod);
    }

    pub(crate) fn pod(&self, id: &str) -> Option<PodSandbox> {
        self.lock().pods.iter().find(|pod| pod.id == id).cloned()
    }

    pub(crate) fn remove_pod(&self, id: &str) {
        let mut table = self.lock();
        table.pods.retain(|pod| pod.id != id);
        table
            .containers
            .retain(|(container, _)| container.pod_sandbox_id != id);
    }

    pub(crate) fn put_container(&self, container: Container, spec: Option<Spec>) {
        let mut table = self.lock();
        table
            .containers
            .retain(|(known, _)| known.id != container.id);
        table.containers.push((container, spec));
    }

    pub(crate) fn container(&self, id: &str) -> Option<(Container, Option<Spec>)> {
        let table = self.lock();
        table
            .containers
            .iter()
            .find(|(container, _)| container.id == id)
            .cloned()
    }

    pub(crate) fn remove_container(&self, id: &str) {
        self.lock()
            .containers
            .retain(|(container, _)| container.id != id);
    }

    /// What plugins wanted changed by themselves since the last call.
    pub(crate) fn take_changes(&self) -> Vec<Changes> {
        std::mem::take(&mut self.lock().changes)
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Snapshot for Node {
    async fn snapshot(&self) -> Result<NodeState, RuntimeError> {
        let table = self.lock();
        Ok(NodeState {
            pods: table.pods.clone(),
            containers: table
                .containers
                .iter()
                .map(|(container, _)| container.clone())
                .collect(),
        })
    }
}

impl ApplyUpdates for Node {
    /// What names a container that is not there has failed.
    async fn apply(&self, changes: Changes) -> Result<Vec<ContainerUpdate>, RuntimeError> {
        let mut table = self.lock();
        let known = |update: &&ContainerUpdate| {
            let id = &update.container_id;
            !table
                .containers
                .iter()
                .any(|(container, _)| container.id == *id)
        };
        let failed = changes.updates.iter().filter(known).cloned().collect();
        let said = !changes.updates.is_empty() || !changes.evictions.is_empty();
        if said || changes.cause == ChangeCause::Unsolicited {
            table.changes.push(changes);
        }
        Ok(failed)
    }
}
