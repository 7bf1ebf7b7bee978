//! Whether a container is healthy: the pure part.
//!
//! ```text
//!   a failure, never healthy yet, age <= grace          a failure
//!        ┌───────┐                                     ┌──────────┐
//!        └► Unproven ── success: report healthy ──► Healthy ──────┴─► Failing(n) ── n >= limit ──► report with kill
//!             └─ a failure after the grace ────────────────────────────► │  ▲ a failure: report unhealthy
//!                                                  ▲                     │  └──┘
//!                                                  └ success: report healthy
//! ```
//!
//! The first success ends the grace for ever. A success after a success tells nothing; a failure always does.

use std::time::Duration;

use crate::timeline::Timeline;
use crate::watch::Machine;
use crate::{CheckerAction, CheckerEvent, HealthPolicy, Probe, ProbeResult};

/// What is told about a container's health.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthReport {
    /// Whether it is healthy.
    pub healthy: bool,
    /// Whether it failed as often in a row as its policy allows, and is to be killed. Told with each further failure.
    pub kill: bool,
    /// How many failures in a row; 0 when it is healthy.
    pub failures: u32,
    /// What is wrong, one line; empty when it is healthy.
    pub reason: String,
}

/// The state of one health check. Pure: no clock, no I/O.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthState {
    probe: Probe,
    limit: u32,
    grace: Duration,
    timeline: Timeline,
    failures: u32,
    /// It has been healthy once.
    proven: bool,
    last: Option<bool>,
}

enum Verdict {
    Passed,
    Failed,
    Unknown,
}

impl HealthState {
    /// A checker that was created at the time 0.
    #[must_use]
    pub const fn new(probe: Probe, policy: &HealthPolicy) -> Self {
        Self {
            probe,
            limit: policy.consecutive_failures,
            grace: policy.grace_period,
            timeline: Timeline::new(policy.timing.delay, policy.timing.interval),
            failures: 0,
            proven: false,
            last: None,
        }
    }

    /// What was last told, if anything was: what each later status of the task repeats.
    #[must_use]
    pub const fn healthy(&self) -> Option<bool> {
        self.last
    }

    fn judge(&self, result: &ProbeResult) -> Verdict {
        let passed = match (&self.probe, result) {
            (_, ProbeResult::Transient(_)) => return Verdict::Unknown,
            (Probe::Command(_), ProbeResult::Exited(status)) => *status == 0,
            (Probe::Http(probe), ProbeResult::Status(status)) => probe.accepts(*status),
            (Probe::Tcp(_), ProbeResult::Connected) => true,
            (Probe::Command(_) | Probe::Http(_) | Probe::Tcp(_), _) => false,
        };
        if passed {
            Verdict::Passed
        } else {
            Verdict::Failed
        }
    }

    fn passed(&mut self) -> Option<HealthReport> {
        let news = !self.proven || self.failures > 0;
        self.proven = true;
        self.failures = 0;
        news.then(|| HealthReport {
            healthy: true,
            kill: false,
            failures: 0,
            reason: String::new(),
        })
    }

    fn failed(&mut self, result: &ProbeResult, now: Duration) -> Option<HealthReport> {
        if !self.proven && !self.grace.is_zero() && now <= self.grace {
            return None;
        }
        self.failures = self.failures.saturating_add(1);
        Some(HealthReport {
            healthy: false,
            kill: self.failures >= self.limit,
            failures: self.failures,
            reason: result.reason(),
        })
    }
}

impl Machine for HealthState {
    type Report = HealthReport;

    fn due(&self) -> Option<Duration> {
        self.timeline.due()
    }

    fn step(
        &mut self,
        event: CheckerEvent,
        now: Duration,
        actions: &mut Vec<CheckerAction<HealthReport>>,
    ) {
        let Some(result) = self.timeline.step(event, now, actions) else {
            return;
        };
        let report = match self.judge(&result) {
            Verdict::Unknown => None,
            Verdict::Passed => self.passed(),
            Verdict::Failed => self.failed(&result, now),
        };
        if let Some(report) = report {
            self.last = Some(report.healthy);
            actions.push(CheckerAction::Report(report));
        }
    }
}

#[cfg(test)]
mod tests;
