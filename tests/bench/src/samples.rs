//! Measured values, and what is read from them.

use std::error::Error;
use std::time::{Duration, Instant};

/// Why a bench could not go on.
pub type Failure = Box<dyn Error>;

/// Durations of one thing, in the order in which they were measured.
#[derive(Debug, Clone, Default)]
pub struct Samples(Vec<Duration>);

/// With fewer samples a p99 is not judged.
pub(crate) const P99_FROM: usize = 1_000;

impl Samples {
    /// No samples, with room for `n`.
    #[must_use]
    pub fn with_capacity(n: usize) -> Self {
        Self(Vec::with_capacity(n))
    }

    /// Adds one.
    pub fn push(&mut self, sample: Duration) {
        self.0.push(sample);
    }

    /// Measures `run` once and adds the time it took.
    pub fn time<T>(&mut self, run: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let value = run();
        self.0.push(begin.elapsed());
        value
    }

    /// Measures `ours` and `peer` alternately, `n` times each; which is first alternates, too.
    ///
    /// # Errors
    /// The first error of either.
    pub fn pairs<O: Into<Failure>, P: Into<Failure>>(
        n: usize,
        ours: impl FnMut() -> Result<(), O>,
        peer: impl FnMut() -> Result<(), P>,
    ) -> Result<(Self, Self), Failure> {
        Self::pairs_within(Duration::MAX, n, ours, peer)
    }

    /// As [`pairs`](Self::pairs), but ends when `budget` is over, with at least three pairs.
    ///
    /// # Errors
    /// The first error of either.
    pub fn pairs_within<O: Into<Failure>, P: Into<Failure>>(
        budget: Duration,
        n: usize,
        mut ours: impl FnMut() -> Result<(), O>,
        mut peer: impl FnMut() -> Result<(), P>,
    ) -> Result<(Self, Self), Failure> {
        let (mut our_times, mut peer_times) = (Self::with_capacity(n), Self::with_capacity(n));
        let begin = Instant::now();
        for nth in 0..n {
            if nth >= 3 && begin.elapsed() > budget {
                break;
            }
            if nth % 2 == 0 {
                our_times.time(&mut ours).map_err(Into::into)?;
                peer_times.time(&mut peer).map_err(Into::into)?;
            } else {
                peer_times.time(&mut peer).map_err(Into::into)?;
                our_times.time(&mut ours).map_err(Into::into)?;
            }
        }
        Ok((our_times, peer_times))
    }

    /// The number of samples.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The samples.
    #[must_use]
    pub fn as_slice(&self) -> &[Duration] {
        &self.0
    }

    /// The median; zero when there are no samples.
    #[must_use]
    pub fn p50(&self) -> Duration {
        percentile(&self.0, 50)
    }

    /// The 99th percentile; zero when there are no samples.
    #[must_use]
    pub fn p99(&self) -> Duration {
        percentile(&self.0, 99)
    }

    /// The samples in three blocks of equal length, in the order of measuring.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = &[Duration]> {
        self.0.chunks_exact((self.0.len() / 3).max(1)).take(3)
    }
}

/// The `percent`th percentile by nearest rank; zero of nothing.
pub(crate) fn percentile(samples: &[Duration], percent: usize) -> Duration {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    let rank = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(rank).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let samples: Vec<_> = (1..=100).rev().map(Duration::from_millis).collect();
        assert_eq!(percentile(&samples, 50), Duration::from_millis(50));
        assert_eq!(percentile(&samples, 99), Duration::from_millis(99));
        assert_eq!(percentile(&samples[..1], 99), Duration::from_millis(100));
        assert_eq!(percentile(&[], 50), Duration::ZERO);
    }

    #[test]
    fn pairs_measures_both_as_often() {
        let (mut ours, mut peer) = (0, 0);
        let one = |count: &mut i32| {
            *count += 1;
            Ok::<(), Failure>(())
        };
        let pairs = Samples::pairs(5, || one(&mut ours), || one(&mut peer));
        let (our_times, peer_times) = pairs.unwrap();
        assert_eq!(
            (our_times.len(), peer_times.len(), ours, peer),
            (5, 5, 5, 5)
        );
    }
}
