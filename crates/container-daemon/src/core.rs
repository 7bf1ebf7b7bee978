//! The decisions: `step(state, event, at) -> actions`, without clock, tokio or sockets.
//!
//! ```text
//!                Start                  ok                200, 202              ok
//!   Down ------------------> Preparing -----> Launching ------------> Starting ---> Running
//!    ^                        |    ^  ^       |     |                 |  |  |          |
//!    |                refused |    |  |unsure | 4xx | no answer       |  |  |hook fails|Stop,
//!    |                        v    |  |       v     v                 |  |  v          |Restart
//!    | Stop, nothing runs    Pausing--+------------------<--+         |  | Stopping <--+
//!    +<-----------------------+    (backoff, or slow        |    exit |  |    |        |
//!    |                              and `failing`)          |         v  |    v exit   | exit
//!    +<---------------------------------------------------- Cleaning <---+----+--------+
//!          post-stop done, down is wanted
//! ```
//!
//! * WAIT is armed from the moment LAUNCH was answered, so that an exit is seen at once, whatever
//!   the post-start hook is doing. A failed WAIT is asked again and changes nothing else.
//! * A LAUNCH without an answer leaves the container *unsure*: the next attempt sends the same
//!   request again (an agent answers 202 when it had arrived) without running pre-launch, which
//!   may remove a socket that is in use; a stop kills and waits, whatever the agent knows.
//! * `Down` is entered by request only. Everything else goes on for ever, with bounded delays.

use std::time::Duration;

use longshore_backoff::{RestartPolicy, Starts};

use crate::exit::Exit;
use crate::failure::{Failure, LaunchFailure};

#[cfg(test)]
mod tests;
mod transitions;

/// Signal numbers of Linux, the same on every architecture.
pub(crate) const SIGTERM: i32 = 15;
pub(crate) const SIGKILL: i32 = 9;

/// How long to wait between two SIGKILLs to a container that does not go.
pub(crate) const KILL_AGAIN: Duration = Duration::from_secs(10);

/// A moment: time since the daemon's epoch, and a random number in `0.0..1.0` for jitter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) now: Duration,
    pub(crate) random: f64,
}

/// What keeps the daemon busy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Phase {
    /// Nothing runs and nothing is wanted.
    Down,
    /// The pre-launch hook runs.
    Preparing,
    /// LAUNCH is unanswered.
    Launching,
    /// Launched; the post-start hook runs, or waits to be run again.
    Starting,
    /// Launched and started.
    Running,
    /// Signalled; waiting for the exit.
    Stopping,
    /// Gone; the post-stop hook runs.
    Cleaning,
    /// Waiting for the next start.
    Pausing,
}

/// Why a container is being stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Because {
    /// `Stop` or `Restart`: the next start, if any, is immediate.
    Request,
    /// The post-start hook failed, or a restart was asked for that counts as a failure.
    Failure { permanent: bool },
}

/// How a run ended; decides about the next start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Requested,
    /// It ended by itself; `stable` when it had run for `stable_after`.
    Ended {
        ran: bool,
        stable: bool,
    },
    Failed {
        permanent: bool,
    },
    /// The agent did not answer: says nothing about the container, so is no start.
    Unreachable,
}

/// Events. Answers belong to the action that was last emitted for them; the driver drops what a
/// later action replaced.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    Start,
    Attach,
    Stop {
        grace: Duration,
    },
    Restart {
        grace: Duration,
        reset: bool,
        failure: Option<Failure>,
    },
    Prepared(Result<(), Failure>),
    Launched(Result<(), LaunchFailure>),
    Started(Result<(), Failure>),
    Ended(Exit),
    WaitFailed(Failure),
    Killed(Result<(), Failure>),
    Cleaned(Result<(), Failure>),
    Fired(Timer),
}

/// Timers; arming one replaces its earlier setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Timer {
    /// The next start, or the next run of the post-start hook.
    Retry,
    /// WAIT again.
    Rewait,
    /// From SIGTERM to SIGKILL, and from SIGKILL to SIGKILL.
    Escalate,
    /// KILL again, whose call failed.
    Rekill,
}

