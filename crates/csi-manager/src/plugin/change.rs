//! Another configuration, or none: carried out when no mount forbids it.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use longshore_container_daemon::Phase;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::{Pending, PluginTask, Slot, planned};
use crate::host::{Mounts, shown};
use crate::plan::{Plan, Planned};
use crate::retire::{Retired, retire};
use crate::status::PluginState;
use crate::unit::Unit;

/// How long a change of settings waits for a launch under way.
const HANDOVER: Duration = Duration::from_secs(120);

impl PluginTask {
    /// Carries out what is pending unless a mount forbids it; true when the plugin is gone.
    pub(super) async fn proceed(&mut self, force: bool) -> bool {
        let target = match &self.pending {
            None => return false,
            Some(Pending::Remove) => None,
            Some(Pending::Change(plan)) => Some(Arc::clone(plan)),
        };
        let planned = match &target {
            Some(plan) => Box::pin(planned(&self.shared, plan)).await,
            None => Vec::new(),
        };
        let same = |slot: &Slot| {
            planned
                .iter()
                .any(|p| p.id == slot.planned.id && p.hash == slot.planned.hash)
        };
        let ends: Vec<usize> = (0..self.slots.len())
            .filter(|at| !same(&self.slots[*at]))
            .collect();
        let runs = |at: &usize| {
            let slot = &self.slots[*at];
            slot.attach
                || slot
                    .unit
                    .as_ref()
                    .is_some_and(|unit| unit.phase() != Phase::Down)
        };
        if !force && (ends.iter().any(runs) || !self.strays.is_empty()) {
            match self.mounted().await {
                Ok(mounts) if mounts.is_empty() => {}
                Ok(mounts) => {
                    let what = if target.is_some() {
                        "changed in"
                    } else {
                        "removed from"
                    };
                    let first = mounts.first().map(|mount| shown(mount)).unwrap_or_default();
                    self.board.kept(Some(format!(
                        "{what} the configuration, and kept while {first} is mounted ({} in all)",
                        mounts.len()
                    )));
                    return false;
                }
                Err(why) => {
                    self.board.kept(Some(why));
                    return false;
                }
            }
        }
        self.pending = None;
        self.board.kept(None);
        self.replace(target, planned, &ends).await
    }

    /// Stops and cleans what ends, then goes on with the new plan.
    pub(super) async fn replace(
        &mut self,
        target: Option<Arc<Plan>>,
        planned: Vec<Planned>,
        ends: &[usize],
    ) -> bool {
        self.watchers.shutdown().await;
        if !ends.is_empty() || !self.strays.is_empty() {
            self.board
                .overall(Some((PluginState::Stopping, "its configuration changed")));
        }
        self.stop_slots(ends).await;
        let mut jobs = JoinSet::new();
        for stray in self.strays.drain(..) {
            jobs.spawn(Box::pin(retire(Arc::clone(&self.shared), stray)));
        }
        // Not only stopped: their directories and records go too, unless the id stays.
        for at in ends {
            let old = &self.slots[*at].planned;
            if !planned.iter().any(|new| new.id == old.id) {
                let retired = Retired::files(&self.plan, old);
                jobs.spawn(Box::pin(retire(Arc::clone(&self.shared), retired)));
            }
        }
        jobs.join_all().await;
        let Some(plan) = target else { return true };
        let mut old = std::mem::take(&mut self.slots);
        for planned in planned {
            let before = old.iter().position(|slot| {
                slot.planned.id == planned.id && slot.planned.hash == planned.hash
            });
            let attach = match before.map(|at| old.swap_remove(at)) {
                Some(Slot {
                    unit: Some(unit), ..
                }) => handover(unit).await,
                Some(slot) => slot.attach,
                None => false,
            };
            self.slots.push(Slot {
                planned: Arc::new(planned),
                unit: None,
                attach,
            });
        }
        drop(old);
        self.plan = plan;
        self.board.plan(&self.plan);
        self.tell_units();
        if !self.stopped {
            self.board.overall(None);
        }
        false
    }

    pub(super) async fn mounted(&self) -> Result<Vec<PathBuf>, String> {
        let roots = self.plan.mount_roots(&self.shared.places);
        let all = self
            .shared
            .mount_points()
            .await
            .map_err(|failure| failure.message)?;
        Ok(all.below(&roots))
    }

    pub(super) fn see_mounts(&self, mounts: &watch::Receiver<Arc<Mounts>>) {
        let roots = self.plan.mount_roots(&self.shared.places);
        let found = mounts.borrow().below(&roots);
        self.board.mounts(found);
    }
}

/// Waits until the container runs or does not, and lets go of it: true when it runs.
async fn handover(unit: Unit) -> bool {
    let mut status = unit.daemon.status();
    let calm = |phase: Phase| {
        matches!(
            phase,
            Phase::Down | Phase::Pausing | Phase::Starting | Phase::Running
        )
    };
    let settled = status.wait_for(|status| calm(status.phase));
    if tokio::time::timeout(HANDOVER, settled).await.is_err() {
        tracing::warn!(container = %unit.core.planned.id, "still being launched");
    }
    matches!(unit.phase(), Phase::Starting | Phase::Running)
}
