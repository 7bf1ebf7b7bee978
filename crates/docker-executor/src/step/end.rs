//! The end: verified, told once, cleaned up.

use std::sync::Arc;
use std::time::Duration;

use longshore_engine::EngineError;

use super::{ANSWER, DRAIN, LATER, SOON, STATUS};
use crate::state::{Ended, Init, Phase, Report, Stage, State};
use crate::{Action, Condition, Ending, Found, News, Update};

/// How long an init gets to be gone that the engine calls gone.
const LINGER: Duration = Duration::from_secs(2);
/// How long the engine's events get to tell who sent the signal that ended it, or that it ran out of memory.
const GOSSIP: Duration = Duration::from_millis(200);
/// The same where they are told once more after they could not be heard.
const REPEATED: Duration = Duration::from_secs(1);
/// When a report comes so long after the end, events may be as late.
const LATE: Duration = Duration::from_secs(1);
/// How long one look at what has ended may have no answer before another is taken: a call that hangs is not a silent engine.
const LOOK: Duration = Duration::from_secs(2);
/// What ends whatever runs out of memory. The engine may tell that after the exit, and then never in an inspection.
const KILLED: i64 = 128 + 9;

impl Ended {
    pub(crate) fn due(&self, init: Init, deaf: bool) -> Option<Duration> {
        if self.taking_down {
            return None;
        }
        [
            Some(self.hear_by).filter(|_| deaf),
            Some(self.look_again_at).filter(|_| self.report == Report::Nothing),
            Some(self.settle_by).filter(|_| self.report == Report::Nothing),
            Some(self.drain_by).filter(|_| !self.drained),
            Some(self.gossip_by).filter(|_| !self.heard_die),
            Some(self.finish_init_at).filter(|_| matches!(init, Init::Held)),
        ]
        .into_iter()
        .flatten()
        .filter(|at| *at > self.looked_at)
        .min()
    }

    /// Events are heard again, and those that were missed come first.
    pub(super) fn hear_again(&mut self, now: Duration) {
        self.gossip_by = now.saturating_add(REPEATED);
    }
}

impl State {
    /// It has ended, or is said to have: from now on that is looked into. A second time changes nothing.
    pub(super) fn enter_ended(&mut self, now: Duration, actions: &mut Vec<Action>) {
        if matches!(self.phase, Phase::Ended(_)) {
            return;
        }
        self.waiting = false;
        self.running_by = None;
        self.again = None;
        if std::mem::replace(&mut self.checking, false) {
            actions.push(Action::StopChecks);
        }
        if self.plan.logs && !std::mem::replace(&mut self.logging, true) {
            actions.push(Action::StartLogs);
        }
        if self.logging {
            actions.push(Action::DrainLogs);
        }
        self.phase = Phase::Ended(Ended {
            since: now,
            code: None,
            report: Report::Nothing,
            settle_by: now.saturating_add(STATUS),
            drained: !self.logging,
            drain_by: now.saturating_add(DRAIN),
            finish_init_at: now.saturating_add(LINGER),
            gossip_by: now.saturating_add(GOSSIP),
            heard_die: false,
            hear_by: now.saturating_add(ANSWER),
            missed: self.deaf,
            look_again_at: now.saturating_add(LOOK),
            answered: false,
            taking_down: false,
            looked_at: now,
        });
    }

    /// The engine has told that it exited.
    pub(super) fn exit_told(
        &mut self,
        code: Option<i64>,
        by_event: bool,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        if !self.may_run() && !matches!(self.phase, Phase::Ended(_)) {
            return;
        }
        self.enter_ended(now, actions);
        if let Phase::Ended(ended) = &mut self.phase {
            if by_event && code == Some(KILLED) {
                ended.gossip_by = now.saturating_add(GOSSIP);
            } else {
                ended.heard_die |= by_event;
            }
            if ended.code.is_none() && code.is_some() {
                ended.code = code;
                ended.settle_by = ended.settle_by.min(now.saturating_add(ANSWER));
            }
        }
        if self.report_is_missing() {
            self.inspect(actions);
        }
        self.settle(now, actions);
    }

    fn report_is_missing(&self) -> bool {
        matches!(&self.phase, Phase::Ended(ended) if ended.report == Report::Nothing)
    }

