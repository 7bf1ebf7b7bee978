//! When to connect again: pure, the stub's loop performs it.
//!
//! ```text
//!            connection ends                 delay passes
//!   serving ────────────────▶ waiting ─────────────────────▶ connecting ─▶ serving
//!                                ▲      attempt fails            │
//!                                └───────────────────────────────┘
//! ```

use std::time::Duration;

use longshore_backoff::Backoff;

/// A connection that lasted this long ends a row of failures.
const STABLE: Duration = Duration::from_secs(10);

/// The failures in a row.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    failures: u32,
}

impl Attempts {
    /// How long to wait after a connection that was in use for this long, or after an attempt
    /// that came to none. `random` is from 0 to 1.
    pub(crate) fn ended(
        &mut self,
        served: Option<Duration>,
        backoff: &Backoff,
        random: f64,
    ) -> Duration {
        if served.is_some_and(|served| served >= STABLE) {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        backoff.delay(self.failures, random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_until_a_connection_has_lasted() {
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(8), 0.0).unwrap();
        let mut attempts = Attempts::default();
        for (served, seconds) in [
            (Some(100), 1),
            (None, 2),
            (None, 4),
            (Some(9), 8),
            (None, 8),
            (Some(10), 1),
            (Some(0), 2),
        ] {
            let served = served.map(Duration::from_secs);
            let delay = attempts.ended(served, &backoff, 0.3);
            assert_eq!(delay, Duration::from_secs(seconds), "{served:?}");
        }
    }
}
