//! What is done about one declared task: pure, no clock, no I/O.
//!
//! ```text
//!              needs, hold, due                      ended: closed on record
//!   idle ─────────────────────> Record, Launch(N) ──> alive ─────────────────> idle
//!     │ stopped, done, lost: until somebody asks        │ stopped, replaced, leaving: Stop(N)
//!     └ leaving: Forget
//! ```
//!
//! The driver performs the actions in their order. A `Record` that fails drops the launch behind it, and is told as
//! [`Event::NotRecorded`]; what else follows it is done all the same.

use std::collections::VecDeque;
use std::time::Duration;

use longshore_backoff::{Restart, RestartPolicy, RestartState};
use serde::{Deserialize, Serialize};

/// So many attempts are on record.
pub(crate) const HISTORY: usize = 32;
/// So many attempts, the newest included, keep their status and output.
pub(crate) const KEPT: u64 = 5;

/// When a task that has ended is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Rule {
    /// Never: it runs once.
    No,
    /// When it has not exited with 0 by itself.
    OnFailure,
    /// Always.
    Always,
}

/// A moment: since 1970, and a random number in `0.0..1.0` for jitter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// Since 1970.
    pub now: Duration,
    /// From 0 to 1.
    pub random: f64,
}

/// How an attempt has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Since 1970.
    pub at: Duration,
    /// It did not exit with 0 by itself.
    pub failed: bool,
    /// As a command line would exit.
    pub exit_code: u8,
    /// One word.
    pub ending: String,
    /// One line for a person.
    pub message: String,
}

/// One start of the task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// From 1 on.
    pub number: u64,
    /// Of which generation of the declaration.
    pub generation: u64,
    /// When it was wanted, since 1970.
    pub began: Duration,
    /// Open until it has ended.
    pub end: Option<End>,
}

/// What a recovery has found of the attempt that is open on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It was never launched; or none is open.
    Nothing,
    /// It has not ended.
    Alive,
    /// It has.
    Ended(End),
    /// It cannot be told, and why: nothing is started beside what may run.
    Unclear(String),
}

/// What happens to a declared task.
#[derive(Clone, Debug, PartialEq)]
pub enum Event {
    /// The first one, after a recovery.
    Found(Found),
    /// It is wanted otherwise. `replace`: what runs is another one now.
    Changed {
        /// The new rule.
        rule: Rule,
        /// Whether a new generation begins.
        replace: bool,
    },
    /// It is not wanted any more.
    Left,
    /// An operator stops it.
    Stop,
    /// An operator starts it.
    Start,
    /// What it needs and is not there.
    Needs(Option<String>),
    /// Why nothing may be started.
    Held(Option<String>),
    /// An attempt has ended, or was refused.
    Ended {
        /// Which.
        number: u64,
        /// How.
        end: End,
    },
    /// The intent before a launch could not be put on record.
    NotRecorded(String),
    /// Time has passed.
    Tick,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Put the state on record, power-durably.
    Record,
    /// Launch this attempt.
    Launch(u64),
    /// End this attempt with its grace.
    Stop(u64),
    /// Forget the status and output of this attempt, which has ended.
    Discard(u64),
    /// Take it off the record: it is over.
    Forget,
}

/// Why there is no attempt at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    /// It has not been looked at yet.
    Recovering,
    /// It is not known whether one runs.
    Unclear(String),
    /// An operator has stopped it.
    Stopped,
    /// It has run, and its rule says no more.
    Done,
    /// Nothing may be started.
    Held(String),
    /// Something is not there that it needs.
    Needs(String),
    /// It is tried again then, since 1970.
    Backoff(Duration),
    /// It is over its start limit, and tried again then.
    Failing(Duration),
    /// It is being taken off the record.
    Leaving,
}

