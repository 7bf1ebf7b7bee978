use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use longshore_backoff::Backoff;

use crate::AgentError;
use crate::error::is_agent_starting;

/// What is tried again without the caller noticing, and how soon. How *long* is the call's
/// deadline ([`crate::Deadlines`]); a WAIT has none and is tried for ever.
///
/// | what happened | tried again |
/// |---|---|
/// | no connection (`refused`) | every call: the agent has seen nothing of it |
/// | 503 (`unavailable`) | every call: a recovering agent does nothing |
/// | 404 `404 Not Found.` (`starting`) | every call, for [`RetryPolicy::starting_for`]: an agent that is just coming up, or a wrong path |
/// | connection ended before the answer did (`closed`) | calls that may be repeated: GET, WAIT, REMOVE, KILL with signal 9 or 15 |
/// | same, LAUNCH | only with `relaunch` |
/// | any other answer | never |
///
/// A LAUNCH that is repeated while its container lives is answered 202 and starts nothing, so it
/// is safe for a container that runs for long. But an agent forgets a container that has ended:
/// had it ended in between, the repetition would run it a second time. And the caller could not
/// tell its own container from one that had been there before. Hence `relaunch` is off; the
/// caller gets [`AgentError::Closed`] and decides (a container daemon launches again anyway).
///
/// An idle connection that the agent had closed is replaced at once, which is not a retry. Only
/// if the agent may have got the request (it was sent, and no byte came back) this too needs a
/// call that may be repeated.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct RetryPolicy {
    /// Try again when there is no connection. Default true.
    pub refused: bool,
    /// Try again after a 503. Default true.
    pub unavailable: bool,
    /// Try again after `404 Not Found.`. Default true.
    pub starting: bool,
    /// How long `404 Not Found.` is taken for an agent that is coming up. Default 5 s (seen: 40 ms).
    pub starting_for: Duration,
    /// Repeat calls that may be repeated when the connection ended before the answer did.
    /// Default true.
    pub closed: bool,
    /// Repeat a LAUNCH in that case too. Default false.
    pub relaunch: bool,
    /// Delay before each repetition. Default from 20 ms up to 2 s, half of it random.
    pub backoff: Backoff,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            refused: true,
            unavailable: true,
            starting: true,
            starting_for: Duration::from_secs(5),
            closed: true,
            relaunch: false,
            backoff: Backoff::new(Duration::from_millis(20), Duration::from_secs(2), 0.5)
                .unwrap_or_default(),
        }
    }
}

/// What repeating a call can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// The same as doing it once.
    Harmless,
    /// See [`RetryPolicy`].
    Launch,
    /// A second effect.
    Harmful,
}

impl RetryPolicy {
    /// Nothing is tried again.
    #[must_use]
    pub fn never() -> Self {
        Self {
            refused: false,
            unavailable: false,
            starting: false,
            closed: false,
            relaunch: false,
            ..Self::default()
        }
    }

    /// Whether to try again after `error`. `since_first` is the time since the first failure in
    /// a row.
    pub(crate) fn repeats(
        &self,
        error: &AgentError,
        repeat: Repeat,
        since_first: Duration,
    ) -> bool {
        match error {
            AgentError::Connect { .. } => self.refused,
            AgentError::Status { status: 503, .. } => self.unavailable,
            AgentError::Status { status, body, .. } if is_agent_starting(*status, body) => {
                self.starting && since_first < self.starting_for
            }
            AgentError::Closed { .. } => match repeat {
                Repeat::Harmless => self.closed,
                Repeat::Launch => self.relaunch,
                Repeat::Harmful => false,
            },
            _ => false,
        }
    }
}

/// A random number in `[0, 1)` for jitter; the hasher's keys come from the system.
pub(crate) fn random() -> f64 {
    let bits = RandomState::new().build_hasher().finish() >> 32;
    f64::from(u32::try_from(bits).unwrap_or(0)) / (f64::from(u32::MAX) + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, body: &str) -> AgentError {
        AgentError::Status {
            call: "GET_HEALTH",
            container: None,
            status,
            body: body.into(),
        }
    }

    fn refused() -> AgentError {
        AgentError::Connect {
            endpoint: "unix:///x".into(),
            source: "refused".into(),
        }
    }

    #[test]
    fn what_is_tried_again_is_what_the_table_says() {
        let policy = RetryPolicy::default();
        let now = Duration::ZERO;
        for repeat in [Repeat::Harmless, Repeat::Launch, Repeat::Harmful] {
            assert!(policy.repeats(&refused(), repeat, now));
            assert!(policy.repeats(&status(503, "recovering"), repeat, now));
            assert!(policy.repeats(&status(404, "404 Not Found."), repeat, now));
            assert!(!policy.repeats(&status(404, "404 Not Found."), repeat, policy.starting_for));
            for (code, body) in [
                (400, ""),
                (401, ""),
                (403, ""),
                (404, "Container x cannot be found"),
                (500, ""),
            ] {
                assert!(!policy.repeats(&status(code, body), repeat, now), "{code}");
            }
            for error in [refused(), status(503, ""), status(404, "404 Not Found.")] {
                assert!(!RetryPolicy::never().repeats(&error, repeat, now));
            }
        }
    }

    #[test]
    fn the_default_begins_quickly_and_stays_patient() {
        let backoff = RetryPolicy::default().backoff;
        assert_eq!(backoff.delay(1, 0.0), Duration::from_millis(20));
        assert_eq!(backoff.delay(100, 0.0), Duration::from_secs(2));
        for _ in 0..100 {
            assert!((0.0..1.0).contains(&random()));
        }
    }
}
