//! Which finished tasks are forgotten, with their records, sandboxes and output: by age, then by size.

use std::time::Duration;

/// What finished tasks may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// So long after its end a task is forgotten. Default 7 days.
    pub max_age: Duration,
    /// What all finished tasks may take on disk together, in bytes. Default 1 GiB.
    pub max_bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            max_age: Duration::from_secs(7 * 86_400),
            max_bytes: 1 << 30,
        }
    }
}

/// A task that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Its id.
    pub id: String,
    /// When it ended, since 1970.
    pub ended: Duration,
    /// What it takes on disk.
    pub bytes: u64,
}

/// The ids of those to forget, oldest first: all that are too old, then the oldest until the rest is small enough.
#[must_use]
pub fn plan(retention: &Retention, now: Duration, finished: &[Finished]) -> Vec<String> {
    let mut all: Vec<&Finished> = finished.iter().collect();
    all.sort_by(|a, b| (a.ended, &a.id).cmp(&(b.ended, &b.id)));
    let mut left: u128 = all.iter().map(|task| u128::from(task.bytes)).sum();
    let mut gone = Vec::new();
    for task in all {
        // A clock that was set back makes nobody old.
        let old = now.saturating_sub(task.ended) > retention.max_age;
        if !old && left <= u128::from(retention.max_bytes) {
            continue;
        }
        // Of the young ones, those that take nothing make no room.
        if !old && task.bytes == 0 {
            continue;
        }
        left -= u128::from(task.bytes);
        gone.push(task.id.clone());
    }
    gone
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn task(id: &str, ended: u64, bytes: u64) -> Finished {
        Finished {
            id: id.to_owned(),
            ended: Duration::from_secs(ended),
            bytes,
        }
    }

    #[test]
    fn age_first_then_the_oldest_until_the_rest_fits() {
        let retention = Retention {
            max_age: Duration::from_secs(100),
            max_bytes: 50,
        };
        let cases: &[(&str, &[Finished], u64, &[&str])] = &[
            ("nothing", &[], 1000, &[]),
            ("young and small", &[task("a", 950, 50)], 1000, &[]),
            ("as old as may be", &[task("a", 900, 1)], 1000, &[]),
            (
                "too old",
                &[task("a", 899, 1), task("b", 950, 1)],
                1000,
                &["a"],
            ),
            (
                "too large",
                &[task("c", 970, 30), task("a", 950, 30), task("b", 960, 20)],
                1000,
                &["a"],
            ),
            (
                "the old make room",
                &[task("a", 800, 40), task("b", 950, 40)],
                1000,
                &["a"],
            ),
            (
                "one alone is too large",
                &[task("a", 999, 51)],
                1000,
                &["a"],
            ),
            (
                "an empty one makes no room",
                &[task("a", 950, 0), task("b", 960, 60)],
                1000,
                &["b"],
            ),
            ("from the future", &[task("a", 2000, 1)], 1000, &[]),
        ];
        for (name, finished, now, expected) in cases {
            let found = plan(&retention, Duration::from_secs(*now), finished);
            assert_eq!(found, *expected, "{name}");
        }
    }

    proptest! {
        #[test]
        fn what_stays_is_young_and_fits_and_nothing_goes_without_a_reason(
            tasks in prop::collection::vec((0_u64..2000, prop_oneof![0_u64..100, any::<u64>()]), 0..20),
            now in 0_u64..2000,
            max_age in 0_u64..1000,
            max_bytes in 0_u64..500,
        ) {
            let retention = Retention { max_age: Duration::from_secs(max_age), max_bytes };
            let finished: Vec<_> = tasks.iter().enumerate()
                .map(|(index, (ended, bytes))| task(&index.to_string(), *ended, *bytes))
                .collect();
            let gone = plan(&retention, Duration::from_secs(now), &finished);
            let kept: Vec<_> = finished.iter().filter(|task| !gone.contains(&task.id)).collect();
            let too_old = |task: &Finished| now.saturating_sub(task.ended.as_secs()) > max_age;
            prop_assert!(kept.iter().all(|task| !too_old(task)));
            let size = |tasks: &[&Finished]| tasks.iter().fold(0_u128, |sum, task| sum + u128::from(task.bytes));
            prop_assert!(size(&kept) <= u128::from(max_bytes));
            // The last one that went for its size was needed.
            let young: Vec<_> = gone.iter().filter_map(|id| finished.iter().find(|t| t.id == *id && !too_old(t))).collect();
            if let Some(last) = young.last() {
                let mut with = kept.clone();
                with.push(last);
                prop_assert!(size(&with) > u128::from(max_bytes));
                // Nothing older that takes room was kept in its place.
                prop_assert!(kept.iter().all(|t| t.bytes == 0 || (t.ended, &t.id) > (last.ended, &last.id)));
            }
        }
    }
}
