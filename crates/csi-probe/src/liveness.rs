//! Whether a plugin that was ready still is: the pure part.
//!
//! ```text
//!            ok                  failed                 failed × threshold
//!   Unproven ──► Healthy ◄──────────────── Suspect(n) ──────────────────► Unhealthy
//!      │            ▲  └─ failed ──────────►   ▲                              │
//!      └─ failed ───┼──────────────────────────┘                              │
//!                   └────────────────────────── ok: Recovered ────────────────┘
//! ```

use std::{num::NonZeroU32, time::Duration};

use crate::SocketId;

/// How often a plugin is probed, and how much it is forgiven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LivenessPolicy {
    /// From one probe to the next (30 s); at least 1 ms. The first one comes after a part of it.
    pub interval: Duration,
    /// How long one probe may take, dialling included (5 s).
    pub timeout: Duration,
    /// How many probes in a row must fail until the plugin is unhealthy (3).
    pub failure_threshold: NonZeroU32,
}

impl Default for LivenessPolicy {
    fn default() -> Self {
        Self {
            interval: Duration::from_secs(30),
            timeout: Duration::from_secs(5),
            failure_threshold: NonZeroU32::MIN.saturating_add(2),
        }
    }
}

/// What is worth telling. Probes that pass one after another are not.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LivenessEvent {
    /// The first probe passed.
    Healthy,
    /// A probe failed, and the plugin is still taken for healthy.
    Failed {
        /// The how manyth in a row.
        failures: u32,
        /// One line.
        reason: String,
    },
    /// As many probes in a row failed as the policy forgives. Told once, until it recovers.
    Unhealthy {
        /// How many.
        failures: u32,
        /// The last one's reason, one line.
        reason: String,
    },
    /// A probe passed after some that failed.
    Recovered {
        /// How many had failed.
        failures: u32,
    },
    /// A probe passed, on another socket file than before: the plugin was started anew behind our back.
    Replaced {
        /// The file before.
        before: SocketId,
        /// The file now.
        now: SocketId,
    },
}

/// What one probe came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LivenessResult {
    /// Ready, on this socket file (`None` for TCP).
    Passed(Option<SocketId>),
    /// The reason, one line.
    Failed(String),
}

/// The state of one plugin. Pure: no clock, no I/O.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Liveness {
    threshold: NonZeroU32,
    failures: u32,
    proven: bool,
    socket: Option<SocketId>,
}

impl Liveness {
    /// `socket` is the file on which the plugin was found ready, where that is known.
    #[must_use]
    pub const fn new(policy: &LivenessPolicy, socket: Option<SocketId>) -> Self {
        Self {
            threshold: policy.failure_threshold,
            failures: 0,
            proven: false,
            socket,
        }
    }

    /// Whether the failures in a row have reached the threshold.
    #[must_use]
    pub const fn is_unhealthy(&self) -> bool {
        self.failures >= self.threshold.get()
    }

    /// Takes one probe's result; at most two events come of it.
    #[must_use]
    pub fn step(&mut self, result: LivenessResult) -> Vec<LivenessEvent> {
        match result {
            LivenessResult::Passed(socket) => self.passed(socket),
            LivenessResult::Failed(reason) => self.failed(reason).into_iter().collect(),
        }
    }

    fn passed(&mut self, socket: Option<SocketId>) -> Vec<LivenessEvent> {
        let failures = std::mem::take(&mut self.failures);
        let proven = std::mem::replace(&mut self.proven, true);
        let before = std::mem::replace(&mut self.socket, socket);
        let mut events = Vec::new();
        if let (Some(before), Some(now)) = (before, socket)
            && before != now
        {
            events.push(LivenessEvent::Replaced { before, now });
        }
        if failures > 0 {
            events.push(LivenessEvent::Recovered { failures });
        } else if !proven {
            events.push(LivenessEvent::Healthy);
        }
        events
    }

    fn failed(&mut self, reason: String) -> Option<LivenessEvent> {
        let was_unhealthy = self.is_unhealthy();
        self.failures = self.failures.saturating_add(1);
        let failures = self.failures;
        match (was_unhealthy, self.is_unhealthy()) {
            (true, _) => None,
            (false, true) => Some(LivenessEvent::Unhealthy { failures, reason }),
            (false, false) => Some(LivenessEvent::Failed { failures, reason }),
        }
    }
}

#[cfg(test)]
mod tests;
