//! What is not known: an engine that does not answer, an exit that was not told, a process that is held.

use std::time::Duration;

use longshore_engine::EngineError;

use super::{LATER, SOON};
use crate::publisher::chain;
use crate::state::{Init, Phase, State};
use crate::{Action, Ending, Held, labels};

impl State {
    /// The engine has answered, or has not.
    pub(super) fn heard(&mut self, error: Option<&EngineError>) {
        self.engine_silent = error.is_some_and(EngineError::is_engine_absent);
        let retried = error.filter(|error| error.is_retryable());
        self.problem = retried.map(|error| chain(error));
    }

    /// The container could not be looked at.
    pub(super) fn not_found(
        &mut self,
        error: &EngineError,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        if !error.is_no_such_container() {
            if !matches!(self.phase, Phase::Over(false) | Phase::Gone) {
                self.inspect_at = Some(now.saturating_add(LATER));
            }
            return;
        }
        match self.phase {
            Phase::Attaching { stage, rebooted } => {
                self.nothing_found(stage, rebooted, now, actions);
            }
            Phase::Creating(false) => {
                if let Some(conflict) = self.conflict.take() {
                    let under_way = !labels::is_stranger(error);
                    if under_way && now.saturating_add(LATER) < self.launch_by {
                        // Of a creation that is not finished: a predecessor's, or one that was not answered.
                        self.phase = Phase::Creating(true);
                        self.again(Action::Create, now);
                    } else {
                        self.end_uncreated(Ending::NotCreated(conflict), actions);
                    }
                } else if now >= self.launch_by {
                    let problem = "the engine did not answer for too long".to_owned();
                    self.end_uncreated(Ending::NotCreated(problem), actions);
                } else {
                    self.phase = Phase::Creating(true);
                    actions.push(Action::Create);
                }
            }
            Phase::Starting(_) | Phase::Running | Phase::Ended(_) => self.gone(now, actions),
            Phase::Over(true) => self.over(actions),
            _ => {}
        }
    }

    /// The subscription to the exit has an answer.
    pub(super) fn exited(
        &mut self,
        result: Result<i64, EngineError>,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        self.waiting = false;
        self.heard(result.as_ref().err());
        match result {
            Ok(code) => self.exit_told(Some(code), false, now, actions),
            // That says nothing about the container.
            Err(_) if self.phase == Phase::Running => {
                self.inspect_at = Some(now.saturating_add(SOON));
            }
            Err(_) => {}
        }
    }

    pub(super) fn held(&mut self, held: Held, now: Duration, actions: &mut Vec<Action>) {
        if self.init != Init::Asked {
            return;
        }
        match held {
            Held::Yes => self.init = Init::Held,
            Held::Ended => self.init_died(now, actions),
            Held::Impossible => {
                self.init = Init::Impossible;
                self.settle(now, actions);
            }
        }
    }

    /// The kernel says that the first process is dead, and with it the container.
    pub(super) fn init_died(&mut self, now: Duration, actions: &mut Vec<Action>) {
        if !matches!(self.init, Init::Asked | Init::Held) {
            return;
        }
        self.init = Init::Dead;
        match self.phase {
            Phase::Starting(_) | Phase::Running | Phase::Attaching { .. } => {
                if let Phase::Attaching { stage, .. } = self.phase {
                    self.kill_on_record(stage, now);
                }
                self.enter_ended(now, actions);
                self.inspect(actions);
            }
            Phase::Ended(_) => self.settle(now, actions),
            _ => {}
        }
    }

    /// What happens is not told for now.
    pub(super) fn events_missing(&mut self) {
        self.deaf = true;
        if let Phase::Ended(ended) = &mut self.phase {
            ended.missed = true;
        }
    }

    /// Events go on, and some may have been missed.
    pub(super) fn engine_resumed(&mut self, now: Duration, actions: &mut Vec<Action>) {
        self.engine_silent = false;
        self.deaf = false;
        if let Phase::Ended(ended) = &mut self.phase {
            ended.hear_again(now);
        }
        match self.phase {
            Phase::Running | Phase::Ended(_) | Phase::Attaching { .. } => self.inspect(actions),
            // What waits for its next attempt makes it now.
            _ => {
                if let Some((at, _)) = &mut self.again {
                    *at = now;
                }
            }
        }
    }
}
