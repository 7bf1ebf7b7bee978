//! What was done to the world, and when: from it follows what a task may have met.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A time in which something was away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Away {
    /// The daemon.
    Daemon,
    /// The engine, which kept its containers when it came back, or not.
    Engine { kept: bool },
    /// The engine was there, and nobody got through to it.
    Frozen,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) what: Away,
    pub(super) from: Instant,
    /// `None`: it lasts.
    pub(super) to: Option<Instant>,
}

#[derive(Debug, Default)]
pub(super) struct History(Mutex<Vec<Entry>>);

impl History {
    fn entries(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin(&self, what: Away) -> usize {
        let mut entries = self.entries();
        entries.push(Entry {
            what,
            from: Instant::now(),
            to: None,
        });
        entries.len() - 1
    }

    pub(super) fn end(&self, index: usize) {
        self.entries()[index].to = Some(Instant::now());
    }

    /// Ends in the future.
    pub(super) fn during(&self, what: Away, time: Duration) {
        let index = self.begin(what);
        self.entries()[index].to = Some(Instant::now() + time);
    }

    /// What overlaps a time.
    pub(super) fn between(&self, from: Instant, to: Instant) -> Vec<Entry> {
        let all = self.entries();
        all.iter()
            .filter(|entry| entry.from <= to && entry.to.is_none_or(|end| end >= from))
            .copied()
            .collect()
    }
}

/// The longest time in which one followed the other.
pub(super) fn longest(entries: &[Entry]) -> Duration {
    let mut spans: Vec<_> = entries
        .iter()
        .map(|entry| (entry.from, entry.to.unwrap_or_else(Instant::now)))
        .collect();
    spans.sort_unstable();
    let mut longest = Duration::ZERO;
    let mut current: Option<(Instant, Instant)> = None;
    for (from, to) in spans {
        // What was answered in between may have been lost as well.
        let joined = current.filter(|(_, end)| from <= *end + JOINED);
        let (from, to) = joined.map_or((from, to), |(begin, end)| (begin, end.max(to)));
        longest = longest.max(to - from);
        current = Some((from, to));
    }
    longest
}

/// So soon after each other they are one.
const JOINED: Duration = Duration::from_secs(2);

#[test]
fn silences_that_follow_each_other_are_one() {
    let begin = Instant::now();
    let entry = |from: u64, to: u64| Entry {
        what: Away::Frozen,
        from: begin + Duration::from_secs(from),
        to: Some(begin + Duration::from_secs(to)),
    };
    let all = [entry(20, 23), entry(0, 5), entry(4, 9), entry(10, 12)];
    assert_eq!(longest(&all), Duration::from_secs(12));
    assert_eq!(longest(&[]), Duration::ZERO);
}
