//! What plugins want of containers that are there: changes of their resources, and their end.

use longshore_engine::Resources;
use longshore_nri_adaptation::merge::Eviction;
use longshore_nri_adaptation::{ApplyUpdates, Changes, NodeState, RuntimeError, Snapshot};
use longshore_nri_api::ContainerUpdate;

use super::{Bridge, Entry, Owner, PoisonError};
use crate::resources::{self, When};
use crate::{Judge, Life};

use std::sync::Arc;

impl Entry {
    /// These are what it may use from now on; what an update does not mention stays.
    pub(super) fn has_now(&mut self, update: &Resources) {
        let wanted = resources::to_nri(update);
        let judge = Judge::of_nobody();
        let mut next = self.resources.clone();
        // It has been done, so there is nothing to refuse.
        if resources::apply(&mut next, &wanted, &judge, When::Creation).is_ok() {
            self.resources = next;
            let linux = self.container.linux.get_or_insert_default();
            linux.resources = Some(resources::to_nri(&self.resources));
        }
    }
}

impl Bridge {
    /// What a chain wants of other containers. What cannot be done is logged: the container that it was about goes on.
    pub(super) async fn carry_out(&self, updates: Vec<ContainerUpdate>, evictions: Vec<Eviction>) {
        for update in updates {
            if let Err(problem) = self.update_one(&Judge::of_nobody(), &update).await {
                let container = update.container_id;
                tracing::warn!(
                    container,
                    problem,
                    "an update that a plugin wants was not made"
                );
            }
        }
        for Eviction { plugin, eviction } in evictions {
            self.evict(&plugin, &eviction.container_id, &eviction.reason);
        }
    }

    async fn update_one(&self, judge: &Judge<'_>, update: &ContainerUpdate) -> Result<(), String> {
        let ContainerUpdate {
            container_id: id,
            linux,
            ignore_failure: _told_to_the_plugin_in_any_case,
        } = update;
        let Some(wanted) = linux.as_ref().and_then(|linux| linux.resources.as_ref()) else {
            return Ok(());
        };
        let entry = self.entry(id);
        let entry = entry.filter(|entry| entry.life.is_there() || entry.life == Life::Accepted);
        let Some(entry) = entry else {
            return Err("there is no such container, or it has ended".to_owned());
        };
        if entry.is_process {
            return Err(
                "the resources of a process container do not change while it runs".to_owned(),
            );
        }
        let owner = self.owner(id).ok_or("nobody runs it")?;
        let mut next = entry.resources.clone();
        resources::apply(&mut next, wanted, judge, When::Update).map_err(|it| it.to_string())?;
        let change = difference(&entry.resources, &next);
        if change == Resources::default() {
            return Ok(());
        }
        let done = owner.update(id, change.clone()).await;
        done.map_err(|error| error.to_string())?;
        if let Some(entry) = self.entries().get_mut(id) {
            entry.has_now(&change);
        }
        Ok(())
    }

    fn evict(&self, plugin: &str, id: &str, reason: &str) {
        match self.owner(id) {
            Some(owner) => owner.evict(id, &format!("plugin {plugin:?}: {reason}")),
            None => tracing::warn!(
                plugin,
                container = id,
                "it wants to evict a container that is not there"
            ),
        }
    }

    fn owner(&self, id: &str) -> Option<Arc<dyn Owner>> {
        let owners = self
            .shared
            .owners
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        owners.iter().find(|owner| owner.owns(id)).cloned()
    }
}

/// Of what an update takes, that which is another.
fn difference(before: &Resources, after: &Resources) -> Resources {
    fn other<T: Clone + PartialEq>(before: &Option<T>, after: &Option<T>) -> Option<T> {
        after.clone().filter(|_| before != after)
    }
    let processors = (before.nano_cpus, before.cpu_quota, before.cpu_period)
        != (after.nano_cpus, after.cpu_quota, after.cpu_period);
    let memory = (before.memory, before.memory_swap) != (after.memory, after.memory_swap);
    Resources {
        cpu_shares: other(&before.cpu_shares, &after.cpu_shares),
        // These go together.
        cpu_quota: after.cpu_quota.filter(|_| processors),
        cpu_period: after.cpu_period.filter(|_| processors),
        memory: after.memory.filter(|_| memory),
        memory_swap: after.memory_swap.filter(|_| memory),
        cpu_realtime_period: other(&before.cpu_realtime_period, &after.cpu_realtime_period),
        cpu_realtime_runtime: other(&before.cpu_realtime_runtime, &after.cpu_realtime_runtime),
        cpuset_cpus: other(&before.cpuset_cpus, &after.cpuset_cpus),
        cpuset_mems: other(&before.cpuset_mems, &after.cpuset_mems),
        memory_reservation: other(&before.memory_reservation, &after.memory_reservation),
        pids_limit: other(&before.pids_limit, &after.pids_limit),
        ..Resources::default()
    }
}

impl Snapshot for Bridge {
    async fn snapshot(&self) -> Result<NodeState, RuntimeError> {
        let entries = self.entries();
        let known = entries.values().filter(|entry| entry.life.is_known());
        let (pods, containers) = known
            .map(|entry| (entry.pod.clone(), entry.container.clone()))
            .unzip();
        Ok(NodeState { pods, containers })
    }
}

impl ApplyUpdates for Bridge {
    async fn apply(&self, changes: Changes) -> Result<Vec<ContainerUpdate>, RuntimeError> {
        let plugin = changes.plugin.to_string();
        let judge = Judge::of_plugin(&plugin);
        let mut failed = Vec::new();
        for update in changes.updates {
            if let Err(problem) = self.update_one(&judge, &update).await {
                let container = &update.container_id;
                tracing::warn!(plugin, container, problem, "an update was not made");
                failed.push(update);
            }
        }
        for eviction in changes.evictions {
            self.evict(&plugin, &eviction.container_id, &eviction.reason);
        }
        Ok(failed)
    }
}
