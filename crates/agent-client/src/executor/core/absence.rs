//! Life without a subscription, and the end.

use std::time::Duration;

use super::super::event::{Ending, ExecutorEvent, ShutdownCause};
use super::{
    ACKNOWLEDGE, Action, At, Core, DEFAULT_BACKOFF, Link, MIN_PAUSE, NOT_READY, Refusal,
    STOP_ALONE, Timer,
};

impl Core {
    pub(super) fn broken(&mut self, why: String, at: At, out: &mut Vec<Action>) {
        if matches!(self.link, Link::Attempting | Link::Subscribed { .. }) {
            self.lost(Refusal::Unreachable, why, at, out);
        }
    }

    /// There is no subscription (any more).
    pub(super) fn lost(&mut self, refusal: Refusal, reason: String, at: At, out: &mut Vec<Action>) {
        let lasted = match self.link {
            Link::Subscribed { since } => Some(at.now.saturating_sub(since)),
            _ => None,
        };
        out.push(Action::Close);
        out.push(Action::Disarm(Timer::Attempt));
        out.push(Action::Disarm(Timer::Heartbeat));
        self.in_flight = None;
        self.heartbeat_due = false;
        self.messages.clear();
        for update in &mut self.updates {
            update.sent = false;
        }
        self.link = Link::Pausing;
        if !std::mem::replace(&mut self.away, true) {
            out.push(Action::Tell(ExecutorEvent::Disconnected { reason }));
        }
        self.wait_or_give_up(refusal, out);
        self.bound_the_end(at, out);
        self.end_if_done(out);
        if self.has_ended() {
            return;
        }
        let backoff = self
            .settings
            .checkpoint
            .map_or(DEFAULT_BACKOFF, |checkpoint| checkpoint.backoff_max);
        if lasted.is_some_and(|lasted| lasted >= backoff) {
            self.attempt(out);
        } else {
            // NaN is no part of anything: it counts as none.
            let part = if at.random.is_nan() {
                0.0
            } else {
                at.random.clamp(0.0, 1.0)
            };
            let pause = backoff.mul_f64(part).max(MIN_PAUSE);
            out.push(Action::Arm(Timer::Retry, pause));
        }
    }

    /// Lets the recovery timeout begin, or stops for want of an agent.
    pub(super) fn wait_or_give_up(&mut self, refusal: Refusal, out: &mut Vec<Action>) {
        if self.recovering || self.shutdown.is_some() {
            return;
        }
        let timeout = match (self.was_subscribed, refusal, self.settings.checkpoint) {
            (true, _, Some(checkpoint)) => checkpoint.recovery_timeout,
            (false, Refusal::Unreachable, Some(checkpoint)) => {
                checkpoint.recovery_timeout.min(NOT_READY)
            }
            (false, Refusal::NotReady, _) => NOT_READY,
            (true, _, None)
            | (false, Refusal::Unreachable, None)
            | (false, Refusal::Refused, _) => {
                return self.shut_down(ShutdownCause::AgentLost, out);
            }
        };
        self.recovering = true;
        out.push(Action::Arm(Timer::Recovery, timeout));
    }

    pub(super) fn shut_down(&mut self, cause: ShutdownCause, out: &mut Vec<Action>) {
        let bound = match (cause, self.shutdown) {
            (_, Some(ShutdownCause::Agent)) | (ShutdownCause::AgentLost, Some(_)) => return,
            // The agent kills what is left after the grace: be gone by then.
            (ShutdownCause::Agent, _) => self.settings.shutdown_grace,
            (ShutdownCause::AgentLost, None) => STOP_ALONE,
        };
        let first = self.shutdown.is_none();
        self.shutdown = Some(cause);
        if self.recovering {
            self.recovering = false;
            out.push(Action::Disarm(Timer::Recovery));
        }
        if !self.settings.local {
            out.push(Action::Arm(Timer::Shutdown, bound));
        }
        if first {
            out.push(Action::Tell(ExecutorEvent::Shutdown {
                cause,
                grace: self.settings.shutdown_grace,
            }));
        }
        self.end_if_done(out);
    }

    /// How long the end may take from now on. Time without an agent counts only up to the recovery timeout.
    pub(super) fn bound_the_end(&self, at: At, out: &mut Vec<Action>) {
        let Some(since) = self.finishing else {
            return;
        };
        let away = self
            .settings
            .checkpoint
            .map_or(Duration::ZERO, |checkpoint| checkpoint.recovery_timeout);
        let left = (since + away + ACKNOWLEDGE).saturating_sub(at.now);
        let bound = if self.is_subscribed() {
            left.min(ACKNOWLEDGE)
        } else {
            left
        };
        out.push(Action::Arm(Timer::Finish, bound));
    }

    pub(super) fn end_if_done(&mut self, out: &mut Vec<Action>) {
        if self.finishing.is_none() {
            return;
        }
        let unacknowledged = self.updates.len();
        if self.shutdown == Some(ShutdownCause::AgentLost) && !self.is_subscribed() {
            self.end(Ending::AgentLost { unacknowledged }, out);
        } else if unacknowledged == 0 {
            self.end(Ending::Acknowledged, out);
        }
    }

    pub(super) fn end(&mut self, ending: Ending, out: &mut Vec<Action>) {
        if self.has_ended() {
            return;
        }
        self.link = Link::Ended;
        out.push(Action::Close);
        out.push(Action::Tell(ExecutorEvent::Ended(ending)));
    }
}
