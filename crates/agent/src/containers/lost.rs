//! Ending the tree of a container whose shim is gone.
//!
//! With the shim its subreaper is gone, too: what the init had started now belongs to whoever
//! adopts orphans. It is found again by what it cannot have lost: its cgroup; else its session (the
//! init leads one), its descent, the sandbox in its environment, and the session of whoever has that.
//! (Without cgroups, what has left the session, emptied its environment and lost its parents all at
//! once cannot be told from a stranger.)

use std::collections::BTreeSet;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::blocking;
use super::drive::{FIRST_PAUSE, LONGEST_PAUSE};
use crate::cgroup;
use crate::process::{self, ProcessId, Stat};
use crate::record::Cgroups;

/// Kills until nothing of the container is found any more. Without end where something cannot be
/// killed: then the container is not over.
pub(super) async fn end_tree(cgroups: &Cgroups, init: Option<ProcessId>, sandbox: &Path) {
    let mut pause = FIRST_PAUSE;
    loop {
        let (cgroups, sandbox) = (cgroups.clone(), sandbox.to_owned());
        let left = blocking(move || kill_round(&cgroups, init, &sandbox)).await;
        match left {
            Ok(0) => return,
            Ok(left) if pause >= LONGEST_PAUSE => {
                tracing::warn!(left, "processes of a container do not end when killed");
            }
            Ok(_) => {}
            // The runtime is shutting down; the next start goes on.
            Err(_) => return,
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Kills everything that is found; says how many there were.
fn kill_round(cgroups: &Cgroups, init: Option<ProcessId>, sandbox: &Path) -> usize {
    cgroup::kill(cgroups);
    let table: Vec<(i32, Stat)> = process::pids()
        .into_iter()
        .filter_map(|pid| Some((pid, process::stat(pid).ok()?)))
        .filter(|(_, stat)| !stat.zombie)
        .collect();
    let marked = cgroup::pids(cgroups)
        .into_iter()
        .chain(
            table
                .iter()
                .map(|(pid, _)| *pid)
                .filter(|pid| lives_in(*pid, sandbox)),
        )
        .collect();
    let own = i32::try_from(std::process::id()).unwrap_or_default();
    let found = tree(&table, init, marked, own);
    for id in &found {
        id.kill();
    }
    found.len()
}

/// The processes of a container among all of `table`: those marked, those of the init's session,
/// and all of their descendants; never `own`.
fn tree(
    table: &[(i32, Stat)],
    init: Option<ProcessId>,
    marked: BTreeSet<i32>,
    own: i32,
) -> Vec<ProcessId> {
    let mut members = marked;
    if let Some(init) = init {
        // A pid is not given out again while a session of that number has members; but when the
        // session is gone it may be, and then its start differs.
        let reused = |(pid, stat): &(i32, Stat)| *pid == init.pid && stat.start != init.start;
        let mut sessions = BTreeSet::new();
        if !table.iter().any(reused) {
            sessions.insert(init.pid);
        }
        // A session that was begun in the container is the container's.
        let begun_here = |session: i32| {
            table
                .iter()
                .any(|(pid, stat)| *pid == session && stat.start >= init.start)
        };
        sessions.extend(
            table
                .iter()
                .filter(|(pid, stat)| members.contains(pid) && begun_here(stat.session))
                .map(|(_, stat)| stat.session),
        );
        let of_sessions = table
            .iter()
            .filter(|(_, stat)| sessions.contains(&stat.session) && stat.start >= init.start)
            .map(|(pid, _)| *pid);
        members.extend(of_sessions);
    }
    members.remove(&own);
    // Each round goes one generation down; no tree is deeper than the table is long.
    for _ in 0..table.len() {
        let before = members.len();
        let children: Vec<i32> = table
            .iter()
            .filter(|(pid, stat)| *pid != own && members.contains(&stat.parent))
            .map(|(pid, _)| *pid)
            .collect();
        members.extend(children);
        if members.len() == before {
            break;
        }
    }
    table
        .iter()
        .filter(|(pid, _)| members.contains(pid) && *pid > 1)
        .map(|(pid, stat)| ProcessId {
            pid: *pid,
            start: stat.start,
        })
        .collect()
}

/// Whether a process was started in this sandbox, by its environment.
fn lives_in(pid: i32, sandbox: &Path) -> bool {
    let Ok(environment) = std::fs::read(PathBuf::from(format!("/proc/{pid}/environ"))) else {
        return false;
    };
    let mark = [b"MESOS_SANDBOX=", sandbox.as_os_str().as_bytes()].concat();
    environment
        .split(|byte| *byte == 0)
        .any(|variable| variable == mark)
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

    /// 10 is the init, already gone; 12 has made a session of its own, 14 is a stranger.
    /// 17, whose environment is marked, lives in the session of 16.
    const TABLE: [(i32, Stat); 8] = [
        (1, stat(0, 1, 0)),
        (11, stat(1, 10, 101)),
        (12, stat(11, 12, 102)),
        (13, stat(12, 12, 103)),
        (14, stat(1, 14, 50)),
        (15, stat(1, 15, 104)),
        (16, stat(1, 16, 105)),
        (17, stat(16, 16, 106)),
    ];

    fn found(init: Option<ProcessId>, marked: &[i32], own: i32) -> Vec<i32> {
        let marked = marked.iter().copied().collect();
        tree(&TABLE, init, marked, own)
            .into_iter()
            .map(|id| id.pid)
            .collect()
    }

    #[test]
    fn a_lost_tree_is_its_session_its_descendants_and_what_is_marked() {
        let init = Some(ProcessId {
            pid: 10,
            start: 100,
        });
        assert_eq!(found(init, &[], 99), [11, 12, 13]);
        assert_eq!(found(init, &[15], 99), [11, 12, 13, 15]);
        assert_eq!(found(init, &[17], 99), [11, 12, 13, 16, 17]);
        assert_eq!(found(None, &[12], 99), [12, 13]);
        assert_eq!(found(init, &[15], 15), [11, 12, 13], "never ourselves");
        assert!(found(None, &[], 99).is_empty());
    }

    #[test]
    fn a_session_number_that_was_given_out_again_is_not_ours() {
        let init = Some(ProcessId { pid: 14, start: 10 });
        assert!(found(init, &[], 99).is_empty());
    }
}
