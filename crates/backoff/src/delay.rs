//! Exponential backoff with jitter.

use std::time::Duration;

use crate::BackoffError;

/// An exponential backoff: `initial`, twice that, four times that .. up to `max`, each shortened by a
/// random part of up to `jitter` of it, so that many programs do not come back at the same moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Backoff {
    initial: Duration,
    max: Duration,
    jitter: f64,
}

impl Default for Backoff {
    /// From 1 s up to 1 min, with a jitter of a quarter.
    fn default() -> Self {
        Self {
            initial: Duration::from_secs(1),
            max: Duration::from_secs(60),
            jitter: 0.25,
        }
    }
}

impl Backoff {
    /// A backoff from `initial` (over zero) up to `max`, with `jitter` from 0 (none) to 1.
    ///
    /// # Errors
    /// When `initial` is zero or over `max`, or `jitter` is not from 0 to 1.
    pub fn new(initial: Duration, max: Duration, jitter: f64) -> Result<Self, BackoffError> {
        if initial.is_zero() {
            return Err(BackoffError::ZeroInitial);
        }
        if initial > max {
            return Err(BackoffError::InitialAboveMax { initial, max });
        }
        if !(0.0..=1.0).contains(&jitter) {
            return Err(BackoffError::Jitter { jitter });
        }
        Ok(Self {
            initial,
            max,
            jitter,
        })
    }

    /// The delay before the next attempt, after `failures` failures in a row: zero after none, then
    /// `min(initial * 2^(failures - 1), max)` less `jitter * random` of it.
    ///
    /// `random` is meant to be uniform in 0 to 1.
    #[must_use]
    pub fn delay(&self, failures: u32, random: f64) -> Duration {
        let Some(doublings) = failures.checked_sub(1) else {
            return Duration::ZERO;
        };
        let full = 1u32
            .checked_shl(doublings)
            .and_then(|factor| self.initial.checked_mul(factor))
            .map_or(self.max, |delay| delay.min(self.max));
        let random = if random.is_nan() {
            0.0
        } else {
            random.clamp(0.0, 1.0)
        };
        full.saturating_sub(part(full, self.jitter * random))
    }

    /// The shortest full delay.
    #[must_use]
    pub const fn initial(&self) -> Duration {
        self.initial
    }

    /// The longest delay.
    #[must_use]
    pub const fn max(&self) -> Duration {
        self.max
    }

    /// The part of a delay that is random, from 0 to 1.
    #[must_use]
    pub const fn jitter(&self) -> f64 {
        self.jitter
    }
}

/// `whole * fraction` for a fraction from 0 to 1, without a way to overflow.
fn part(whole: Duration, fraction: f64) -> Duration {
    Duration::try_from_secs_f64(whole.as_secs_f64() * fraction)
        .unwrap_or(whole)
        .min(whole)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn doubles_up_to_the_maximum() {
        let backoff = Backoff::new(SECOND, 60 * SECOND, 0.0).unwrap();
        let expected = [0, 1, 2, 4, 8, 16, 32, 60, 60];
        for (failures, seconds) in (0u32..).zip(expected) {
            assert_eq!(
                backoff.delay(failures, 0.7),
                seconds * SECOND,
                "after {failures}"
            );
        }
        assert_eq!(backoff.delay(33, 0.0), 60 * SECOND);
        assert_eq!(backoff.delay(u32::MAX, 0.0), 60 * SECOND);
    }

    #[test]
    fn jitter_shortens_and_odd_random_numbers_are_clamped() {
        let backoff = Backoff::new(SECOND, 60 * SECOND, 0.5).unwrap();
        for (random, millis) in [
            (0.0, 2000),
            (0.5, 1500),
            (1.0, 1000),
            (-3.0, 2000),
            (9.0, 1000),
            (f64::NAN, 2000),
            (f64::INFINITY, 1000),
        ] {
            assert_eq!(
                backoff.delay(2, random),
                Duration::from_millis(millis),
                "{random}"
            );
        }
    }

    #[test]
    fn refuses_values_that_make_no_backoff() {
        let refused = |initial, max, jitter| Backoff::new(initial, max, jitter).unwrap_err();
        assert_eq!(
            refused(Duration::ZERO, SECOND, 0.0),
            BackoffError::ZeroInitial
        );
        let swapped = BackoffError::InitialAboveMax {
            initial: 2 * SECOND,
            max: SECOND,
        };
        assert_eq!(refused(2 * SECOND, SECOND, 0.0), swapped);
        assert_eq!(
            refused(SECOND, SECOND, 1.1),
            BackoffError::Jitter { jitter: 1.1 }
        );
        assert!(matches!(
            refused(SECOND, SECOND, f64::NAN),
            BackoffError::Jitter { .. }
        ));
    }

    proptest! {
        #[test]
        fn a_delay_stays_within_its_bounds(
            initial in 1u64..u64::MAX,
            extra in 0u64..u64::MAX,
            jitter in 0.0f64..=1.0,
            failures: u32,
            random: f64,
        ) {
            let initial = Duration::from_nanos(initial);
            let max = initial + Duration::from_nanos(extra);
            let backoff = Backoff::new(initial, max, jitter).unwrap();
            let delay = backoff.delay(failures, random);
            let full = backoff.delay(failures, 0.0);
            prop_assert!(delay <= full && full <= max);
            let least = full.as_secs_f64() * (1.0 - jitter);
            prop_assert!(delay.as_secs_f64() >= least * 0.999_999 - 1e-9);
            prop_assert!(failures == 0 || full >= initial);
            prop_assert!(backoff.delay(failures.saturating_add(1), 0.0) >= full);
        }
    }
}