/// What is known of one declared task.
#[derive(Clone, Debug, PartialEq)]
pub struct State {
    /// When it is started again.
    pub rule: Rule,
    /// Grows with each change of what is run.
    pub generation: u64,
    /// The number of the last attempt; 0 for none.
    pub number: u64,
    /// The last attempts, oldest first; only the last one may be open.
    pub attempts: VecDeque<Attempt>,
    /// An operator has stopped it.
    pub stopped: bool,
    /// It is not wanted any more.
    pub leaving: bool,
    /// Not started before, since 1970.
    pub due: Duration,
    /// The next start is one over the start limit.
    pub failing: bool,
    /// Attempts up to this one do not count: somebody has started it since.
    pub reset: u64,
    policy: RestartPolicy,
    restart: RestartState,
    recovered: bool,
    alive: bool,
    ending: bool,
    unclear: Option<String>,
    needs: Option<String>,
    held: Option<String>,
    gone: bool,
}

impl State {
    /// A task that was never started. The first event is [`Event::Found`].
    #[must_use]
    pub fn new(rule: Rule, policy: RestartPolicy) -> Self {
        Self {
            rule,
            generation: 1,
            number: 0,
            attempts: VecDeque::new(),
            stopped: false,
            leaving: false,
            due: Duration::ZERO,
            failing: false,
            reset: 0,
            policy,
            restart: RestartState::default(),
            recovered: false,
            alive: false,
            ending: false,
            unclear: None,
            needs: None,
            held: None,
            gone: false,
        }
    }

    /// What follows from an event.
    #[must_use]
    pub fn step(mut self, event: Event, moment: Moment) -> (Self, Vec<Action>) {
        let mut actions = Vec::new();
        match event {
            Event::Found(found) => self.found(found, moment, &mut actions),
            Event::Changed { rule, replace } => {
                self.rule = rule;
                // What was on its way out comes back, whatever its rule.
                if std::mem::take(&mut self.leaving) && self.alive {
                    self.reset = self.number;
                }
                if replace {
                    self.generation += 1;
                    self.forgive();
                }
                actions.push(Action::Record);
            }
            Event::Left if !self.leaving => {
                self.leaving = true;
                actions.push(Action::Record);
            }
            Event::Stop if !self.stopped => {
                self.stopped = true;
                actions.push(Action::Record);
            }
            Event::Start => {
                self.stopped = false;
                self.unclear = None;
                // Of one that runs and is not on its way out nothing is to be started again.
                if !self.alive || self.ending {
                    self.reset = self.number;
                }
                self.forgive();
                actions.push(Action::Record);
            }
            Event::Needs(missing) => self.needs = missing,
            Event::Held(why) => self.held = why,
            Event::Ended { number, end } => {
                if self.alive && self.number == number {
                    self.close(end, moment);
                    actions.push(Action::Record);
                }
            }
            Event::NotRecorded(_) => {
                if self.alive && self.attempts.back().is_some_and(|it| it.end.is_none()) {
                    self.take_back();
                    self.again(moment.now, moment);
                }
            }
            Event::Left | Event::Stop | Event::Tick => {}
        }
        self.go_on(moment, &mut actions);
        (self, actions)
    }

    /// Why there is no attempt; `None` while there is one.
    #[must_use]
    pub fn why(&self, now: Duration) -> Option<Why> {
        if !self.recovered {
            return Some(Why::Recovering);
        }
        if self.alive {
            return None;
        }
        Some(if self.leaving || self.gone {
            Why::Leaving
        } else if let Some(problem) = &self.unclear {
            Why::Unclear(problem.clone())
        } else if self.stopped {
            Why::Stopped
        } else if self.is_done() {
            Why::Done
        } else if let Some(why) = &self.held {
            Why::Held(why.clone())
        } else if self.failing && now < self.due {
            Why::Failing(self.due)
        } else if now < self.due {
            Why::Backoff(self.due)
        } else {
            Why::Needs(self.needs.clone().unwrap_or_default())
        })
    }

    /// When time alone brings the next start, since 1970.
    #[must_use]
    pub fn next_start(&self, now: Duration) -> Option<Duration> {
        match self.why(now)? {
            Why::Backoff(due) | Why::Failing(due) => Some(due),
            _ => None,
        }
    }

    /// The attempt that has not ended.
    #[must_use]
    pub fn alive(&self) -> Option<u64> {
        self.alive.then_some(self.number)
    }

