//! A kill, from the wish to the verified end.
//!
//! ```text
//!   Waiting ──► Thawing ──► Signalled ── grace over ──► Killed ──┐ every 5 s, until it is down
//!   start's     if frozen   the stop signal            KILL      │
//!   answer                                               ▲───────┘
//! ```
//!
//! Each goes through the engine; when that does not answer within 5 s, or cannot be reached, the same signal goes to the
//! init by its pidfd. A later wish can only shorten the grace.

use std::time::Duration;

use longshore_engine::EngineError;
use longshore_mesos_api::v1::TaskState;

use super::{ANSWER, LATER, SOON};
use crate::state::{Phase, RecordedKill, Stage, State};
use crate::{Action, Ending, Kill, KillCause, News};

/// What a container without a stop signal is sent.
const TERM: &str = "SIGTERM";
const KILL: &str = "SIGKILL";
/// How many signals of ours may be untold.
const MAX_SENT: usize = 16;

/// A kill under way.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Killing {
    pub(crate) cause: KillCause,
    signal: Option<String>,
    grace: Duration,
    stage: KillStage,
}

#[derive(Clone, Debug, PartialEq)]
enum KillStage {
    /// It is not known yet whether it runs.
    Waiting {
        until: Duration,
    },
    Thawing {
        until: Duration,
    },
    Signalled {
        kill_at: Duration,
        answer_by: Option<Duration>,
        again_at: Option<Duration>,
    },
    Killed {
        answer_by: Option<Duration>,
        again_at: Duration,
    },
}

impl Killing {
    /// What is left of its grace.
    fn left(&self, now: Duration) -> Duration {
        match &self.stage {
            KillStage::Waiting { .. } | KillStage::Thawing { .. } => self.grace,
            KillStage::Signalled { kill_at, .. } => kill_at.saturating_sub(now),
            KillStage::Killed { .. } => Duration::ZERO,
        }
    }

    /// How far a task that is being killed is, for its record.
    pub(super) fn stage_on_record(&self) -> Stage {
        Stage::Killing(match self.cause {
            KillCause::Evicted => KillCause::Asked,
            cause => cause,
        })
    }

    /// What the record keeps of it.
    pub(crate) fn for_record(&self, now: Duration) -> RecordedKill {
        RecordedKill {
            left: self.left(now),
            signal: self.signal.clone(),
        }
    }

    pub(crate) fn due(&self) -> Option<Duration> {
        match &self.stage {
            KillStage::Waiting { until } | KillStage::Thawing { until } => Some(*until),
            KillStage::Signalled {
                kill_at,
                answer_by,
                again_at,
            } => [Some(*kill_at), *answer_by, *again_at]
                .into_iter()
                .flatten()
                .min(),
            KillStage::Killed {
                answer_by,
                again_at,
            } => Some(answer_by.map_or(*again_at, |by| by.min(*again_at))),
        }
    }
}

impl State {
    pub(super) fn asked_to_kill(&mut self, kill: Kill, now: Duration, actions: &mut Vec<Action>) {
        let grace = kill.grace.unwrap_or(self.plan.grace);
        if let Some(killing) = &mut self.kill {
            let shorter = grace < killing.left(now);
            killing.grace = killing.grace.min(grace);
            let stage = killing.stage_on_record();
            self.shorten(grace, now, actions);
            let over = matches!(self.phase, Phase::Ended(_) | Phase::Over(_) | Phase::Gone);
            if shorter && !over {
                actions.push(Action::Record(stage));
            }
            return;
        }
        match self.phase {
            // It has ended by itself; that is the answer.
            Phase::Ended(_) | Phase::Over(_) | Phase::Gone => return,
            _ => {}
        }
        self.completion_at = None;
        self.evicted = kill.reason.unwrap_or_default();
        let killing = Killing {
            cause: kill.cause,
            signal: kill.signal.or_else(|| self.plan.signal.clone()),
            grace,
            stage: KillStage::Waiting {
                until: now.saturating_add(ANSWER),
            },
        };
        let stage = killing.stage_on_record();
        self.kill = Some(killing);
        match self.phase {
            Phase::Recording | Phase::Pulling | Phase::Creating(_) | Phase::Marking => {
                if self.phase == Phase::Pulling {
                    actions.push(Action::CancelPull);
                }
                self.end_killed(actions);
            }
            _ => {
                if self.checking {
                    actions.push(Action::PauseChecks);
                }
                actions.push(Action::Record(stage));
                if self.plan.tell_killing && kill.cause != KillCause::OutOfTime {
                    self.tell(TaskState::TaskKilling, News::State, actions);
                }
                self.kill_may_begin(now, actions);
            }
        }
    }

