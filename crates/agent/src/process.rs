//! Who a process is: a pid alone may be somebody else's by now.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use serde::{Deserialize, Serialize};

use crate::shim::sys;

/// What shims call themselves, in at most 15 bytes.
pub(crate) const SHIM_NAME: &CStr = c"longshore-shim";
/// The same, as long as there is no container for it.
pub(crate) const SPARE_NAME: &CStr = c"longshore-spare";

/// A process that cannot be taken for another one within a boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessId {
    /// Its pid.
    pub pid: i32,
    /// When it was started, in clock ticks since the boot (proc(5), field 22 of `stat`).
    pub start: u64,
}

impl ProcessId {
    /// The process that has this pid now.
    ///
    /// # Errors
    /// ENOENT when there is none.
    pub(crate) fn of(pid: i32) -> io::Result<Self> {
        Ok(Self {
            pid,
            start: stat(pid)?.start,
        })
    }

    /// A handle on it, or `None` when it is gone or its pid belongs to another process.
    pub(crate) fn open(self) -> Option<OwnedFd> {
        // First the handle, then the comparison: what the handle holds cannot change any more.
        let handle = sys::pidfd_open(self.pid).ok()?;
        (Self::of(self.pid).ok()? == self).then_some(handle)
    }

    /// Sends SIGCONT to its parent, if that is a shim. One that is not stopped takes no notice.
    pub(crate) fn continue_shim(self) {
        if let Some(shim) = self.shim().and_then(Self::open) {
            let _gone = sys::pidfd_send_signal(shim.as_fd(), libc::SIGCONT);
        }
    }

    /// Whether its parent is a shim that somebody has stopped. It need not be waited for yet.
    pub(crate) fn shim_is_stopped(self) -> bool {
        self.shim()
            .is_some_and(|shim| stat(shim.pid).is_ok_and(|stat| stat.stopped))
    }

    /// Its parent, if that is a shim.
    pub(crate) fn shim(self) -> Option<Self> {
        let before = stat(self.pid).ok().filter(|it| it.start == self.start)?;
        let shim = Self::of(before.parent).ok()?;
        let name = fs::read(format!("/proc/{}/comm", shim.pid)).ok()?;
        let is_shim = name.trim_ascii_end() == SHIM_NAME.to_bytes();
        // Looked at again, so that the parent is not another process by now.
        let after = stat(self.pid).ok()?;
        (is_shim && after == before).then_some(shim)
    }

    /// Sends SIGKILL to it, if it is still that process.
    pub(crate) fn kill(self) {
        if let Some(handle) = self.open() {
            let _gone = sys::pidfd_send_signal(handle.as_fd(), libc::SIGKILL);
        }
    }
}

/// What the tree of a container is found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat {
    /// Its parent.
    pub parent: i32,
    /// Its session: the pid of the session's leader.
    pub session: i32,
    /// Clock ticks since the boot.
    pub start: u64,
    /// Ended, but not waited for.
    pub zombie: bool,
    /// Stopped by a signal or a debugger.
    pub stopped: bool,
}

/// Reads `/proc/<pid>/stat`.
///
/// # Errors
/// ENOENT when there is no such process; EINVAL when the text is none that we know.
pub(crate) fn stat(pid: i32) -> io::Result<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat"))?)
        .ok_or_else(|| io::Error::from_raw_os_error(libc::EINVAL))
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The name is in parentheses and may hold anything, parentheses and spaces included.
    let mut fields = text.get(text.rfind(')')? + 1..)?.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    let start = fields.nth(15)?.parse().ok()?;
    Some(Stat {
        parent,
        session,
        start,
        zombie: matches!(state, "Z" | "X"),
        stopped: matches!(state, "T" | "t"),
    })
}

/// Every pid of this pid namespace at the moment.
pub(crate) fn pids() -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// The id of this boot.
///
/// # Errors
/// When `/proc` is not mounted.
pub(crate) fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?
        .trim()
        .to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stat_line_is_read_whatever_the_name_holds() {
        let line = "42 (a) b (c) S 7 42 41 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 987 1 2 3\n";
        let stat = parse_stat(line).unwrap();
        assert_eq!(
            stat,
            Stat {
                parent: 7,
                session: 41,
                start: 987,
                zombie: false,
                stopped: false,
            }
        );
        assert!(
            parse_stat("42 (x) Z 1 2 3 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 9")
                .unwrap()
                .zombie
        );
        let stopped = parse_stat("42 (x) T 1 2 3 0 -1 4 1 2 3 4 5 6 7 8 20 0 1 0 9").unwrap();
        assert!(stopped.stopped && !stopped.zombie);
        assert_eq!(parse_stat("42 (x"), None);
        assert_eq!(parse_stat(""), None);
    }

    #[test]
    fn a_reused_pid_is_another_process() {
        let own = ProcessId::of(i32::try_from(std::process::id()).unwrap()).unwrap();
        assert!(own.open().is_some());
        assert!(
            ProcessId {
                start: own.start + 1,
                ..own
            }
            .open()
            .is_none()
        );
    }
}
