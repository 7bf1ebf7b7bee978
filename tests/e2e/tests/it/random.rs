//! A replayable source of chance.

use std::time::Duration;

/// splitmix64: small, and the same sequence for the same seed for ever.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Another source, for somebody else.
    pub(crate) fn split(&mut self) -> Self {
        Self(self.next())
    }

    /// A number below `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap();
        usize::try_from(self.next() % bound).unwrap()
    }

    /// Up to `max`, in microseconds.
    pub(crate) fn up_to(&mut self, max: Duration) -> Duration {
        let bound = u64::try_from(max.as_micros()).unwrap() + 1;
        Duration::from_micros(self.next() % bound)
    }
}