    /// Whether the attempt was asked to end.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.alive && self.ending
    }

    /// Whether it is over and forgotten.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.gone
    }

    fn found(&mut self, found: Found, moment: Moment, actions: &mut Vec<Action>) {
        if self.recovered {
            return;
        }
        self.recovered = true;
        let open = self.attempts.back().is_some_and(|it| it.end.is_none());
        self.restart = self.replayed();
        match found {
            Found::Nothing if open => self.take_back(),
            Found::Nothing => {}
            Found::Alive => self.alive = open,
            Found::Ended(end) if open => {
                self.alive = true;
                self.close(end, moment);
                actions.push(Action::Record);
            }
            Found::Ended(_) => {}
            Found::Unclear(problem) => self.unclear = Some(problem),
        }
    }

    /// What the attempts on record mean for the next start.
    fn replayed(&self) -> RestartState {
        let mut restart = RestartState::default();
        let counted = self
            .attempts
            .iter()
            .filter(|it| it.generation == self.generation && it.number > self.reset);
        for attempt in counted {
            restart.started(&self.policy, attempt.began);
            if let Some(end) = &attempt.end {
                // What follows is on record.
                let _known = restart.exited(&self.policy, end.at, 0.0);
            }
        }
        restart
    }

    /// The open attempt was never launched: its number is free.
    fn take_back(&mut self) {
        self.attempts.pop_back();
        self.number -= 1;
        self.alive = false;
        self.ending = false;
    }

    fn forgive(&mut self) {
        self.restart.reset();
        self.due = Duration::ZERO;
        self.failing = false;
    }

    fn close(&mut self, end: End, moment: Moment) {
        let at = end.at;
        if let Some(attempt) = self.attempts.back_mut() {
            attempt.end = Some(end);
        }
        self.alive = false;
        self.ending = false;
        if self.stopped || self.leaving || self.is_done() {
            return;
        }
        let counts = self
            .attempts
            .back()
            .is_some_and(|it| it.generation == self.generation && it.number > self.reset);
        if counts {
            self.again(at, moment);
        } else {
            self.forgive();
        }
    }

    fn again(&mut self, at: Duration, moment: Moment) {
        let restart = self.restart.exited(&self.policy, at, moment.random);
        self.failing = restart.is_failing();
        self.due = match restart {
            Restart::Now => Duration::ZERO,
            later => at.saturating_add(later.delay()),
        };
    }

    /// Whether it has run, and is not to run again by itself.
    fn is_done(&self) -> bool {
        let Some(last) = self.attempts.back() else {
            return false;
        };
        let Some(end) = &last.end else {
            return false;
        };
        last.generation == self.generation
            && last.number > self.reset
            && match self.rule {
                Rule::No => true,
                Rule::OnFailure => !end.failed,
                Rule::Always => false,
            }
    }

    fn go_on(&mut self, moment: Moment, actions: &mut Vec<Action>) {
        if !self.recovered || self.gone {
            return;
        }
        if self.alive {
            let replaced = self
                .attempts
                .back()
                .is_some_and(|it| it.generation != self.generation);
            if (self.leaving || self.stopped || replaced) && !self.ending {
                self.ending = true;
                actions.push(Action::Stop(self.number));
            }
            return;
        }
        if self.leaving && self.unclear.is_none() {
            self.gone = true;
            actions.push(Action::Forget);
            return;
        }
        let free = self.held.is_none() && self.needs.is_none() && self.unclear.is_none();
        if self.leaving || self.stopped || !free || self.is_done() || moment.now < self.due {
            return;
        }
        self.number += 1;
        self.alive = true;
        self.failing = false;
        self.due = Duration::ZERO;
        self.attempts.push_back(Attempt {
            number: self.number,
            generation: self.generation,
            began: moment.now,
            end: None,
        });
        while self.attempts.len() > HISTORY {
            self.attempts.pop_front();
        }
        self.restart.started(&self.policy, moment.now);
        actions.extend([Action::Record, Action::Launch(self.number)]);
        if let Some(old) = self.number.checked_sub(KEPT).filter(|old| *old > 0) {
            actions.push(Action::Discard(old));
        }
    }
}

#[cfg(test)]
mod tests;