/// Actions. There is at most one operation (hook, launch or kill) and one wait at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Prepare,
    Launch,
    PostStart,
    PostStop,
    Kill(i32),
    Wait,
    /// Drop the operation in flight.
    Cancel,
    Arm(Timer, Duration),
    Disarm(Timer),
}

/// The state of one daemon.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    policy: RestartPolicy,
    /// From SIGTERM to SIGKILL where no request says otherwise.
    grace: Duration,
    phase: Phase,
    up: bool,
    /// A LAUNCH may have been carried out.
    unsure: bool,
    /// WAIT is armed or will be armed by `Rewait`.
    waiting: bool,
    wait_failures: u32,
    kill_failures: u32,
    hook_failures: u32,
    because: Because,
    outcome: Outcome,
    kill_at: Duration,
    signal: i32,
    running_since: Option<Duration>,
    failures: u32,
    starts: Starts,
    failing: bool,
    next_retry: Option<Duration>,
    reason: String,
    runs: u64,
    last_exit: Option<Exit>,
}

impl Core {
    pub(crate) fn new(policy: RestartPolicy, grace: Duration) -> Self {
        Self {
            grace,
            starts: Starts::default(),
            policy,
            phase: Phase::Down,
            up: false,
            unsure: false,
            waiting: false,
            wait_failures: 0,
            kill_failures: 0,
            hook_failures: 0,
            because: Because::Request,
            outcome: Outcome::Requested,
            kill_at: Duration::ZERO,
            signal: SIGTERM,
            running_since: None,
            failures: 0,
            failing: false,
            next_retry: None,
            reason: String::new(),
            runs: 0,
            last_exit: None,
        }
    }

    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }
    pub(crate) fn wanted(&self) -> bool {
        self.up
    }
    pub(crate) fn failing(&self) -> bool {
        self.failing
    }
    pub(crate) fn failures(&self) -> u32 {
        self.failures
    }
    pub(crate) fn next_retry(&self) -> Option<Duration> {
        self.next_retry
    }
    pub(crate) fn reason(&self) -> &str {
        &self.reason
    }
    pub(crate) fn runs(&self) -> u64 {
        self.runs
    }
    pub(crate) fn last_exit(&self) -> Option<&Exit> {
        self.last_exit.as_ref()
    }

    /// Takes one event; what is to be done is appended to `actions`, to be done in order.
    pub(crate) fn step(&mut self, event: Event, at: At, actions: &mut Vec<Action>) {
        match event {
            Event::Start => self.start(actions),
            Event::Attach => self.attach(actions),
            Event::Stop { grace } => self.stop(grace, at, actions),
            Event::Restart {
                grace,
                reset,
                failure,
            } => {
                self.restart(grace, reset, failure, at, actions);
            }
            Event::Prepared(result) => self.prepared(result, at, actions),
            Event::Launched(result) => self.launched(result, at, actions),
            Event::Started(result) => self.started(result, at, actions),
            Event::Ended(exit) => self.ended(exit, at, actions),
            Event::WaitFailed(failure) => self.wait_failed(&failure, at, actions),
            Event::Killed(result) => self.killed(result, at, actions),
            Event::Cleaned(result) => self.cleaned(result, at, actions),
            Event::Fired(timer) => self.fired(timer, at, actions),
        }
    }

    // === requests ===

    fn start(&mut self, actions: &mut Vec<Action>) {
        self.up = true;
        if self.phase == Phase::Down {
            self.prepare(actions);
        }
    }

    /// The container is known to run: no pre-launch, no LAUNCH.
    fn attach(&mut self, actions: &mut Vec<Action>) {
        if self.phase == Phase::Down {
            self.up = true;
            self.enter_starting(actions);
        } else {
            self.start(actions);
        }
    }

    fn stop(&mut self, grace: Duration, at: At, actions: &mut Vec<Action>) {
        self.up = false;
        match self.phase {
            Phase::Down | Phase::Launching | Phase::Cleaning => {}
            Phase::Preparing => {
                actions.push(Action::Cancel);
                self.down();
            }
            Phase::Pausing => {
                actions.push(Action::Disarm(Timer::Retry));
                if self.unsure {
                    self.enter_stopping(Because::Request, grace, at, actions);
                } else {
                    self.down();
                }
            }
            Phase::Starting | Phase::Running => {
                self.enter_stopping(Because::Request, grace, at, actions);
            }
            Phase::Stopping => self.shorten(grace, at, actions),
        }
        // LAUNCH is never cut off: its answer decides; the grace is that of the request.
        if self.phase == Phase::Launching {
            self.kill_at = grace;
        }
    }

    fn restart(
        &mut self,
        grace: Duration,
        reset: bool,
        failure: Option<Failure>,
        at: At,
        actions: &mut Vec<Action>,
    ) {
        self.up = true;
        if reset {
            self.forget_failures();
        }
        match self.phase {
            Phase::Down => self.prepare(actions),
            Phase::Preparing | Phase::Launching => {}
            Phase::Cleaning => {
                if failure.is_none() {
                    self.outcome = Outcome::Requested;
                }
            }
            Phase::Pausing => {
                // A failure report about a run that is over must not cut its backoff.
                if failure.is_none() {
                    actions.push(Action::Disarm(Timer::Retry));
                    self.begin_attempt(actions);
                }
            }
            Phase::Starting | Phase::Running => {
                let because = match failure {
                    Some(failure) => {
                        self.reason = failure.message;
                        Because::Failure {
                            permanent: failure.permanent,
                        }
                    }
                    None => Because::Request,
                };
                self.enter_stopping(because, grace, at, actions);
            }
            Phase::Stopping => {
                if failure.is_none() {
                    self.because = Because::Request;
                }
                self.shorten(grace, at, actions);
            }
        }
    }

    // === answers ===

    fn prepared(&mut self, result: Result<(), Failure>, at: At, actions: &mut Vec<Action>) {
        if self.phase != Phase::Preparing {
            return;
        }
        match result {
            Ok(()) => self.launch(actions),
            Err(failure) => {
                self.reason = failure.message;
                self.pause(
                    Outcome::Failed {
                        permanent: failure.permanent,
                    },
                    at,
                    actions,
                );
            }
        }
    }

    fn launched(&mut self, result: Result<(), LaunchFailure>, at: At, actions: &mut Vec<Action>) {
        if self.phase != Phase::Launching {
            return;
        }
        let grace = self.kill_at;
        let outcome = match result {
            Ok(()) => {
                self.runs += 1;
                if self.up {
                    self.enter_starting(actions);
                } else {
                    self.enter_stopping(Because::Request, grace, at, actions);
                }
                return;
            }
            Err(LaunchFailure::NotSent(failure)) => {
                self.reason = failure.message;
                Outcome::Unreachable
            }
            Err(LaunchFailure::Refused(failure)) => {
                self.unsure = false;
                self.reason = failure.message;
                Outcome::Failed {
                    permanent: failure.permanent,
                }
            }
            Err(LaunchFailure::Unknown(failure)) => {
                self.unsure = true;
                self.reason = failure.message;
                Outcome::Unreachable
            }
        };
        if self.up {
            self.pause(outcome, at, actions);
        } else if self.unsure {
            self.enter_stopping(Because::Request, grace, at, actions);
        } else {
            self.down();
        }
    }

    fn started(&mut self, result: Result<(), Failure>, at: At, actions: &mut Vec<Action>) {
        if self.phase != Phase::Starting {
            return;
        }
        match result {
            Ok(()) => {
                self.phase = Phase::Running;
                self.running_since = Some(at.now);
                self.next_retry = None;
                self.reason.clear();
            }
            Err(failure) => {
                self.reason = failure.message;
                if failure.keep {
                    // The container must not be touched: only the hook is run again.
                    self.hook_failures = self.hook_failures.saturating_add(1);
                    let delay = self.policy.backoff.delay(self.hook_failures, at.random);
                    self.next_retry = Some(at.now + delay);
                    actions.push(Action::Arm(Timer::Retry, delay));
                } else {
                    let because = Because::Failure {
                        permanent: failure.permanent,
                    };
                    self.enter_stopping(because, self.grace, at, actions);
                }
            }
        }
    }

    fn ended(&mut self, exit: Exit, at: At, actions: &mut Vec<Action>) {
        self.waiting = false;
        self.wait_failures = 0;
        self.unsure = false;
        let ran = self.running_since.take();
        let stable = ran.is_some_and(|since| at.now - since >= self.policy.stable_after);
        let words = exit.to_string();
        self.last_exit = Some(exit);
        match self.phase {
            Phase::Starting | Phase::Running => {
                if self.phase == Phase::Starting {
                    actions.push(Action::Cancel);
                    actions.push(Action::Disarm(Timer::Retry));
                }
                self.reason = words;
                self.outcome = Outcome::Ended {
                    ran: ran.is_some(),
                    stable,
                };
            }
            Phase::Stopping => {
                actions.push(Action::Cancel);
                actions.push(Action::Disarm(Timer::Escalate));
                actions.push(Action::Disarm(Timer::Rekill));
                self.outcome = match self.because {
                    Because::Request => Outcome::Requested,
                    Because::Failure { permanent: false } if stable => {
                        Outcome::Ended { ran: true, stable }
                    }
                    Because::Failure { permanent } => Outcome::Failed { permanent },
                };
            }
            Phase::Down
            | Phase::Preparing
            | Phase::Launching
            | Phase::Cleaning
            | Phase::Pausing => return,
        }
        self.next_retry = None;
        self.phase = Phase::Cleaning;
        actions.push(Action::PostStop);
    }

    fn wait_failed(&mut self, failure: &Failure, at: At, actions: &mut Vec<Action>) {
        if !self.waiting {
            return;
        }
        self.wait_failures = self.wait_failures.saturating_add(1);
        if self.phase == Phase::Stopping {
            self.reason.clone_from(&failure.message);
        }
        let delay = self.policy.backoff.delay(self.wait_failures, at.random);
        actions.push(Action::Arm(Timer::Rewait, delay));
    }

    fn killed(&mut self, result: Result<(), Failure>, at: At, actions: &mut Vec<Action>) {
        if self.phase != Phase::Stopping {
            return;
        }
        match result {
            Ok(()) => self.kill_failures = 0,
            Err(failure) => {
                self.reason = failure.message;
                self.kill_failures = self.kill_failures.saturating_add(1);
                let delay = self.policy.backoff.delay(self.kill_failures, at.random);
                actions.push(Action::Arm(Timer::Rekill, delay));
            }
        }
    }

    fn cleaned(&mut self, result: Result<(), Failure>, at: At, actions: &mut Vec<Action>) {
        if self.phase != Phase::Cleaning {
            return;
        }
        let mut outcome = self.outcome;
        if let Err(failure) = result {
            self.reason = failure.message;
            if outcome != Outcome::Requested {
                outcome = Outcome::Failed {
                    permanent: failure.permanent,
                };
            }
        }
        if !self.up {
            self.down();
        } else {
            self.pause(outcome, at, actions);
        }
    }

    fn fired(&mut self, timer: Timer, at: At, actions: &mut Vec<Action>) {
        match (timer, self.phase) {
            (Timer::Retry, Phase::Pausing) => self.begin_attempt(actions),
            (Timer::Retry, Phase::Starting) => {
                self.next_retry = None;
                actions.push(Action::PostStart);
            }
            (Timer::Rewait, _) if self.waiting => actions.push(Action::Wait),
            (Timer::Escalate, Phase::Stopping) => self.send_kill(at, actions),
            (Timer::Rekill, Phase::Stopping) => actions.push(Action::Kill(self.signal)),
            (Timer::Retry | Timer::Rewait | Timer::Escalate | Timer::Rekill, _) => {}
        }
    }
}
