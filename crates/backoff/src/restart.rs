//! Restarting one program.
//!
//! ```text
//!              started                 exited, ran >= stable_after, or its first failure
//!   waiting ------------> running ----------------------------------------> Now
//!      ^                     |  exited sooner, start limit not reached
//!      |                     +--------------------------------------------> After(backoff)
//!      |                     |  exited sooner, start limit reached
//!      |                     +--------------------------------------------> Failing(slow_retry)
//!      +---- the caller waits as told, then starts it again
//! ```

use std::time::Duration;

use crate::{Backoff, StartLimit, Starts};

/// How a program that ended is started again.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RestartPolicy {
    /// The delays from the second failure in a row on; the first restart is immediate.
    pub backoff: Backoff,
    /// A run at least this long forgets the failures before it.
    pub stable_after: Duration,
    /// More starts than this and the program counts as failing.
    pub start_limit: StartLimit,
    /// The delay between attempts while it is failing.
    pub slow_retry: Duration,
}

impl Default for RestartPolicy {
    /// Backoff 1 s to 1 min with a jitter of a quarter, stable after 10 s, failing after 5 starts
    /// within 2 min, then one attempt every 5 min.
    fn default() -> Self {
        Self {
            backoff: Backoff::default(),
            stable_after: Duration::from_secs(10),
            start_limit: StartLimit::default(),
            slow_retry: Duration::from_secs(300),
        }
    }
}

/// What to do with a program that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Restart {
    /// Start it at once.
    Now,
    /// Start it after this delay.
    After(Duration),
    /// It is failing: say so, and try again after this delay.
    Failing(Duration),
}

impl Restart {
    /// The delay before the next start.
    #[must_use]
    pub const fn delay(self) -> Duration {
        match self {
            Self::Now => Duration::ZERO,
            Self::After(delay) | Self::Failing(delay) => delay,
        }
    }

    /// Whether the program is over its start limit.
    #[must_use]
    pub const fn is_failing(self) -> bool {
        matches!(self, Self::Failing(_))
    }
}

/// What is remembered about one program's starts. Times are `Duration`s since any fixed moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RestartState {
    starts: Starts,
    failures: u32,
    started_at: Option<Duration>,
}

impl RestartState {
    /// Notes that the program was started at `now`.
    pub fn started(&mut self, policy: &RestartPolicy, now: Duration) {
        policy.start_limit.record(&mut self.starts, now);
        self.started_at = Some(now);
    }

    /// Notes that the program ended at `now`, or could not be started, and decides what follows.
    /// `random` is meant to be uniform in 0 to 1.
    pub fn exited(&mut self, policy: &RestartPolicy, now: Duration, random: f64) -> Restart {
        let ran = self.started_at.take().map(|at| now.saturating_sub(at));
        if ran.is_some_and(|ran| ran >= policy.stable_after) {
            self.reset();
        }
        self.failures = self.failures.saturating_add(1);
        if policy.start_limit.exceeded(&self.starts, now) {
            return Restart::Failing(policy.slow_retry);
        }
        match policy.backoff.delay(self.failures - 1, random) {
            Duration::ZERO => Restart::Now,
            delay => Restart::After(delay),
        }
    }

    /// Forgets all failures and starts, as when an operator restarts the program.
    pub fn reset(&mut self) {
        self.failures = 0;
        self.starts.clear();
    }

    /// The failures since the last stable run.
    #[must_use]
    pub const fn failures(&self) -> u32 {
        self.failures
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn policy() -> RestartPolicy {
        RestartPolicy {
            backoff: Backoff::new(SECOND, 60 * SECOND, 0.0).unwrap(),
            stable_after: 10 * SECOND,
            start_limit: StartLimit::new(5, 120 * SECOND).unwrap(),
            slow_retry: 300 * SECOND,
        }
    }

    #[test]
    fn restarts_at_once_then_backs_off_then_is_failing_but_never_gives_up() {
        let policy = policy();
        let mut state = RestartState::default();
        let mut now = Duration::ZERO;
        let expected = [
            Restart::Now,
            Restart::After(SECOND),
            Restart::After(2 * SECOND),
            Restart::After(4 * SECOND),
            Restart::Failing(300 * SECOND),
            // The window is over after the slow retry, so it is backing off once more.
            Restart::After(16 * SECOND),
        ];
        for expected in expected {
            state.started(&policy, now);
            let restart = state.exited(&policy, now, 0.5);
            assert_eq!(restart, expected);
            now += restart.delay();
        }
        assert_eq!(state.failures(), 6);
    }

    #[test]
    fn a_stable_run_forgets_the_failures_before_it() {
        let policy = policy();
        let mut state = RestartState::default();
        for at in 0..4 {
            state.started(&policy, at * SECOND);
            let _ = state.exited(&policy, at * SECOND, 0.0);
        }
        state.started(&policy, 20 * SECOND);
        assert_eq!(state.exited(&policy, 30 * SECOND, 0.0), Restart::Now);
        assert_eq!(state.failures(), 1);
    }

    #[test]
    fn a_launch_that_never_started_counts_as_a_failure() {
        let policy = policy();
        let mut state = RestartState::default();
        assert_eq!(state.exited(&policy, SECOND, 0.0), Restart::Now);
        assert_eq!(
            state.exited(&policy, 100 * SECOND, 0.0),
            Restart::After(SECOND)
        );
    }

    #[test]
    fn an_operators_reset_begins_anew() {
        let policy = policy();
        let mut state = RestartState::default();
        for at in 0..5 {
            state.started(&policy, at * SECOND);
        }
        assert!(state.exited(&policy, 5 * SECOND, 0.0).is_failing());
        state.reset();
        state.started(&policy, 6 * SECOND);
        assert_eq!(state.exited(&policy, 6 * SECOND, 0.0), Restart::Now);
    }

    proptest! {
        #[test]
        fn starts_within_the_window_stay_near_the_limit(runs in proptest::collection::vec(0u64..9, 1..60)) {
            let policy = policy();
            let mut state = RestartState::default();
            let (mut now, mut starts) = (Duration::ZERO, Vec::new());
            for ran in runs {
                state.started(&policy, now);
                starts.push(now);
                now += Duration::from_secs(ran);
                now += state.exited(&policy, now, 0.0).delay();
            }
            for (at, start) in starts.iter().enumerate() {
                let window = starts[at..].iter().take_while(|s| **s - *start < 120 * SECOND).count();
                prop_assert!(window <= 5, "{window} starts within the window from {start:?}");
            }
        }
    }
}
