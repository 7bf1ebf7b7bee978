//! While it runs: what is seen of it, and what its checks say.

use std::sync::Arc;
use std::time::Duration;

use longshore_health::{CheckStatus, HealthReport};
use longshore_mesos_api::v1::TaskState;

use super::{QUIET, QUIET_UNHELD, SOON};
use crate::state::{Init, Phase, Stage, State};
use crate::{Action, Condition, Found, Kill, KillCause, News};

/// How far the clock may have been set between the beginning of a run and the answer to its start, in nanoseconds.
const CLOCKS: i64 = 1_000_000_000;

impl State {
    /// This is how the container is.
    pub(super) fn found(&mut self, found: Found, now: Duration, actions: &mut Vec<Action>) {
        if found.stop_signal.is_some() {
            self.stop_signal.clone_from(&found.stop_signal);
        }
        match self.phase {
            Phase::Attaching { stage, .. } => self.found_again(stage, found, now, actions),
            Phase::Creating(false) | Phase::Starting(false) => {
                self.found_while_launching(&found, now, actions);
            }
            Phase::Starting(true) => self.hold(&found, actions),
            Phase::Running => self.found_running(&found, now, actions),
            Phase::Ended(_) => self.found_ended(&found, now, actions),
            // A creation that was given up, and took place all the same.
            Phase::Over(true) => {
                self.container = Some(found.id);
                self.over(actions);
            }
            _ => {}
        }
    }

    pub(super) fn found_running(
        &mut self,
        found: &Found,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        match found.condition {
            Condition::Running | Condition::Paused if self.is_another_run(found) => {
                self.restarted_by_other(now, actions);
            }
            Condition::Restarting => self.restarted_by_other(now, actions),
            Condition::Running | Condition::Paused => {
                self.run = found.run.or(self.run);
                self.details = Some(Arc::clone(&found.details));
                self.pid = found.pid;
                self.hold(found, actions);
                if !std::mem::replace(&mut self.waiting, true) {
                    actions.push(Action::Wait);
                }
                self.tell_running(actions);
                self.start_checks(actions);
                self.set_paused(found.condition == Condition::Paused, actions);
                self.kill_may_begin(now, actions);
                if self.inspect_at.is_none() {
                    let quiet = if self.init == Init::Impossible {
                        QUIET_UNHELD
                    } else {
                        QUIET
                    };
                    self.inspect_at = Some(now.saturating_add(quiet));
                }
            }
            // Not yet, although the start was answered.
            Condition::Created => self.inspect_at = Some(now.saturating_add(SOON)),
            Condition::Down | Condition::Removing => self.down(found, now, actions),
        }
    }

    /// Whether this is not the run that was launched.
    pub(super) fn is_another_run(&self, found: &Found) -> bool {
        match (self.run, self.started_by, found.run) {
            (Some(ours), _, Some(theirs)) => ours != theirs,
            (None, Some(by), Some(theirs)) => theirs > by.saturating_add(CLOCKS),
            _ => false,
        }
    }

    /// RUNNING, once; not when it is being killed already.
    pub(super) fn tell_running(&mut self, actions: &mut Vec<Action>) {
        self.running_by = None;
        if self.told_running || self.kill.is_some() {
            return;
        }
        self.told_running = true;
        self.tell(TaskState::TaskRunning, News::State, actions);
        actions.push(Action::Record(Stage::Running));
    }

    pub(super) fn start_checks(&mut self, actions: &mut Vec<Action>) {
        if self.plan.checks && self.kill.is_none() && !std::mem::replace(&mut self.checking, true) {
            actions.push(Action::StartChecks);
        }
    }

    pub(super) fn set_paused(&mut self, paused: bool, actions: &mut Vec<Action>) {
        if std::mem::replace(&mut self.paused, paused) == paused {
            return;
        }
        // What is frozen cannot answer, and that is nobody's fault.
        if self.checking && self.kill.is_none() {
            actions.push(if paused {
                Action::PauseChecks
            } else {
                Action::ResumeChecks
            });
        }
    }

    pub(super) fn health(
        &mut self,
        report: HealthReport,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        if self.phase != Phase::Running || self.kill.is_some() || self.paused {
            return;
        }
        self.healthy = Some(report.healthy);
        self.unhealthy.clone_from(&report.reason);
        self.tell(TaskState::TaskRunning, News::Health(report.reason), actions);
        if report.kill {
            let kill = Kill {
                cause: KillCause::Unhealthy,
                grace: None,
                signal: None,
                reason: None,
            };
            self.asked_to_kill(kill, now, actions);
        }
    }

    pub(super) fn checked(&mut self, status: CheckStatus, actions: &mut Vec<Action>) {
        if self.phase != Phase::Running || self.kill.is_some() || self.paused {
            return;
        }
        self.check = Some(status);
        self.tell(TaskState::TaskRunning, News::Check, actions);
    }

    /// Its time is over: no grace, and no KILLING.
    pub(super) fn out_of_time(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let kill = Kill {
            cause: KillCause::OutOfTime,
            grace: Some(Duration::ZERO),
            signal: None,
            reason: None,
        };
        self.asked_to_kill(kill, now, actions);
    }
}