    /// A kill that waited for the container to run goes on.
    pub(super) fn kill_may_begin(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let waits = matches!(
            self.kill,
            Some(Killing {
                stage: KillStage::Waiting { .. },
                ..
            })
        );
        if waits && self.phase == Phase::Running {
            self.begin_kill(now, actions);
        }
    }

    fn begin_kill(&mut self, now: Duration, actions: &mut Vec<Action>) {
        if self.paused {
            self.set_kill_stage(KillStage::Thawing {
                until: now.saturating_add(ANSWER),
            });
            actions.push(Action::Unpause);
        } else {
            self.send_stop_signal(now, actions);
        }
    }

    pub(super) fn unpaused(
        &mut self,
        result: Result<(), EngineError>,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        self.heard(result.as_ref().err());
        if result.is_ok() {
            self.paused = false;
        }
        if matches!(&self.kill, Some(killing) if matches!(killing.stage, KillStage::Thawing { .. }))
        {
            self.send_stop_signal(now, actions);
        }
    }

    fn set_kill_stage(&mut self, stage: KillStage) {
        if let Some(killing) = &mut self.kill {
            killing.stage = stage;
        }
    }

    fn stop_signal(&self) -> String {
        let asked = self.kill.as_ref().and_then(|kill| kill.signal.clone());
        asked
            .or_else(|| self.stop_signal.clone())
            .unwrap_or_else(|| TERM.to_owned())
    }

    fn send_stop_signal(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let Some(killing) = &self.kill else {
            return;
        };
        let grace = killing.grace;
        if grace.is_zero() {
            self.send_kill(now, actions);
            return;
        }
        let signal = self.stop_signal();
        self.set_kill_stage(KillStage::Signalled {
            kill_at: now.saturating_add(grace),
            answer_by: Some(now.saturating_add(ANSWER)),
            again_at: None,
        });
        actions.push(Action::Signal(signal));
    }

    fn send_kill(&mut self, now: Duration, actions: &mut Vec<Action>) {
        self.set_kill_stage(KillStage::Killed {
            answer_by: Some(now.saturating_add(ANSWER)),
            again_at: now.saturating_add(ANSWER + LATER),
        });
        if self.paused {
            actions.push(Action::Unpause);
        }
        actions.push(Action::Signal(KILL.to_owned()));
        if self.engine_silent {
            actions.push(Action::SignalInit(KILL.to_owned()));
        }
    }

    /// Another wish while one is under way.
    fn shorten(&mut self, grace: Duration, now: Duration, actions: &mut Vec<Action>) {
        let Some(killing) = &mut self.kill else {
            return;
        };
        let KillStage::Signalled { kill_at, .. } = &mut killing.stage else {
            return;
        };
        *kill_at = (*kill_at).min(now.saturating_add(grace));
        if *kill_at <= now {
            self.send_kill(now, actions);
        }
    }

    pub(super) fn signalled(
        &mut self,
        signal: &str,
        result: Result<(), EngineError>,
        now: Duration,
        actions: &mut Vec<Action>,
    ) {
        self.heard(result.as_ref().err());
        let Some(killing) = &mut self.kill else {
            return;
        };
        if !matches!(
            self.phase,
            Phase::Starting(_) | Phase::Running | Phase::Attaching { .. }
        ) {
            return;
        }
        let is_kill = signal == KILL;
        let (answer_by, again_at) = match &mut killing.stage {
            KillStage::Signalled {
                answer_by,
                again_at,
                ..
            } if !is_kill => (answer_by, again_at),
            KillStage::Killed {
                answer_by,
                again_at,
            } if is_kill => {
                *answer_by = None;
                if result
                    .as_ref()
                    .is_err_and(|error| !error.is_engine_absent())
                {
                    *again_at = (*again_at).min(now.saturating_add(LATER));
                }
                match result {
                    Ok(()) => self.inspect_at = Some(now.saturating_add(SOON)),
                    Err(error) if error.is_engine_absent() => {
                        actions.push(Action::SignalInit(KILL.to_owned()));
                    }
                    Err(_) => self.inspect(actions),
                }
                return;
            }
            // The answer to a signal that a later one has overtaken.
            _ => return,
        };
        *answer_by = None;
        match result {
            Ok(()) => {}
            Err(error) if error.is_engine_absent() => {
                actions.push(Action::SignalInit(signal.to_owned()));
            }
            Err(error) if error.is_retryable() => {
                *again_at = Some(now.saturating_add(LATER));
            }
            // It does not run, or is not there.
            Err(error) if matches!(error.status(), Some(404 | 409)) => self.inspect(actions),
            // The engine does not take this signal.
            Err(_) if signal != TERM => {
                killing.signal = Some(TERM.to_owned());
                actions.push(Action::Signal(TERM.to_owned()));
            }
            Err(_) => self.send_kill(now, actions),
        }
    }

