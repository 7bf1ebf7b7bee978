//! What is done next about one registration. Pure: it knows no socket and no clock.
//!
//! ```text
//!             target          bound              told that it is
//!    Down ──────────► Binding ─────► Offered ──────────────────► Registered
//!     ▲                ▲  │ failed      │  ▲                          │
//!     │      retry, or │  ▼             │  └── told that it is ◄──┐   │ told that it is not
//!     │   a change of  Blocked          └── told that it is not ► Refused
//!     │  the directory    ▲                                          │
//!     │                   └── lost, too soon ──┐         retry: the socket is made anew
//!     └── no target ── any                  Offered, Registered, Refused ── lost ──► Binding
//! ```
//!
//! While a registration is refused its socket stays: kubelet may ask again by itself. Where it does not (it keeps a
//! plugin whose registration failed halfway as registered), a new socket makes it.

use std::time::Duration;

use longshore_backoff::Backoff;

use crate::target::Target;

/// A socket that was there for so long is not one that somebody removes again and again.
pub(crate) const STABLE: Duration = Duration::from_secs(10);
/// A directory that changes all the time is no reason to try more often.
pub(crate) const FLOOR: Duration = Duration::from_secs(1);

/// A moment: time since an epoch of the driver's, and a number in `0.0..1.0` for jitter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) now: Duration,
    pub(crate) random: f64,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Machine {
    pub(crate) backoff: Backoff,
    pub(crate) target: Option<Target>,
    pub(crate) phase: Phase,
    /// In a row.
    pub(crate) failures: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// There is nothing to register.
    Down,
    /// The socket is being made, since.
    Binding { since: Duration },
    /// There is no socket. `tried`: when; `None` when a change of the directory alone does not help.
    Blocked {
        reason: String,
        retry: Duration,
        tried: Option<Duration>,
    },
    /// Kubelet has said nothing.
    Offered { since: Duration },
    /// Kubelet has said yes, first at `since`.
    Registered { since: Duration },
    /// Kubelet has said no.
    Refused {
        error: String,
        retry: Duration,
        since: Duration,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// What is to be registered now.
    Target(Option<Target>),
    /// What became of the last [`Action::Bind`].
    Bound(Result<(), String>),
    /// The socket is not there any more, or another one is.
    Lost,
    /// Something happened in the directory.
    Changed,
    /// What kubelet says of the socket that is there.
    Told(Result<(), String>),
    /// The deadline is over.
    Due,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Make the socket and serve it.
    Bind(Target),
    /// Serve it no more, and remove it.
    Release,
}

impl Machine {
    pub(crate) fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            target: None,
            phase: Phase::Down,
            failures: 0,
        }
    }

    /// When [`Event::Due`] is due.
    pub(crate) fn deadline(&self) -> Option<Duration> {
        match self.phase {
            Phase::Blocked { retry, .. } | Phase::Refused { retry, .. } => Some(retry),
            Phase::Down
            | Phase::Binding { .. }
            | Phase::Offered { .. }
            | Phase::Registered { .. } => None,
        }
    }

    /// A socket of ours is there.
    pub(crate) fn serves(&self) -> bool {
        self.served_since().is_some()
    }

    fn served_since(&self) -> Option<Duration> {
        match self.phase {
            Phase::Offered { since }
            | Phase::Registered { since }
            | Phase::Refused { since, .. } => Some(since),
            Phase::Down | Phase::Binding { .. } | Phase::Blocked { .. } => None,
        }
    }

    /// Takes over what happened, and says what to do, in this order.
    pub(crate) fn step(&mut self, event: Event, at: At) -> Vec<Action> {
        match event {
            Event::Target(target) => self.aim(target, at),
            Event::Bound(outcome) => self.bound(outcome, at),
            Event::Lost => self.lost(at),
            Event::Changed => self.changed(at),
            Event::Told(answer) => self.told(answer, at),
            Event::Due => self.due(at),
        }
    }

    fn bind(&mut self, at: At) -> Vec<Action> {
        let Some(target) = self.target.clone() else {
            self.phase = Phase::Down;
            return Vec::new();
        };
        self.phase = Phase::Binding { since: at.now };
        vec![Action::Bind(target)]
    }

    fn release(&self) -> Vec<Action> {
        if self.serves() {
            vec![Action::Release]
        } else {
            Vec::new()
        }
    }

    fn aim(&mut self, target: Option<Target>, at: At) -> Vec<Action> {
        if self.target == target {
            return Vec::new();
        }
        let mut actions = self.release();
        self.target = target;
        self.failures = 0;
        actions.extend(self.bind(at));
        actions
    }

    fn bound(&mut self, outcome: Result<(), String>, at: At) -> Vec<Action> {
        let Phase::Binding { since: tried } = self.phase else {
            return Vec::new();
        };
        self.phase = match outcome {
            Ok(()) => Phase::Offered { since: at.now },
            Err(reason) => Phase::Blocked {
                reason,
                retry: self.next(at),
                tried: Some(tried),
            },
        };
        Vec::new()
    }

    fn lost(&mut self, at: At) -> Vec<Action> {
        let Some(since) = self.served_since() else {
            return Vec::new();
        };
        let mut actions = self.release();
        if at.now.saturating_sub(since) >= STABLE {
            self.failures = 0;
        }
        if self.failures == 0 {
            self.failures = 1;
            actions.extend(self.bind(at));
        } else {
            let retry = self.next(at);
            self.phase = Phase::Blocked {
                reason: "somebody removes its socket again and again".to_owned(),
                retry,
                tried: None,
            };
        }
        actions
    }

    fn changed(&mut self, at: At) -> Vec<Action> {
        let Phase::Blocked {
            retry,
            tried: Some(tried),
            ..
        } = &mut self.phase
        else {
            return Vec::new();
        };
        let floor = *tried + FLOOR;
        if at.now < floor {
            *retry = floor.min(*retry);
            return Vec::new();
        }
        self.bind(at)
    }

    fn told(&mut self, answer: Result<(), String>, at: At) -> Vec<Action> {
        let Some(since) = self.served_since() else {
            return Vec::new();
        };
        match (answer, &mut self.phase) {
            // Once more: kubelet was started again.
            (Ok(()), Phase::Registered { .. }) => {}
            (Ok(()), _) => self.phase = Phase::Registered { since: at.now },
            // Kubelet tries by itself; the time at which it is made to stays.
            (Err(reason), Phase::Refused { error, .. }) => *error = reason,
            (Err(error), phase) => {
                let stable = matches!(phase, Phase::Registered { .. })
                    && at.now.saturating_sub(since) >= STABLE;
                if stable {
                    self.failures = 0;
                }
                let retry = self.next(at);
                self.phase = Phase::Refused {
                    error,
                    retry,
                    since,
                };
            }
        }
        Vec::new()
    }

    fn due(&mut self, at: At) -> Vec<Action> {
        if self.deadline().is_none_or(|due| at.now < due) {
            return Vec::new();
        }
        let mut actions = self.release();
        actions.extend(self.bind(at));
        actions
    }

    /// One more failure: when it is tried again.
    fn next(&mut self, at: At) -> Duration {
        self.failures = self.failures.saturating_add(1);
        at.now + self.backoff.delay(self.failures, at.random)
    }
}

#[cfg(test)]
mod tests;
