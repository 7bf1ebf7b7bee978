//! Updates of containers, gathered target by target.
//!
//! A contribution counts whole or not at all: when it conflicts and its plugin lets failures be
//! ignored, neither its values nor its claims stay.

use std::collections::BTreeMap;

use longshore_nri_api::{Conflict, ContainerUpdate, LinuxResources, OwningPlugins};

use super::keyed::Claimant;
use super::{Compat, MergeError, resources};

/// The updates of one chain.
#[derive(Debug, Clone)]
pub(super) struct Updates {
    /// In the order in which their containers were first named.
    updates: Vec<ContainerUpdate>,
    places: BTreeMap<String, usize>,
    compat: Compat,
}

impl Updates {
    pub(super) fn new(compat: Compat) -> Self {
        Self {
            updates: Vec::new(),
            places: BTreeMap::new(),
            compat,
        }
    }

    /// Adds a contribution to the update of its container.
    pub(super) fn add(
        &mut self,
        plugin: &str,
        update: ContainerUpdate,
        owners: &mut OwningPlugins,
    ) -> Result<(), MergeError> {
        let ignore = update.ignore_failure;
        let id = update.container_id.clone();
        let compat = self.compat;
        let place = self.places.get(&id).copied();
        // Only a contribution that is accepted makes an entry.
        let mut merged = place.map_or_else(
            || ContainerUpdate {
                ignore_failure: true,
                ..ContainerUpdate::new(id.clone())
            },
            |place| std::mem::take(&mut self.updates[place]),
        );
        let outcome = contribute(plugin, update, merged.resources_mut(), owners, compat);
        if matches!(outcome, Ok(true)) {
            merged.ignore_failure &= ignore;
        }
        match place {
            Some(place) => self.updates[place] = merged,
            None if matches!(outcome, Ok(true)) => {
                self.places.insert(id, self.updates.len());
                self.updates.push(merged);
            }
            None => {}
        }
        outcome.map(|_| ()).map_err(MergeError::from)
    }

    /// Lays a contribution over the resources that a request asks for. One without resources
    /// leaves them as they are.
    pub(super) fn overlay(
        &self,
        plugin: &str,
        update: ContainerUpdate,
        requested: &mut LinuxResources,
        owners: &mut OwningPlugins,
    ) -> Result<(), MergeError> {
        contribute(plugin, update, requested, owners, self.compat)?;
        Ok(())
    }

    pub(super) fn finish(self) -> Vec<ContainerUpdate> {
        self.updates
    }
}

/// Whether the contribution was taken: a conflict that may be ignored leaves everything as it was.
fn contribute(
    plugin: &str,
    update: ContainerUpdate,
    target: &mut LinuxResources,
    owners: &mut OwningPlugins,
    compat: Compat,
) -> Result<bool, Conflict> {
    let wanted = update
        .linux
        .and_then(|linux| linux.resources)
        .unwrap_or_default();
    let who = Claimant {
        plugin,
        container: &update.container_id,
    };
    let before = update
        .ignore_failure
        .then(|| owners.owners.get(&update.container_id).cloned());
    match (resources::claim(who, &wanted, owners), before) {
        (Ok(()), _) => {
            resources::overlay(&wanted, target, compat);
            Ok(true)
        }
        (Err(conflict), None) => Err(conflict),
        (Err(_), Some(before)) => {
            owners.owners.remove(&update.container_id);
            owners
                .owners
                .extend(before.map(|fields| (update.container_id, fields)));
            Ok(false)
        }
    }
}