    pub(super) fn kill_timers(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let Some(killing) = &mut self.kill else {
            return;
        };
        let is_due = |at: Option<Duration>| at.is_some_and(|at| at <= now);
        match &mut killing.stage {
            KillStage::Waiting { until } if *until <= now => {
                // The start is not answered: if it took place, this is how it is undone.
                self.engine_silent = true;
                let signal = self.stop_signal();
                self.send_stop_signal(now, actions);
                if !matches!(
                    self.kill.as_ref().map(|kill| &kill.stage),
                    Some(KillStage::Killed { .. })
                ) {
                    actions.push(Action::SignalInit(signal));
                }
                self.inspect(actions);
            }
            KillStage::Thawing { until } if *until <= now => {
                self.engine_silent = true;
                self.send_stop_signal(now, actions);
            }
            KillStage::Signalled { kill_at, .. } if *kill_at <= now => {
                self.send_kill(now, actions);
            }
            KillStage::Signalled { answer_by, .. } if is_due(*answer_by) => {
                *answer_by = None;
                self.engine_silent = true;
                let signal = self.stop_signal();
                actions.push(Action::SignalInit(signal));
            }
            KillStage::Signalled { again_at, .. } if is_due(*again_at) => {
                *again_at = None;
                let signal = self.stop_signal();
                actions.push(Action::Signal(signal));
            }
            KillStage::Killed { answer_by, .. } if is_due(*answer_by) => {
                *answer_by = None;
                self.engine_silent = true;
                actions.push(Action::SignalInit(KILL.to_owned()));
            }
            KillStage::Killed { again_at, .. } if *again_at <= now => {
                self.send_kill(now, actions);
                self.inspect(actions);
            }
            _ => {}
        }
    }

    /// A signal that is no kill. One that is under way needs no other.
    pub(super) fn send_signal(&mut self, signal: String, actions: &mut Vec<Action>) {
        if self.phase != Phase::Running || self.kill.is_some() {
            return;
        }
        if let Some(number) = crate::processes::number_of(&signal) {
            self.others.sent_by_us.push(number);
            // The engine tells each; what it does not tell is not remembered for ever.
            if self.others.sent_by_us.len() > MAX_SENT {
                self.others.sent_by_us.remove(0);
            }
        }
        actions.push(Action::Signal(signal));
    }

    /// It was killed before it ran.
    pub(super) fn end_killed(&mut self, actions: &mut Vec<Action>) {
        let ending = self.killed_ending(None);
        self.end(ending, false, actions);
    }

    /// How a task ends that is being killed.
    pub(super) fn killed_ending(&self, code: Option<i64>) -> Ending {
        let cause = self
            .kill
            .as_ref()
            .map_or(KillCause::Asked, |kill| kill.cause);
        match cause {
            KillCause::Asked | KillCause::Shutdown => Ending::Killed {
                during_launch: !self.told_running && code.is_none(),
                code,
            },
            KillCause::Unhealthy => Ending::Unhealthy {
                problem: self.unhealthy.clone(),
                code,
            },
            KillCause::OutOfTime => Ending::OutOfTime(code),
            KillCause::Restarted => Ending::RestartedByOther,
            KillCause::Evicted => Ending::Evicted {
                reason: self.evicted.clone(),
                code,
            },
        }
    }

    /// A kill that is on record goes on where it was.
    pub(super) fn kill_again(&mut self, cause: KillCause, now: Duration) {
        let recorded = self.recorded_kill.take().unwrap_or_else(|| RecordedKill {
            left: self.plan.grace,
            signal: self.plan.signal.clone(),
        });
        self.kill.get_or_insert(Killing {
            cause,
            signal: recorded.signal,
            grace: recorded.left,
            stage: KillStage::Waiting {
                until: now.saturating_add(ANSWER),
            },
        });
    }
}
