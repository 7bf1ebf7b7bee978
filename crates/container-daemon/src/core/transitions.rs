//! How the core gets from phase to phase, and when the next start is.

use std::time::Duration;

use super::{Action, At, Because, Core, KILL_AGAIN, Outcome, Phase, SIGKILL, SIGTERM, Timer};

impl Core {
    pub(super) fn down(&mut self) {
        self.phase = Phase::Down;
        self.unsure = false;
        self.next_retry = None;
        self.failing = false;
        self.reason.clear();
    }

    pub(super) fn prepare(&mut self, actions: &mut Vec<Action>) {
        self.phase = Phase::Preparing;
        self.next_retry = None;
        actions.push(Action::Prepare);
    }

    pub(super) fn launch(&mut self, actions: &mut Vec<Action>) {
        self.phase = Phase::Launching;
        self.next_retry = None;
        self.kill_at = self.grace;
        actions.push(Action::Launch);
    }

    pub(super) fn begin_attempt(&mut self, actions: &mut Vec<Action>) {
        if self.unsure {
            self.launch(actions);
        } else {
            self.prepare(actions);
        }
    }

    pub(super) fn enter_starting(&mut self, actions: &mut Vec<Action>) {
        self.phase = Phase::Starting;
        self.unsure = false;
        self.hook_failures = 0;
        self.arm_wait(actions);
        actions.push(Action::PostStart);
    }

    pub(super) fn enter_stopping(
        &mut self,
        because: Because,
        grace: Duration,
        at: At,
        actions: &mut Vec<Action>,
    ) {
        if self.phase == Phase::Starting {
            actions.push(Action::Cancel);
            actions.push(Action::Disarm(Timer::Retry));
        }
        self.phase = Phase::Stopping;
        self.because = because;
        self.next_retry = None;
        self.kill_failures = 0;
        self.arm_wait(actions);
        if grace.is_zero() {
            self.send_kill(at, actions);
        } else {
            self.signal = SIGTERM;
            self.kill_at = at.now + grace;
            actions.push(Action::Kill(SIGTERM));
            actions.push(Action::Arm(Timer::Escalate, grace));
        }
    }

    /// A later stop can only shorten the grace.
    pub(super) fn shorten(&mut self, grace: Duration, at: At, actions: &mut Vec<Action>) {
        if self.signal == SIGTERM && at.now + grace < self.kill_at {
            if grace.is_zero() {
                self.send_kill(at, actions);
            } else {
                self.kill_at = at.now + grace;
                actions.push(Action::Arm(Timer::Escalate, grace));
            }
        }
    }

    pub(super) fn send_kill(&mut self, at: At, actions: &mut Vec<Action>) {
        self.signal = SIGKILL;
        self.kill_at = at.now;
        actions.push(Action::Disarm(Timer::Rekill));
        actions.push(Action::Kill(SIGKILL));
        actions.push(Action::Arm(Timer::Escalate, KILL_AGAIN));
    }

    pub(super) fn arm_wait(&mut self, actions: &mut Vec<Action>) {
        if !self.waiting {
            self.waiting = true;
            self.wait_failures = 0;
            actions.push(Action::Wait);
        }
    }

    /// Decides when the next start is.
    pub(super) fn pause(&mut self, outcome: Outcome, at: At, actions: &mut Vec<Action>) {
        let immediate = match outcome {
            Outcome::Requested => {
                self.prepare(actions);
                return;
            }
            Outcome::Unreachable => false,
            Outcome::Ended { ran, stable } => {
                if stable {
                    self.forget_failures();
                }
                self.count_start(at);
                ran && self.failures == 0
            }
            Outcome::Failed { permanent } => {
                self.count_start(at);
                self.failing |= permanent;
                false
            }
        };
        self.failures = self.failures.saturating_add(1);
        if immediate && !self.failing {
            self.prepare(actions);
            return;
        }
        let delay = if self.failing && outcome != Outcome::Unreachable {
            self.policy.slow_retry
        } else {
            self.policy
                .backoff
                .delay(self.failures.saturating_sub(1).max(1), at.random)
        };
        self.phase = Phase::Pausing;
        self.next_retry = Some(at.now + delay);
        actions.push(Action::Arm(Timer::Retry, delay));
    }

    pub(super) fn count_start(&mut self, at: At) {
        let limit = self.policy.start_limit;
        limit.record(&mut self.starts, at.now);
        self.failing |= limit.exceeded(&self.starts, at.now);
    }

    pub(super) fn forget_failures(&mut self) {
        self.failures = 0;
        self.failing = false;
        self.starts.clear();
    }
}
