//! The start limit: so many starts within so much time, and the program counts as failing.

use std::collections::VecDeque;
use std::time::Duration;

use crate::BackoffError;

/// The most starts that a [`StartLimit`] can count.
pub const BURST_MAX: u32 = 10_000;

/// At most `burst` starts within `window` (systemd's `StartLimitBurst=` and `StartLimitIntervalSec=`,
/// there 5 in 10 s). A burst or window of zero means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StartLimit {
    burst: u32,
    window: Duration,
}

/// The starts of one program that its limit still counts, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Starts(VecDeque<Duration>);

impl Default for StartLimit {
    /// 5 starts within 2 min.
    fn default() -> Self {
        Self {
            burst: 5,
            window: Duration::from_secs(120),
        }
    }
}

impl StartLimit {
    /// No limit.
    pub const NONE: Self = Self {
        burst: 0,
        window: Duration::ZERO,
    };

    /// At most `burst` starts within `window`.
    ///
    /// # Errors
    /// When `burst` is over [`BURST_MAX`].
    pub const fn new(burst: u32, window: Duration) -> Result<Self, BackoffError> {
        if burst > BURST_MAX {
            return Err(BackoffError::Burst {
                burst,
                max: BURST_MAX,
            });
        }
        Ok(Self { burst, window })
    }

    /// The number of starts that are allowed within the window; 0 is no limit.
    #[must_use]
    pub const fn burst(&self) -> u32 {
        self.burst
    }

    /// The time over which starts are counted; zero is no limit.
    #[must_use]
    pub const fn window(&self) -> Duration {
        self.window
    }

    /// Notes a start at `now`, and forgets those that no longer count.
    pub fn record(&self, starts: &mut Starts, now: Duration) {
        if self.is_none() {
            starts.0.clear();
            return;
        }
        // A clock that went backwards counts as one that stood still, so the times stay sorted.
        let now = starts.0.back().map_or(now, |last| now.max(*last));
        starts.0.push_back(now);
        let keep = usize::try_from(self.burst).unwrap_or(usize::MAX);
        while starts.0.len() > keep || starts.0.front().is_some_and(|at| self.over(*at, now)) {
            starts.0.pop_front();
        }
    }

    /// Whether one more start at `now` would be over the limit.
    #[must_use]
    pub fn exceeded(&self, starts: &Starts, now: Duration) -> bool {
        if self.is_none() {
            return false;
        }
        let counted = starts.0.iter().filter(|at| !self.over(**at, now)).count();
        u32::try_from(counted).is_ok_and(|counted| counted >= self.burst)
    }

    fn is_none(&self) -> bool {
        self.burst == 0 || self.window.is_zero()
    }

    /// Whether a start at `at` has left the window that ends at `now`.
    fn over(&self, at: Duration, now: Duration) -> bool {
        now.saturating_sub(at) >= self.window
    }
}

impl Starts {
    /// Forgets all starts, as after a deliberate restart or a stable run.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// The number of starts remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_limit_is_exceeded_until_the_window_has_passed() {
        let limit = StartLimit::new(3, seconds(10)).unwrap();
        let mut starts = Starts::default();
        for at in [0, 4, 8] {
            assert!(!limit.exceeded(&starts, seconds(at)));
            limit.record(&mut starts, seconds(at));
        }
        for (now, exceeded) in [(8, true), (9, true), (10, false), (13, false), (100, false)] {
            assert_eq!(
                limit.exceeded(&starts, seconds(now)),
                exceeded,
                "at {now} s"
            );
        }
    }

    #[test]
    fn zero_means_no_limit_and_remembers_nothing() {
        for limit in [StartLimit::NONE, StartLimit::new(0, seconds(1)).unwrap()] {
            let mut starts = Starts::default();
            for at in 0..100 {
                limit.record(&mut starts, Duration::from_millis(at));
            }
            assert!(starts.is_empty() && !limit.exceeded(&starts, seconds(0)));
        }
    }

    #[test]
    fn a_clock_that_goes_backwards_stands_still() {
        let limit = StartLimit::new(2, seconds(10)).unwrap();
        let mut starts = Starts::default();
        limit.record(&mut starts, seconds(100));
        limit.record(&mut starts, seconds(50));
        assert!(limit.exceeded(&starts, seconds(50)));
        assert!(!limit.exceeded(&starts, seconds(110)));
    }

    #[test]
    fn an_endless_burst_is_refused() {
        let error = StartLimit::new(BURST_MAX + 1, seconds(1)).unwrap_err();
        assert_eq!(
            error,
            BackoffError::Burst {
                burst: BURST_MAX + 1,
                max: BURST_MAX
            }
        );
    }

    proptest! {
        #[test]
        fn agrees_with_counting_all_starts(
            burst in 1u32..8,
            window in 1u64..50,
            mut times in proptest::collection::vec(0u64..200, 0..60),
            later in 0u64..60,
        ) {
            times.sort_unstable();
            let limit = StartLimit::new(burst, seconds(window)).unwrap();
            let mut starts = Starts::default();
            for at in &times {
                limit.record(&mut starts, seconds(*at));
                prop_assert!(starts.len() <= usize::try_from(burst).unwrap());
            }
            let now = times.last().copied().unwrap_or(0) + later;
            let counted = times.iter().filter(|at| now - **at < window).count();
            let exceeded = counted >= usize::try_from(burst).unwrap();
            prop_assert_eq!(limit.exceeded(&starts, seconds(now)), exceeded);
        }
    }
}
