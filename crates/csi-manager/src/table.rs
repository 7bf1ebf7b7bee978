//! The plugins' handles by name.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longshore_paths::ContainerId;
use tokio::sync::{mpsc, oneshot};

use crate::board::PluginBoard;
use crate::error::ManagerError;
use crate::plan::Plan;
use crate::plugin::{Command, ids};
use crate::recovery::Findings;
use crate::wants::Wants;

/// The plugins' handles. The lock is never held across an await.
#[derive(Debug, Default)]
pub(crate) struct Plugins(Mutex<Table>);

#[derive(Debug, Default)]
pub(crate) struct Table {
    pub(crate) by_name: BTreeMap<String, Handle>,
    pub(crate) closed: bool,
    /// Counts handles, so that a task that ends removes its own and no later one.
    pub(crate) made: u64,
}

#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) made: u64,
    pub(crate) board: Arc<PluginBoard>,
    pub(crate) wants: Arc<Wants>,
    pub(crate) commands: mpsc::Sender<Box<Command>>,
    pub(crate) plan: Arc<Plan>,
    /// Taken by recovery, or at once by a plugin that comes later.
    pub(crate) found: Option<oneshot::Sender<Findings>>,
    /// It is not in the configuration any more.
    pub(crate) leaving: bool,
}

impl Plugins {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    pub(crate) fn find(&self, name: &str) -> Result<&Handle, ManagerError> {
        if self.closed {
            return Err(ManagerError::Closed);
        }
        self.by_name
            .get(name)
            .ok_or_else(|| ManagerError::UnknownPlugin {
                name: name.to_owned(),
                configured: self.by_name.keys().cloned().collect::<Vec<_>>().join(", "),
            })
    }

    /// A plugin that is on its way out still has its ids.
    pub(crate) fn check(&self, plans: &BTreeMap<String, Arc<Plan>>) -> Result<(), ManagerError> {
        if self.closed {
            return Err(ManagerError::Closed);
        }
        let mut taken: BTreeMap<ContainerId, (&str, &Handle)> = BTreeMap::new();
        for (name, handle) in self
            .by_name
            .iter()
            .filter(|(name, _)| !plans.contains_key(*name))
        {
            let ids = ids(&handle.plan).into_iter();
            taken.extend(ids.map(|id| (id, (name.as_str(), handle))));
        }
        for plan in plans.values() {
            for id in ids(plan) {
                if let Some((old, handle)) = taken.get(&id) {
                    return Err(ManagerError::Renamed {
                        old: (*old).to_owned(),
                        new: plan.name().to_owned(),
                        id: id.to_string(),
                        leaving: handle.leaving,
                    });
                }
            }
        }
        Ok(())
    }

    /// What is new, and what the others are to be told.
    #[expect(
        clippy::type_complexity,
        reason = "used once, two lines below its name"
    )]
    pub(crate) fn change(
        &mut self,
        mut plans: BTreeMap<String, Arc<Plan>>,
    ) -> (
        Vec<Arc<Plan>>,
        Vec<(mpsc::Sender<Box<Command>>, Box<Command>)>,
    ) {
        let mut commands = Vec::new();
        for (name, handle) in &mut self.by_name {
            let command = match plans.remove(name) {
                None if handle.leaving => continue,
                None => {
                    handle.leaving = true;
                    Command::Remove
                }
                Some(plan) if !handle.leaving && plan.config == handle.plan.config => continue,
                Some(plan) => {
                    handle.leaving = false;
                    handle.plan = Arc::clone(&plan);
                    Command::Change(plan)
                }
            };
            commands.push((handle.commands.clone(), Box::new(command)));
        }
        (plans.into_values().collect(), commands)
    }
}
