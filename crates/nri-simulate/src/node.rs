//! The runtime that pretends: pods and containers in a table.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longshore_nri_adaptation::{
    ApplyUpdates, ChangeCause, Changes, NodeState, RuntimeError, Snapshot,
};
use longshore_nri_api::{Container, ContainerUpdate, PodSandbox, cost::Message};
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
    /// About what they take, in bytes.
    changes_size: usize,
    /// How many changes were not kept.
    left_out: u64,
}

/// The most changes that are kept until a step tells them, and about how many bytes they may take: plugins ask as
/// often as they like, and the next step may be far away.
const CHANGES_MAX: usize = 1024;
const CHANGES_SIZE_MAX: usize = 16 << 20;

/// About what messages take, in bytes: themselves, and what they hold.
fn size_of_all<M: Message>(messages: &[M]) -> usize {
    let held: usize = messages.iter().map(|message| message.encoded_len()).sum();
    size_of_val(messages) + held
}

impl Table {
    fn note(&mut self, changes: Changes) {
        let size = size_of_all(&changes.updates) + size_of_all(&changes.evictions);
        if self.changes.len() == CHANGES_MAX || size > CHANGES_SIZE_MAX - self.changes_size {
            self.left_out += 1;
            return;
        }
        self.changes_size += size;
        self.changes.push(changes);
    }
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

    /// What plugins wanted changed by themselves since the last call, and how much more they did than is kept.
    pub(crate) fn take_changes(&self) -> (Vec<Changes>, u64) {
        let mut table = self.lock();
        table.changes_size = 0;
        let left_out = std::mem::take(&mut table.left_out);
        (std::mem::take(&mut table.changes), left_out)
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
            table.note(changes);
        }
        Ok(failed)
    }
}
