//! How one container of a dead executor goes away: decisions alone.
//!
//! ```text
//!   unpause -> its signal -> .. grace .. -> SIGKILL, again and again -> gone or exited -> remove -> gone
//!      (where the engine does not answer: the same signals to its init, by pidfd)
//! ```

use std::time::Duration;

/// Creating may have been under way when the executor died.
const MAY_STILL_APPEAR: Duration = Duration::from_secs(10);
/// An engine that has not answered for so long is not waited for with the first signal.
const SILENT: Duration = Duration::from_secs(1);
/// Between two SIGKILLs.
const KILL_AGAIN: Duration = Duration::from_secs(1);
/// After the grace. An engine may be down for long, and its containers with it.
const GIVE_UP: Duration = Duration::from_secs(3600);

/// What the engine says about the container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Seen {
    Unanswered,
    Missing,
    Running {
        paused: bool,
    },
    /// Created, exited or dead.
    Down,
}

/// What to do now; looking again comes after each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Act {
    /// Nothing yet.
    Rest,
    Unpause,
    /// Its own signal, by the engine.
    Signal,
    /// Its own signal, to its init.
    SignalInit,
    /// SIGKILL, by the engine and to its init.
    Kill,
    Remove,
    /// It is gone.
    End,
    /// It cannot be ended.
    GiveUp,
}

#[derive(Debug, Clone)]
pub(crate) struct Stop {
    grace: Duration,
    /// The engine has known it.
    known: bool,
    signalled: bool,
    init_signalled: bool,
    killed: Option<Duration>,
}

impl Stop {
    pub(crate) fn new(grace: Duration) -> Self {
        Self {
            grace,
            known: false,
            signalled: false,
            init_signalled: false,
            killed: None,
        }
    }

    /// `since` is the time since the executor was found dead.
    pub(crate) fn next(&mut self, seen: &Seen, since: Duration) -> Act {
        let over = since >= self.grace;
        if since >= self.grace.saturating_add(GIVE_UP) {
            return Act::GiveUp;
        }
        match seen {
            Seen::Missing if self.known || since >= MAY_STILL_APPEAR => Act::End,
            Seen::Missing => Act::Rest,
            Seen::Down => {
                self.known = true;
                Act::Remove
            }
            Seen::Running { .. } | Seen::Unanswered if over => {
                self.known |= *seen != Seen::Unanswered;
                let due = self.killed.is_none_or(|last| since >= last + KILL_AGAIN);
                if due {
                    self.killed = Some(since);
                    return Act::Kill;
                }
                Act::Rest
            }
            Seen::Running { paused } => {
                self.known = true;
                if *paused {
                    return Act::Unpause;
                }
                if std::mem::replace(&mut self.signalled, true) {
                    return Act::Rest;
                }
                Act::Signal
            }
            Seen::Unanswered => {
                if self.signalled || self.init_signalled || since < SILENT {
                    return Act::Rest;
                }
                self.init_signalled = true;
                Act::SignalInit
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(5);
    const RUNS: Seen = Seen::Running { paused: false };
    const PAUSED: Seen = Seen::Running { paused: true };

    /// A history of (milliseconds, what is seen, what is done).
    #[track_caller]
    fn plays(history: &[(u64, Seen, Act)]) {
        let mut stop = Stop::new(GRACE);
        for (at, seen, expected) in history {
            let act = stop.next(seen, Duration::from_millis(*at));
            assert_eq!(act, *expected, "at {at} ms, {seen:?}");
        }
    }

    #[test]
    fn one_that_heeds_its_signal_is_removed() {
        plays(&[
            (0, RUNS, Act::Signal),
            (100, RUNS, Act::Rest),
            (200, Seen::Down, Act::Remove),
            (300, Seen::Missing, Act::End),
        ]);
    }

    #[test]
    fn one_that_ignores_it_is_killed_when_the_grace_is_over_and_again() {
        plays(&[
            (0, RUNS, Act::Signal),
            (4999, RUNS, Act::Rest),
            (5000, RUNS, Act::Kill),
            (5100, RUNS, Act::Rest),
            (6000, RUNS, Act::Kill),
            (6100, Seen::Down, Act::Remove),
            (6200, Seen::Down, Act::Remove),
            (6300, Seen::Missing, Act::End),
        ]);
    }

    #[test]
    fn a_paused_one_is_unpaused_before_its_signal() {
        plays(&[
            (0, PAUSED, Act::Unpause),
            (100, PAUSED, Act::Unpause),
            (200, RUNS, Act::Signal),
            (5000, PAUSED, Act::Kill),
        ]);
    }

    #[test]
    fn without_an_engine_its_init_is_signalled_and_killed() {
        plays(&[
            (0, Seen::Unanswered, Act::Rest),
            (1000, Seen::Unanswered, Act::SignalInit),
            (2000, Seen::Unanswered, Act::Rest),
            (5000, Seen::Unanswered, Act::Kill),
            (6000, Seen::Unanswered, Act::Kill),
            (6100, RUNS, Act::Rest),
            (60_000, Seen::Down, Act::Remove),
            (60_100, Seen::Missing, Act::End),
        ]);
        // One that answers late gets its own signal all the same.
        plays(&[
            (1000, Seen::Unanswered, Act::SignalInit),
            (2000, RUNS, Act::Signal),
            (2100, Seen::Unanswered, Act::Rest),
        ]);
    }

    #[test]
    fn one_that_was_being_created_is_waited_for() {
        plays(&[
            (0, Seen::Missing, Act::Rest),
            (3000, Seen::Down, Act::Remove),
            (3100, Seen::Missing, Act::End),
        ]);
        plays(&[
            (0, Seen::Missing, Act::Rest),
            (9999, Seen::Missing, Act::Rest),
            (10_000, Seen::Missing, Act::End),
        ]);
    }

    #[test]
    fn it_does_not_go_on_for_ever() {
        plays(&[
            (0, Seen::Unanswered, Act::Rest),
            (3_605_000, Seen::Unanswered, Act::GiveUp),
        ]);
        let mut stop = Stop::new(Duration::MAX);
        assert_eq!(stop.next(&RUNS, Duration::from_secs(1)), Act::Signal);
    }
}
