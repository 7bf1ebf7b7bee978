//! After a restart of ours: what the record says, and what the container does.
//!
//! | on record | no container | created | runs, frozen | restarting | exited |
//! |---|---|---|---|---|---|
//! | intended | launched; after a reboot FAILED | started | goes on | taken down | its exit |
//! | starting | FAILED, removed by others | started | goes on | taken down | its exit |
//! | running | FAILED, removed by others | FAILED, restarted by others | goes on; another run: taken down | taken down | its exit |
//! | killing | KILLED | KILLED | killed on | taken down, KILLED | KILLED |
//! | over | nothing | removed | removed | removed | removed |
//!
//! While the engine does not answer, the state is what it was; only the death of the recorded process ends that.

use std::time::Duration;

use crate::state::{Phase, Stage, State};
use crate::{Action, Condition, Ending, Found};

impl State {
    pub(super) fn kill_on_record(&mut self, stage: Stage, now: Duration) {
        if let Stage::Killing(cause) = stage {
            self.kill_again(cause, now);
        }
    }

    /// The container is there.
    pub(super) fn found_again(
        &mut self,
        stage: Stage,
        found: Found,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        self.container = Some(found.id.clone());
        self.kill_on_record(stage, now);
        match found.condition {
            Condition::Created => match stage {
                _ if self.kill.is_some() => self.end_killed(actions),
                Stage::Intended | Stage::Starting if found.error.is_empty() => self.mark(actions),
                Stage::Intended | Stage::Starting => {
                    self.phase = Phase::Starting(false);
                    self.found_while_launching(&found, now, actions);
                }
                _ => self.end(Ending::RestartedByOther, false, actions),
            },
            Condition::Running | Condition::Paused | Condition::Restarting => {
                self.goes_on(&found, now, actions);
            }
            Condition::Down | Condition::Removing => {
                // What it wrote before is read still.
                self.down(&found, now, actions);
            }
        }
    }

    fn goes_on(&mut self, found: &Found, now: Duration, actions: &mut Vec<Action>) {
        self.phase = Phase::Running;
        if self.plan.logs && !std::mem::replace(&mut self.logging, true) {
            actions.push(Action::StartLogs);
        }
        self.found_running(found, now, actions);
    }

    /// There is no container.
    pub(super) fn nothing_found(
        &mut self,
        stage: Stage,
        rebooted: bool,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        self.kill_on_record(stage, now);
        match stage {
            _ if self.kill.is_some() => self.end_killed(actions),
            Stage::Intended if rebooted => self.end(Ending::Rebooted, false, actions),
            Stage::Intended => {
                self.phase = Phase::Pulling;
                self.container = None;
                actions.push(Action::Pull);
            }
            _ => {
                self.container = None;
                self.end(Ending::RemovedByOther(None), false, actions);
            }
        }
    }
}
