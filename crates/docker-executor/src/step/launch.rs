//! From the intent to the start.

use std::time::Duration;

use longshore_engine::EngineError;
use longshore_mesos_api::v1::TaskState;

use super::{ANSWER, LATER};
use crate::state::{Phase, Stage, State};
use crate::{Action, Condition, CreateFailure, Ending, Found, KillCause, News, PulledImage};

/// What docker exits with when it is not the program's fault.
const UNKNOWN: u8 = 125;
const KILL: &str = "SIGKILL";

impl State {
    /// The intent is on disk: the launch is known. Or it is on disk that the container may run from now on.
    pub(super) fn recorded(&mut self, result: Result<(), String>, actions: &mut Vec<Action>) {
        match (&self.phase, result) {
            (Phase::Recording, Ok(())) => {
                self.tell(TaskState::TaskStarting, News::State, actions);
                self.phase = Phase::Pulling;
                actions.push(Action::Pull);
            }
            (Phase::Marking, Ok(())) => {
                self.phase = Phase::Starting(true);
                actions.push(Action::Start);
            }
            (Phase::Recording | Phase::Marking, Err(problem)) => {
                self.end(Ending::NotRecorded(problem), false, actions);
            }
            _ => {}
        }
    }

    pub(super) fn pulled(
        &mut self,
        result: Result<PulledImage, EngineError>,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        if self.phase != Phase::Pulling {
            return;
        }
        self.heard(result.as_ref().err());
        match result {
            Ok(image) => {
                self.stop_signal = image.stop_signal;
                self.phase = Phase::Creating(true);
                actions.push(Action::Create);
            }
            Err(error) if self.may_try_again(&error, now) => self.again(Action::Pull, now),
            Err(error) if error.is_no_such_image() => {
                self.end(Ending::ImageMissing(error.to_string()), false, actions);
            }
            Err(error) => self.end(Ending::PullFailed(error.to_string()), false, actions),
        }
    }

    pub(super) fn created(
        &mut self,
        result: Result<String, CreateFailure>,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        let error = match result {
            Ok(id) => {
                self.heard(None);
                self.container = Some(id);
                match self.phase {
                    Phase::Creating(_) => self.mark(actions),
                    // It was killed meanwhile.
                    Phase::Over(true) => self.over(actions),
                    _ => {}
                }
                return;
            }
            Err(CreateFailure::Hook(problem)) => {
                if matches!(self.phase, Phase::Creating(_)) {
                    self.end_uncreated(Ending::NotWanted(problem), actions);
                } else if matches!(self.phase, Phase::Over(true)) {
                    self.over(actions);
                }
                return;
            }
            Err(CreateFailure::Engine(error)) => error,
        };
        self.heard(Some(&error));
        let lost = matches!(
            error,
            EngineError::Gone { .. } | EngineError::Timeout { .. }
        ) || matches!(error, EngineError::Conflict { .. });
        match self.phase {
            // It may be there all the same; a name that is taken may be our own container's.
            Phase::Creating(true) if lost => {
                self.phase = Phase::Creating(false);
                self.conflict =
                    matches!(error, EngineError::Conflict { .. }).then(|| error.to_string());
                self.inspect(actions);
            }
            Phase::Creating(_) if self.may_try_again(&error, now) => {
                self.again(Action::Create, now);
            }
            Phase::Creating(_) if error.is_no_such_image() => {
                self.end_uncreated(Ending::ImageMissing(error.to_string()), actions);
            }
            Phase::Creating(_) => {
                self.end_uncreated(Ending::NotCreated(error.to_string()), actions);
            }
            Phase::Over(true) if lost => self.inspect(actions),
            Phase::Over(true) => self.over(actions),
            _ => {}
        }
    }

    /// There is no container, and none will come.
    pub(super) fn end_uncreated(&mut self, ending: Ending, actions: &mut Vec<Action>) {
        self.phase = Phase::Recording;
        self.end(ending, false, actions);
    }

    /// From now on it may run: on disk first.
    pub(super) fn mark(&mut self, actions: &mut Vec<Action>) {
        self.phase = Phase::Marking;
        actions.push(Action::Record(Stage::Starting));
    }

