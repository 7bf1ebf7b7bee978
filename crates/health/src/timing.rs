//! When a check runs and what it is forgiven.

use std::time::Duration;

use crate::HealthError;

/// The longest time that a Mesos duration can hold: 2^63 nanoseconds, in seconds.
const MAX_SECONDS: f64 = 9_223_372_036.0;

/// When a check runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// From the creation of the checker to the first run (15 s).
    pub delay: Duration,
    /// From the end of one run to the next (10 s).
    pub interval: Duration,
    /// How long one run may take (20 s); zero is no limit of ours.
    pub timeout: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            delay: Duration::from_secs(15),
            interval: Duration::from_secs(10),
            timeout: Duration::from_secs(20),
        }
    }
}

impl Timing {
    /// The limit of one run, or `None`.
    #[must_use]
    pub fn limit(&self) -> Option<Duration> {
        Some(self.timeout).filter(|limit| !limit.is_zero())
    }
}

/// What a health check is forgiven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HealthPolicy {
    /// When it runs.
    pub timing: Timing,
    /// How many failures in a row ask for the kill (3); 0 is as 1.
    pub consecutive_failures: u32,
    /// Failures up to this age of the checker say nothing, until the first success ends it for ever (10 s).
    pub grace_period: Duration,
}

impl Default for HealthPolicy {
    fn default() -> Self {
        Self {
            timing: Timing::default(),
            consecutive_failures: 3,
            grace_period: Duration::from_secs(10),
        }
    }
}

/// A duration from Mesos' seconds.
///
/// # Errors
/// [`HealthError::Seconds`] when they are negative, not finite, or more than 2^63 nanoseconds.
pub fn seconds(field: &'static str, value: f64) -> Result<Duration, HealthError> {
    if !(0.0..=MAX_SECONDS).contains(&value) {
        return Err(HealthError::Seconds { field, value });
    }
    Duration::try_from_secs_f64(value).map_err(|_| HealthError::Seconds { field, value })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_finite_and_not_negative() {
        for value in [-1.0, -1e-9, f64::NAN, f64::INFINITY, 1e10] {
            let error = seconds("delay_seconds", value).unwrap_err().to_string();
            assert!(error.contains("delay_seconds"), "{error}");
            assert!(error.contains(&value.to_string()), "{error}");
        }
        assert_eq!(seconds("x", 0.25).unwrap(), Duration::from_millis(250));
        assert_eq!(seconds("x", -0.0).unwrap(), Duration::ZERO);
    }
}
