//! When a launched plugin is started again: a pure state machine.
//!
//! ```text
//!            Start                       Ready
//!  Stopped ---------> Starting ------------------------> Running
//!     ^                 | Lost: Terminate                  | Lost: Terminate
//!     |                 v                                  v
//!     |               Ending <------------------------------
//!     |                 | Ended (also from Starting and Running), SpawnFailed (from Starting)
//!     |                 |----- without a policy --------> Gone
//!     |                 '----- else: WaitUntil ----------> Waiting --Due: Spawn--> Starting
//!     |
//!     '--Ended-- Stopping <--Stop: Terminate-- Starting, Running, Ending
//!     '---------------------Stop-------------- Waiting, Gone
//! ```

use std::time::Duration;

use longshore_backoff::{Restart, RestartPolicy, RestartState};

/// What happens to a launched plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// It is to run, from the start or after [`Event::Stop`].
    Start,
    /// Its process could not be started.
    SpawnFailed,
    /// It has registered and is configured.
    Ready,
    /// It is of no use any more although its process may live: its connection was closed, or it did
    /// not register in time.
    Lost,
    /// Its process has ended and is reaped.
    Ended,
    /// The time of [`Action::WaitUntil`] has come.
    Due,
    /// It is not to run any more.
    Stop,
}

/// What is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Action {
    /// Nothing.
    Nothing,
    /// Start the process; [`Event::Ready`], [`Event::Lost`], [`Event::SpawnFailed`] or
    /// [`Event::Ended`] follows.
    Spawn,
    /// End the process; [`Event::Ended`] follows.
    Terminate,
    /// Say [`Event::Due`] at this time.
    WaitUntil(Duration),
}

/// Where a launched plugin is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SupervisionState {
    /// It is not wanted.
    #[default]
    Stopped,
    /// Its process is started, it is not ready.
    Starting,
    /// It is ready.
    Running,
    /// Its process is ended, to be started again.
    Ending,
    /// It is started again at this time.
    Waiting {
        /// When.
        until: Duration,
        /// Whether it is over its start limit.
        failing: bool,
    },
    /// Its process is ended for good.
    Stopping,
    /// It has ended and is not started again.
    Gone,
}

/// The supervision of one launched plugin. Times are `Duration`s since any fixed moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Supervision {
    policy: Option<RestartPolicy>,
    state: SupervisionState,
    starts: RestartState,
}

impl Supervision {
    /// Of a plugin that is stopped; without a policy it is not started again, as under Go's adaptation.
    #[must_use]
    pub fn new(policy: Option<RestartPolicy>) -> Self {
        Self {
            policy,
            state: SupervisionState::Stopped,
            starts: RestartState::default(),
        }
    }

    /// Takes an event and says what is to be done. `random` is meant to be uniform in 0 to 1. An event
    /// that does not belong to the state, as one that comes late, changes nothing.
    pub fn step(&mut self, event: Event, now: Duration, random: f64) -> Action {
        use SupervisionState::{Ending, Gone, Running, Starting, Stopped, Stopping, Waiting};
        let (state, action) = match (self.state, event) {
            (Stopped | Gone, Event::Start) => {
                self.starts.reset();
                self.spawn(now)
            }
            (Waiting { until, .. }, Event::Due) if now >= until => self.spawn(now),
            // A timer that fired early.
            (Waiting { until, .. }, Event::Due) => (self.state, Action::WaitUntil(until)),
            (Starting, Event::Ready) => (Running, Action::Nothing),
            (Starting | Running, Event::Lost) => (Ending, Action::Terminate),
            (Starting, Event::SpawnFailed) | (Starting | Running | Ending, Event::Ended) => {
                self.again(now, random)
            }
            (Starting | Running | Ending, Event::Stop) => (Stopping, Action::Terminate),
            (Waiting { .. } | Gone, Event::Stop)
            | (Stopping, Event::Ended | Event::SpawnFailed) => (Stopped, Action::Nothing),
            (
                Stopped | Starting | Running | Ending | Waiting { .. } | Stopping | Gone,
                Event::Start
                | Event::SpawnFailed
                | Event::Ready
                | Event::Lost
                | Event::Ended
                | Event::Due
                | Event::Stop,
            ) => return Action::Nothing,
        };
        self.state = state;
        action
    }

    /// Where the plugin is.
    #[must_use]
    pub const fn state(&self) -> SupervisionState {
        self.state
    }

    /// How often it has ended since it last ran long enough.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.starts.failures()
    }

    fn spawn(&mut self, now: Duration) -> (SupervisionState, Action) {
        if let Some(policy) = &self.policy {
            self.starts.started(policy, now);
        }
        (SupervisionState::Starting, Action::Spawn)
    }

    fn again(&mut self, now: Duration, random: f64) -> (SupervisionState, Action) {
        let Some(policy) = &self.policy else {
            return (SupervisionState::Gone, Action::Nothing);
        };
        let restart = self.starts.exited(policy, now, random);
        if restart == Restart::Now {
            return self.spawn(now);
        }
        let until = now.saturating_add(restart.delay());
        let failing = restart.is_failing();
        (
            SupervisionState::Waiting { until, failing },
            Action::WaitUntil(until),
        )
    }
}

#[cfg(test)]
mod tests;