    pub(super) fn started(
        &mut self,
        result: Result<i64, EngineError>,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        if !matches!(self.phase, Phase::Starting(_)) {
            return;
        }
        self.heard(result.as_ref().err());
        match result {
            Ok(at) => {
                // On record at once: which run it is may be asked for by a successor.
                self.started_by = Some(at);
                // It may have been asked to end meanwhile, or be another run already: that stays on record.
                let stage = match &self.kill {
                    Some(kill) => kill.stage_on_record(),
                    None if self.others.restarted => Stage::Killing(KillCause::Restarted),
                    None => Stage::Starting,
                };
                actions.push(Action::Record(stage));
                self.waiting = true;
                self.runs(now, actions);
            }
            Err(EngineError::NotModified { .. }) => {
                self.waiting = true;
                self.runs(now, actions);
            }
            // It may or may not have been started.
            Err(error) if error.is_engine_absent() => {
                self.phase = Phase::Starting(false);
                self.inspect(actions);
            }
            Err(error) if error.is_no_such_container() => {
                self.gone(now, actions);
            }
            Err(error) => {
                self.refused_by_engine(error.start_exit_code(), error.to_string(), actions);
            }
        }
    }

    /// The engine did not start it. One that was killed in the middle of a start, and has come back, may know nothing of a
    /// process that runs all the same; of a program that cannot be run there is none.
    fn refused_by_engine(&mut self, code: u8, problem: String, actions: &mut Vec<Action>) {
        self.phase = Phase::Refused(Ending::NotStarted { code, problem });
        if code == UNKNOWN {
            actions.push(Action::Sweep);
        } else {
            self.swept(actions);
        }
    }

    pub(super) fn swept(&mut self, actions: &mut Vec<Action>) {
        let Phase::Refused(ending) = &self.phase else {
            return;
        };
        if self.kill.is_some() {
            self.end_killed(actions);
        } else {
            self.end(ending.clone(), false, actions);
        }
    }

    /// It was started, by the engine's word.
    pub(super) fn runs(&mut self, now: Duration, actions: &mut Vec<Action>) {
        self.phase = Phase::Running;
        if self.plan.logs && !std::mem::replace(&mut self.logging, true) {
            actions.push(Action::StartLogs);
        }
        if !self.told_running {
            self.running_by = Some(now.saturating_add(ANSWER));
        }
        self.inspect(actions);
        self.kill_may_begin(now, actions);
    }

    /// The answer of a creation or a start was lost, and this is what is there.
    pub(super) fn found_while_launching(
        &mut self,
        found: &Found,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        self.container = Some(found.id.clone());
        match (&self.phase, found.condition) {
            (Phase::Creating(_), _) => self.mark(actions),
            (_, Condition::Created) if !found.error.is_empty() => {
                // Its start failed, and only the words are left.
                let error = EngineError::Status {
                    call: "start",
                    subject: found.id.clone(),
                    status: 500,
                    message: found.error.clone(),
                };
                self.refused_by_engine(error.start_exit_code(), found.error.clone(), actions);
            }
            // The start that was not answered may still take place, or have taken place without the engine's knowledge.
            (_, Condition::Created) if self.kill.is_some() => {
                actions.push(Action::SignalInit(KILL.to_owned()));
                self.take_down(now, actions);
            }
            (_, Condition::Created) if now >= self.launch_by => {
                let problem = "the engine did not answer for too long".to_owned();
                let ending = Ending::NotStarted { code: 125, problem };
                self.end(ending, false, actions);
            }
            (_, Condition::Created) => {
                self.phase = Phase::Starting(true);
                self.again(Action::Start, now);
            }
            (_, Condition::Running | Condition::Paused | Condition::Restarting) => {
                self.runs(now, actions);
            }
            (_, Condition::Down | Condition::Removing) => self.down(found, now, actions),
        }
    }

    /// Nobody answers, and there is patience left.
    fn may_try_again(&self, error: &EngineError, now: Duration) -> bool {
        error.is_retryable() && now.saturating_add(LATER) < self.launch_by
    }

    pub(super) fn again(&mut self, action: Action, now: Duration) {
        self.again = Some((now.saturating_add(LATER), action));
    }
}
