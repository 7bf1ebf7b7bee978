//! What the control service tells of plugins and the adaptation does not keep: how long they take, and
//! how often they fail.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longshore_nri_adaptation::{CallFailure, CloseCause, Metrics};

/// The most plugins that are kept apart: more than may be connected. Names come from plugins.
const PLUGINS_MAX: usize = 512;

/// Counts for each plugin by its full name, until it is closed. A handle; clones share the counts.
///
/// Given to the adaptation as its metrics; called with every request, so each call is short.
#[derive(Debug, Clone, Default)]
pub struct NriLedger {
    plugins: Arc<Mutex<BTreeMap<String, Account>>>,
}

/// Of one plugin.
#[derive(Debug, Clone, Default)]
pub(super) struct Account {
    pub(super) failures: u64,
    latency: Histogram,
}

impl NriLedger {
    pub(super) fn account(&self, plugin: &str) -> Account {
        self.lock().get(plugin).cloned().unwrap_or_default()
    }

    fn with(&self, plugin: &str, change: impl FnOnce(&mut Account)) {
        let mut plugins = self.lock();
        if let Some(account) = plugins.get_mut(plugin) {
            return change(account);
        }
        if plugins.len() < PLUGINS_MAX {
            change(plugins.entry(plugin.to_owned()).or_default());
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Account>> {
        self.plugins.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Metrics for NriLedger {
    fn latency(&self, plugin: &str, _: &str, latency: Duration) {
        self.with(plugin, |account| account.latency.add(latency));
    }

    fn invocation(&self, plugin: &str, _: &str, outcome: Result<(), &CallFailure>) {
        if outcome.is_err() {
            self.with(plugin, |account| account.failures += 1);
        }
    }

    fn closed(&self, plugin: &str, _: &CloseCause) {
        self.lock().remove(plugin);
    }
}

impl Account {
    /// The last, the median and the longest; `None` before the first.
    pub(super) fn latency(&self) -> Option<[Duration; 3]> {
        let median = self.latency.median()?;
        Some([self.latency.last, median, self.latency.max])
    }
}

/// Eight buckets for each power of two of nanoseconds: a value is known to an eighth.
const STEPS_BITS: u32 = 3;
const STEPS: usize = 1 << STEPS_BITS;
/// Up to more than a day; what takes longer counts as that long.
const BUCKETS: usize = 45 * STEPS;

#[derive(Debug, Clone, Default)]
struct Histogram {
    /// Made with the first value; then of [`BUCKETS`].
    counts: Vec<u64>,
    total: u64,
    last: Duration,
    max: Duration,
}

impl Histogram {
    fn add(&mut self, value: Duration) {
        self.counts.resize(BUCKETS, 0);
        let nanos = u64::try_from(value.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket(nanos)] += 1;
        self.total += 1;
        self.last = value;
        self.max = self.max.max(value);
    }

    /// The upper end of the bucket that the median is in, and no more than the longest.
    fn median(&self) -> Option<Duration> {
        let half = self.total.div_ceil(2);
        let mut seen = 0;
        let bucket = self.counts.iter().position(|count| {
            seen += count;
            seen >= half && seen > 0
        })?;
        Some(Duration::from_nanos(upper(bucket)).min(self.max))
    }
}

fn bucket(nanos: u64) -> usize {
    let steps = STEPS as u64;
    if nanos < steps {
        // Exact: each has a bucket of its own.
        return usize::try_from(nanos).unwrap_or(0);
    }
    let octave = nanos.ilog2() - STEPS_BITS;
    let step = (nanos >> octave) - steps;
    let place = (u64::from(octave) + 1) * steps + step;
    usize::try_from(place).unwrap_or(BUCKETS).min(BUCKETS - 1)
}

/// The largest value of a bucket.
fn upper(bucket: usize) -> u64 {
    let (row, step) = ((bucket / STEPS) as u64, (bucket % STEPS) as u64);
    match row {
        0 => step,
        row => ((STEPS as u64 + step + 1) << (row - 1)) - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_is_in_a_bucket_that_holds_it_to_an_eighth() {
        let powers = (0..44).map(|bit| 1_u64 << bit);
        for value in powers.flat_map(|power| [power - 1, power, power + 1, power / 7 * 9]) {
            let upper = upper(bucket(value));
            assert!(upper >= value, "{value}: {upper}");
            assert!(upper - value <= value / 8, "{value}: {upper}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn the_median_the_last_and_the_longest_are_told() {
        let ledger = NriLedger::default();
        assert_eq!(ledger.account("10-a").latency(), None);
        for micros in [100, 3_000, 200] {
            ledger.latency("10-a", "CreateContainer", Duration::from_micros(micros));
        }
        let [last, median, max] = ledger.account("10-a").latency().unwrap();
        assert_eq!(last, Duration::from_micros(200));
        assert_eq!(max, Duration::from_micros(3_000));
        assert!((200..=225).contains(&median.as_micros()), "{median:?}");
        assert_eq!(ledger.account("10-b").latency(), None, "each for itself");
    }

    #[test]
    fn failures_are_counted_until_the_plugin_is_closed() {
        let ledger = NriLedger::default();
        let failure = CallFailure::Timeout(Duration::from_secs(2));
        ledger.invocation("10-a", "StopContainer", Err(&failure));
        ledger.invocation("10-a", "StopContainer", Ok(()));
        assert_eq!(ledger.account("10-a").failures, 1);
        ledger.closed("10-a", &CloseCause::Shutdown);
        assert_eq!(ledger.account("10-a").failures, 0);
    }

    #[test]
    fn names_that_plugins_choose_take_a_bounded_memory() {
        let ledger = NriLedger::default();
        for number in 0..2 * PLUGINS_MAX {
            ledger.latency(&format!("10-{number}"), "x", Duration::from_micros(1));
        }
        assert_eq!(ledger.lock().len(), PLUGINS_MAX);
    }
}
