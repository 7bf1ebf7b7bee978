//! Finding the shim of a container whose pid record is missing: by the directory that it holds.
//!
//! A shim keeps its locked `run/` as standard input for as long as it lives. (The lock itself names the agent
//! that took it, in `/proc/locks`.)

use std::fs;
use std::path::Path;

use crate::process::{self, ProcessId, Stat};
use crate::record::PidRecord;

/// The shim that holds `run` and its container's first process; `None` while there are not both. Blocks.
pub(super) fn find(run: &Path) -> Option<PidRecord> {
    let run = fs::canonicalize(run).ok()?;
    let holds = |pid: i32| fs::read_link(format!("/proc/{pid}/fd/0")).is_ok_and(|it| it == run);
    shim_and_init(&table(), holds)
}

/// Every process at the moment. Blocks.
pub(super) fn table() -> Vec<(i32, Stat)> {
    process::pids()
        .into_iter()
        .filter_map(|pid| Some((pid, process::stat(pid).ok()?)))
        .collect()
}

/// A shim with its container's first process; `None` while it has none.
pub(super) fn with_init(table: &[(i32, Stat)], shim: i32) -> Option<PidRecord> {
    shim_and_init(table, |pid| pid == shim)
}

/// The shim leads its session, as does the first of its children: what it has adopted came later.
fn shim_and_init(table: &[(i32, Stat)], holds: impl Fn(i32) -> bool) -> Option<PidRecord> {
    let id = |(pid, stat): &(i32, Stat)| ProcessId {
        pid: *pid,
        start: stat.start,
    };
    let holders = table
        .iter()
        .filter(|(pid, stat)| stat.session == *pid && !stat.zombie && holds(*pid));
    // Between its fork and its exec the child may still hold what the shim holds.
    let shim = holders.min_by_key(|(pid, stat)| (stat.start, *pid))?;
    let init = table
        .iter()
        .filter(|(pid, stat)| stat.parent == shim.0 && stat.session == *pid)
        .min_by_key(|(pid, stat)| (stat.start, *pid))?;
    Some(PidRecord {
        shim: id(shim),
        init: id(init),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn stat(parent: i32, session: i32, start: u64) -> Stat {
        Stat {
            parent,
            session,
            start,
            zombie: false,
            stopped: false,
        }
    }

    fn found(table: &[(i32, Stat)], holders: &[i32]) -> Option<(i32, i32)> {
        let found = shim_and_init(table, |pid| holders.contains(&pid))?;
        Some((found.shim.pid, found.init.pid))
    }

    #[test]
    fn the_shim_is_who_holds_the_directory_and_the_init_its_first_child() {
        let table = [
            (10, stat(1, 10, 100)),
            (11, stat(10, 11, 101)),
            // Adopted later: one that has made a session of its own, one of the init's.
            (12, stat(10, 12, 105)),
            (13, stat(10, 11, 102)),
            // Another shim.
            (20, stat(1, 20, 50)),
            (21, stat(20, 21, 51)),
        ];
        assert_eq!(found(&table, &[10]), Some((10, 11)));
        assert_eq!(
            found(&table, &[10, 11]),
            Some((10, 11)),
            "between fork and exec"
        );
        assert_eq!(found(&table, &[20]), Some((20, 21)));
        assert_eq!(found(&table, &[]), None);
    }

    #[test]
    fn a_shim_without_a_child_is_not_there_yet() {
        assert_eq!(found(&[(10, stat(1, 10, 100))], &[10]), None);
        // Who does not lead a session is no shim.
        let table = [(10, stat(1, 9, 100)), (11, stat(10, 11, 101))];
        assert_eq!(found(&table, &[10]), None);
    }
}
