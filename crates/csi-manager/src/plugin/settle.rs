//! What recovery found of the plugin, carried out.

use std::sync::Arc;

use tokio::task::JoinSet;

use super::{Pending, PluginTask, Slot};
use crate::plan::{Kind, Planned};
use crate::record::ContainerRecord;
use crate::recover::Verdict;
use crate::recovery::{self, Finding, Findings};
use crate::retire::{Retired, retire};
use crate::status::PluginState;
use crate::unmanaged;

impl PluginTask {
    pub(super) async fn settle(&mut self, found: Findings) {
        if let Kind::Unmanaged(_) = self.plan.kind {
            self.board.units(unmanaged::identities(&self.plan));
            return;
        }
        let mut found = found;
        let (findings, planned) = loop {
            match found {
                Findings::Found { findings, planned } => break (findings, planned),
                Findings::Look => {}
                Findings::Failed(reason) => {
                    self.board.overall(Some((PluginState::Failing, &reason)));
                    tokio::time::sleep(recovery::RETRY).await;
                }
            }
            found = Box::pin(recovery::look(&self.shared, &self.plan)).await;
        };
        let slot = |planned| Slot {
            planned: Arc::new(planned),
            unit: None,
            attach: false,
        };
        self.slots = planned.into_iter().map(slot).collect();
        let mut jobs = JoinSet::new();
        let mut later = false;
        for finding in findings {
            later |= self.judge(finding, &mut jobs).await;
        }
        if !jobs.is_empty() {
            let why = "stopping what an earlier configuration left";
            self.board.overall(Some((PluginState::Stopping, why)));
            jobs.join_all().await;
        }
        self.board.overall(None);
        self.tell_units();
        if later && self.pending.is_none() {
            self.pending = Some(Pending::Change(Arc::clone(&self.plan)));
        }
        if self.pending.is_some() && Box::pin(self.proceed(false)).await {
            // Only a removal is done, and none is pending before the first command.
            self.board.overall(None);
        }
    }

    /// One row of the table; true when it has to wait for a mount.
    pub(super) async fn judge(&mut self, finding: Finding, jobs: &mut JoinSet<()>) -> bool {
        let Finding {
            id,
            verdict,
            record,
            retired,
        } = finding;
        let slot = self.slots.iter().position(|slot| slot.planned.id == id);
        tracing::info!(plugin = self.plan.name(), container = %id, ?verdict, "recovery");
        match verdict {
            Verdict::Keep => {
                if let Some(slot) = slot {
                    self.slots[slot].attach = true;
                }
            }
            Verdict::Adopt => {
                if let Some(slot) = slot {
                    self.slots[slot].attach = true;
                    let unit = self.unit(slot);
                    if let Err(failure) = unit.core.adopt().await {
                        tracing::warn!(container = %id, failure.message, "adopted without a record");
                    }
                }
            }
            Verdict::Stop(_) | Verdict::AwaitEnd | Verdict::CleanFiles => {
                let Some(mut retired) = retired else {
                    return false;
                };
                retired.running = matches!(verdict, Verdict::Stop(_));
                retired.ending = verdict == Verdict::AwaitEnd;
                if retired.user.is_none() {
                    retired.user = slot.and_then(|slot| self.slots[slot].planned.user());
                }
                jobs.spawn(Box::pin(retire(Arc::clone(&self.shared), *retired)));
            }
            Verdict::StopLater(why) => {
                if let Some(retired) = retired {
                    self.keep(slot, record, *retired, why);
                }
                return true;
            }
            Verdict::Stray(_) => {}
        }
        false
    }

    /// What is to be stopped later goes on as its record says, where there is one.
    pub(super) fn keep(
        &mut self,
        slot: Option<usize>,
        record: Option<Box<ContainerRecord>>,
        mut retired: Retired,
        why: &str,
    ) {
        tracing::warn!(container = %retired.id, why, "kept, since a volume is mounted");
        let old = record.and_then(|record| Planned::of_record(*record, &self.shared.places));
        match (slot, old) {
            (Some(slot), Some(old)) => {
                self.slots[slot] = Slot {
                    planned: Arc::new(old),
                    unit: None,
                    attach: true,
                };
            }
            (Some(slot), None) => {
                let unknown = self.slots[slot]
                    .planned
                    .with_unknown_hash(&self.shared.places);
                self.slots[slot] = Slot {
                    planned: Arc::new(unknown),
                    unit: None,
                    attach: true,
                };
            }
            (None, _) => {
                retired.running = true;
                self.strays.push(retired);
            }
        }
    }
}
