//! When watches probe: a few of them at the same moments, the groups at different ones.
//!
//! ```text
//!  interval  |------------------------------|------------------------------|
//!  group 0   ■                              ■                              ■
//!  group 1                     ■                              ■
//!  group 2        ■                              ■
//! ```
//!
//! A process that has slept finds its caches cold: one probe then costs many times what the next one after it does. So
//! up to [`TOGETHER`] watches share their wake-ups; more than that would be a burst of connections.

use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// How many watches probe at once.
const TOGETHER: u8 = 16;
/// Multiples of this part of the interval are spread evenly, however many there are.
const GOLDEN: f64 = 0.618_033_988_749_894_8;

static GROUPS: Groups = Groups(Mutex::new(Vec::new()));
static EPOCH: LazyLock<Instant> = LazyLock::new(Instant::now);

/// How many members each group has.
#[derive(Debug)]
struct Groups(Mutex<Vec<u8>>);

/// A watch's place in a group of this process; left when it is dropped.
#[derive(Debug)]
pub(crate) struct Beat {
    groups: &'static Groups,
    group: usize,
}

impl Beat {
    /// Joins the first group that has room.
    pub(crate) fn join() -> Self {
        GROUPS.join()
    }

    /// The next moment of this group after `now`, less than an interval later, or exactly one.
    pub(crate) fn after(&self, now: Instant, interval: Duration) -> Instant {
        now + until(self.group, now.saturating_duration_since(*EPOCH), interval)
    }

    #[cfg(test)]
    pub(crate) const fn group(&self) -> usize {
        self.group
    }
}

impl Drop for Beat {
    fn drop(&mut self) {
        let mut groups = self.groups.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(members) = groups.get_mut(self.group) {
            *members = members.saturating_sub(1);
        }
    }
}

impl Groups {
    fn join(&'static self) -> Beat {
        let mut groups = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let room = groups.iter().position(|members| *members < TOGETHER);
        let group = room.unwrap_or_else(|| {
            groups.push(0);
            groups.len() - 1
        });
        groups[group] += 1;
        Beat {
            groups: self,
            group,
        }
    }
}

/// How long it is, `since` after the epoch, until the next moment of a group: more than nothing, at most an interval.
fn until(group: usize, since: Duration, interval: Duration) -> Duration {
    let nth = u32::try_from(group).map_or(0.0, f64::from);
    let phase = interval.mul_f64((nth * GOLDEN).fract()).as_nanos();
    let (since, interval) = (since.as_nanos(), interval.as_nanos().max(1));
    let gone = (since % interval + interval - phase % interval) % interval;
    Duration::from_nanos(u64::try_from(interval - gone).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(10);

    #[test]
    fn a_group_has_its_moment_once_an_interval() {
        for group in [0, 1, 2, 63, 1_000_000] {
            let first = until(group, Duration::ZERO, INTERVAL);
            assert!(first > Duration::ZERO && first <= INTERVAL);
            assert_eq!(until(group, first, INTERVAL), INTERVAL, "{group}");
            let late = Duration::from_millis(7);
            assert_eq!(until(group, first + late, INTERVAL), INTERVAL - late);
        }
        assert_eq!(until(0, Duration::ZERO, INTERVAL), INTERVAL);
        assert!(until(3, Duration::MAX, Duration::from_nanos(1)) <= INTERVAL);
    }

    #[test]
    fn groups_are_spread_over_the_interval() {
        let mut moments: Vec<_> = (0..64)
            .map(|group| until(group, Duration::ZERO, INTERVAL))
            .collect();
        moments.sort_unstable();
        let gaps = moments.windows(2).map(|pair| pair[1] - pair[0]);
        let widest = gaps.max().unwrap();
        assert!(widest < INTERVAL / 20, "{widest:?}");
    }

    #[test]
    fn a_group_is_filled_before_the_next_and_again_when_somebody_has_left() {
        static OWN: Groups = Groups(Mutex::new(Vec::new()));
        let full = usize::from(TOGETHER);
        let mut beats: Vec<_> = (0..full * 2 + 1).map(|_| OWN.join()).collect();
        let groups: Vec<usize> = beats.iter().map(Beat::group).collect();
        let expected: Vec<usize> = (0..full * 2 + 1).map(|nth| nth / full).collect();
        assert_eq!(groups, expected);
        drop(beats.swap_remove(0));
        assert_eq!(OWN.join().group(), 0);
    }
}