    /// The engine says that it is down.
    pub(super) fn down(&mut self, found: &Found, now: Duration, actions: &mut Vec<Action>) {
        if self.is_another_run(found) {
            self.others.restarted = true;
        }
        if found.condition == Condition::Removing {
            self.others.removed = true;
        }
        if self.details.is_none() {
            self.details = Some(Arc::clone(&found.details));
        }
        self.run = self.run.or(found.run);
        self.enter_ended(now, actions);
        self.report(
            Report::Down {
                code: found.code,
                out_of_memory: found.out_of_memory,
            },
            now,
            actions,
        );
    }

    /// There is no such container any more.
    pub(super) fn gone(&mut self, now: Duration, actions: &mut Vec<Action>) {
        self.enter_ended(now, actions);
        self.report(Report::Removed, now, actions);
    }

    fn report(&mut self, report: Report, now: Duration, actions: &mut Vec<Action>) {
        if let Phase::Ended(ended) = &mut self.phase {
            ended.report = report;
            if !ended.heard_die && now.saturating_sub(ended.since) >= LATE {
                // What tells of its end comes late, and so may what tells of who did it.
                ended.missed = true;
                ended.hear_again(now);
            }
            ended.finish_init_at = ended.finish_init_at.max(now.saturating_add(LINGER));
        }
        self.settle(now, actions);
    }

    /// Its exit was told, and this is what the engine says when it is looked at.
    pub(super) fn found_ended(&mut self, found: &Found, now: Duration, actions: &mut Vec<Action>) {
        if let Phase::Ended(ended) = &mut self.phase {
            ended.answered = true;
        }
        match found.condition {
            Condition::Down | Condition::Created | Condition::Removing => {
                self.down(found, now, actions);
            }
            Condition::Restarting => self.restarted_by_other(now, actions),
            Condition::Running | Condition::Paused if self.is_another_run(found) => {
                self.restarted_by_other(now, actions);
            }
            // The kernel knows better: the engine has not noticed yet, or never will.
            Condition::Running | Condition::Paused if self.init == Init::Dead => {
                self.inspect_at = Some(now.saturating_add(SOON));
            }
            // It goes on: a subscription that answers when an engine goes down tells no exit.
            Condition::Running | Condition::Paused => {
                self.phase = Phase::Running;
                self.found_running(found, now, actions);
                self.inspect_at = Some(now.saturating_add(LATER));
            }
        }
    }

    /// The last status goes out, when it is certain that nothing runs and it is known, or will not be known, how it ended.
    pub(super) fn settle(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let Phase::Ended(ended) = &mut self.phase else {
            return;
        };
        ended.looked_at = ended.looked_at.max(now);
        let reported = ended.report != Report::Nothing;
        let down = if ended.taking_down {
            ended.report == Report::Removed
        } else {
            match self.init {
                Init::Dead => true,
                Init::Held | Init::Asked => false,
                Init::Unknown | Init::Impossible => {
                    reported || (ended.code.is_some() && now >= ended.settle_by)
                }
            }
        };
        let known = reported || now >= ended.settle_by;
        let drained = ended.drained || now >= ended.drain_by;
        if !(down && known && drained) {
            return;
        }
        let ended = ended.clone();
        let code = match ended.report {
            Report::Down { code, .. } => Some(code),
            Report::Removed | Report::Nothing => ended.code,
        };
        let ending = self.ending_of(&ended, code);
        if self.may_be_explained(&ended, &ending, now) {
            return;
        }
        let ran = code.is_some() || self.init == Init::Dead || self.run.is_some();
        self.end(ending, ran, actions);
    }

    /// Whether events may still tell that what looks like an end of its own was somebody's doing.
    fn may_be_explained(&self, ended: &Ended, ending: &Ending, now: Duration) -> bool {
        match ending {
            Ending::Exited(_) | Ending::Signaled(_) if self.deaf => now < ended.hear_by,
            Ending::Exited(_) if !ended.missed => false,
            Ending::Exited(_) | Ending::Signaled(_) => {
                !ended.heard_die && !self.engine_silent && now < ended.gossip_by
            }
            _ => false,
        }
    }

