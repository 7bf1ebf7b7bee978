//! Ending what is left of a container once its init has ended.
//!
//! The shim is a child subreaper: whatever the init has started and abandoned, also after setsid(2)
//! and a double fork, becomes the shim's child when its own parent ends. So killing children until
//! there are none ends the tree, with or without a cgroup; the cgroup only makes it quicker.

use std::fs;
use std::io;

use super::sys::{self, Reaped};
use crate::cgroup;
use crate::process;
use crate::record::Cgroups;

/// Kills and reaps until this process has no descendants. Returns early never: a process that
/// cannot be killed (it hangs in the kernel) is not down, and a container is not over before it is.
///
/// # Errors
/// None but a kernel that refuses waitpid(2).
pub(super) fn end(cgroups: &Cgroups) -> io::Result<()> {
    cgroup::kill(cgroups);
    loop {
        for pid in children() {
            let _already_gone = sys::kill(pid, libc::SIGKILL);
        }
        if sys::reap_any(true)? == Reaped::NoChildren {
            return Ok(());
        }
        while let Reaped::Ended { .. } = sys::reap_any(false)? {}
    }
}

/// The children of this process, which has one thread.
fn children() -> Vec<i32> {
    if let Ok(text) = fs::read_to_string("/proc/thread-self/children") {
        return text
            .split_ascii_whitespace()
            .filter_map(|pid| pid.parse().ok())
            .collect();
    }
    // A kernel without CONFIG_PROC_CHILDREN.
    let Ok(own) = i32::try_from(std::process::id()) else {
        return Vec::new();
    };
    process::pids()
        .into_iter()
        .filter(|pid| process::stat(*pid).is_ok_and(|stat| stat.parent == own))
        .collect()
}
