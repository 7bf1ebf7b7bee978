//! What a check finds, told only when it differs from what was told last: the pure part.
//!
//! A check judges nothing and kills nothing. It begins with a status that has a type and no value; an error or a
//! timeout leads back to that.

use std::time::Duration;

use crate::timeline::Timeline;
use crate::watch::Machine;
use crate::{CheckerAction, CheckerEvent, Probe, ProbeResult, Timing};

/// What a check found; `None` where it has no value (yet, or any more).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckStatus {
    /// The exit code of the command.
    Command(Option<i32>),
    /// The HTTP status.
    Http(Option<u16>),
    /// Whether the connection was accepted.
    Tcp(Option<bool>),
}

impl CheckStatus {
    /// The status of a check that has found nothing yet.
    #[must_use]
    pub const fn empty(probe: &Probe) -> Self {
        match probe {
            Probe::Command(_) => Self::Command(None),
            Probe::Http(_) => Self::Http(None),
            Probe::Tcp(_) => Self::Tcp(None),
        }
    }

    const fn cleared(self) -> Self {
        match self {
            Self::Command(_) => Self::Command(None),
            Self::Http(_) => Self::Http(None),
            Self::Tcp(_) => Self::Tcp(None),
        }
    }
}

/// The state of one check. Pure: no clock, no I/O.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckState {
    timeline: Timeline,
    status: CheckStatus,
}

impl CheckState {
    /// A checker that was created at the time 0.
    #[must_use]
    pub const fn new(probe: &Probe, timing: &Timing) -> Self {
        Self {
            timeline: Timeline::new(timing.delay, timing.interval),
            status: CheckStatus::empty(probe),
        }
    }

    /// What was last found: what each status of the task carries.
    #[must_use]
    pub const fn status(&self) -> CheckStatus {
        self.status
    }
}

impl Machine for CheckState {
    type Report = CheckStatus;

    fn due(&self) -> Option<Duration> {
        self.timeline.due()
    }

    fn step(
        &mut self,
        event: CheckerEvent,
        now: Duration,
        actions: &mut Vec<CheckerAction<CheckStatus>>,
    ) {
        let Some(result) = self.timeline.step(event, now, actions) else {
            return;
        };
        let found = match (self.status, result) {
            (_, ProbeResult::Transient(_)) => return,
            (CheckStatus::Command(_), ProbeResult::Exited(status)) => {
                CheckStatus::Command(Some(status))
            }
            (CheckStatus::Http(_), ProbeResult::Status(status)) => CheckStatus::Http(Some(status)),
            (CheckStatus::Tcp(_), ProbeResult::Connected) => CheckStatus::Tcp(Some(true)),
            (CheckStatus::Tcp(_), ProbeResult::Refused(_)) => CheckStatus::Tcp(Some(false)),
            (status, _) => status.cleared(),
        };
        if found != self.status {
            self.status = found;
            actions.push(CheckerAction::Report(found));
        }
    }
}

#[cfg(test)]
mod tests;