    fn ending_of(&self, ended: &Ended, code: Option<i64>) -> Ending {
        if self.kill.is_some() {
            return self.killed_ending(code);
        }
        let others = &self.others;
        if others.restarted {
            return Ending::RestartedByOther;
        }
        if others.removed || ended.report == Report::Removed {
            return Ending::RemovedByOther(code);
        }
        let Some(known) = code else {
            return if self.engine_silent || !ended.answered {
                Ending::EngineGone
            } else {
                Ending::ExitMissed
            };
        };
        let out_of_memory = others.out_of_memory
            || matches!(
                ended.report,
                Report::Down {
                    out_of_memory: true,
                    ..
                }
            );
        if out_of_memory && known != 0 {
            return Ending::OutOfMemory(code);
        }
        if others.has_stopped_it(known, ended.since) {
            let signal = others.signal.map(|(signal, _)| signal);
            return Ending::StoppedByOther { signal, code };
        }
        Ending::of_code(known)
    }

    /// The last status, and what comes after it. `ran`: it was started.
    pub(crate) fn end(&mut self, ending: Ending, ran: bool, actions: &mut Vec<Action>) {
        if self.is_over() {
            return;
        }
        if ran {
            // It ran, so that is told first.
            self.tell_running(actions);
        }
        if std::mem::replace(&mut self.checking, false) {
            actions.push(Action::StopChecks);
        }
        let unhealthy = matches!(ending, Ending::Unhealthy { .. });
        actions.push(Action::Tell(Box::new(Update {
            state: ending.state(),
            healthy: if unhealthy { Some(false) } else { self.healthy },
            news: News::Ended(ending),
            check: self.check,
            details: None,
        })));
        actions.push(Action::Record(Stage::Over));
        // A creation that waits for its next attempt is not under way.
        let creating = self.phase == Phase::Creating(true) && self.again.is_none();
        let looking = self.phase == Phase::Creating(false);
        (self.completion_at, self.running_by, self.inspect_at) = (None, None, None);
        self.again = None;
        self.kill = None;
        self.phase = Phase::Over(creating || looking);
        if looking {
            self.inspect(actions);
        } else if !creating {
            self.remove_or_finish(actions);
        }
    }

    /// Whatever was made of the container is known now.
    pub(super) fn over(&mut self, actions: &mut Vec<Action>) {
        self.phase = Phase::Over(false);
        self.remove_or_finish(actions);
    }

    pub(crate) fn remove_or_finish(&mut self, actions: &mut Vec<Action>) {
        if self.container.is_some() && self.plan.remove {
            actions.push(Action::Remove);
        } else {
            self.phase = Phase::Gone;
            actions.push(Action::Finish);
        }
    }

    pub(super) fn removed(
        &mut self,
        result: Result<(), EngineError>,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        self.heard(result.as_ref().err());
        let removed = match &result {
            Ok(()) => true,
            Err(error) => error.is_no_such_container(),
        };
        match &self.phase {
            Phase::Over(_) if removed => {
                self.phase = Phase::Gone;
                actions.push(Action::Finish);
            }
            Phase::Ended(ended) if ended.taking_down && removed => self.gone(now, actions),
            Phase::Over(_) | Phase::Ended(_) => {
                // Twice as late each time, up to a minute.
                let wait = LATER * 2_u32.pow(self.remove_tries.min(6));
                self.remove_tries = self.remove_tries.saturating_add(1);
                let wait = wait.min(Duration::from_secs(60));
                self.again = Some((now.saturating_add(wait), Action::Remove));
            }
            _ => {}
        }
    }

    pub(super) fn end_timers(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let Phase::Ended(ended) = &mut self.phase else {
            return;
        };
        if ended.report == Report::Nothing && !ended.taking_down && now >= ended.look_again_at {
            ended.look_again_at = now.saturating_add(LOOK);
            actions.push(Action::Inspect);
        }
        let says_down = ended.report != Report::Nothing || ended.code.is_some();
        if self.init == Init::Held && now >= ended.finish_init_at {
            ended.finish_init_at = now.saturating_add(LINGER);
            if says_down {
                actions.push(Action::SignalInit("SIGKILL".to_owned()));
            }
        }
        self.settle(now, actions);
    }
}
