//! A container's processes without its engine: held by pidfd, found by their cgroup.

#![expect(
    unsafe_code,
    reason = "tokio's reactor takes a descriptor without a safe wrapper"
)]

use std::fmt::Debug;
use std::fs;
use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;
use std::pin::Pin;
use std::sync::Arc;

use nix::sys::signal::Signal as NixSignal;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A process that cannot be taken for another one within a boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessId {
    /// Its pid.
    pub pid: i32,
    /// When it was started, in clock ticks since the boot (proc(5), field 22 of `stat`).
    pub start: u64,
}

/// What becomes of holding a process.
#[derive(Debug)]
pub enum Holding {
    /// It is held.
    Held(Arc<dyn HeldProcess>),
    /// There is no such process any more.
    Ended,
    /// It cannot be held.
    Impossible(io::Error),
}

/// A process that is held: its pid can be used again by another, this cannot.
pub trait HeldProcess: Debug + Send + Sync {
    /// Who it is.
    fn id(&self) -> ProcessId;

    /// Ends when it has.
    fn died(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>>;

    /// Sends a signal, as `SIGTERM`, `TERM` or `15`.
    ///
    /// # Errors
    /// ESRCH when it has ended, EPERM, EINVAL for no signal.
    fn signal(&self, signal: &str) -> io::Result<()>;
}

/// The processes of this host.
pub trait Processes: Debug + Send + Sync {
    /// Takes hold of `pid`, the first process of a container. With `start` only of the process that began then;
    /// otherwise of one that is in the container's cgroup, where that can be told.
    fn hold(&self, pid: i32, start: Option<u64>, container: &str) -> Holding;

    /// The first process of a container, found without its engine.
    fn find(&self, container: &str) -> Option<i32>;

    /// Kills `pid`, which belongs to a container, and all that it has started.
    fn kill_tree(&self, pid: i32, container: &str);
}

/// Those of the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostProcesses;

#[derive(Debug)]
struct Held {
    id: ProcessId,
    pidfd: AsyncFd<OwnedFd>,
}

impl HeldProcess for Held {
    fn id(&self) -> ProcessId {
        self.id
    }

    fn died(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            // A pidfd is readable from the end of its process on. Without a reactor nothing is told any more.
            if self.pidfd.readable().await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }

    fn signal(&self, signal: &str) -> io::Result<()> {
        let signal =
            signal_of(signal).ok_or_else(|| io::Error::from_raw_os_error(libc_einval()))?;
        Ok(pidfd_send_signal(self.pidfd.get_ref(), signal)?)
    }
}

const fn libc_einval() -> i32 {
    nix::errno::Errno::EINVAL as i32
}

/// As `SIGTERM`, `TERM` or `15`.
fn signal_of(text: &str) -> Option<Signal> {
    Signal::from_named_raw(number_of(text)?)
}

/// The number of a signal: `SIGTERM`, `TERM` or `15`.
pub(crate) fn number_of(text: &str) -> Option<i32> {
    if let Ok(number) = text.parse() {
        return Some(number);
    }
    let upper = text.to_ascii_uppercase();
    let name = if upper.starts_with("SIG") {
        upper
    } else {
        format!("SIG{upper}")
    };
    name.parse::<NixSignal>().ok().map(|signal| signal as i32)
}

impl Processes for HostProcesses {
    fn hold(&self, pid: i32, start: Option<u64>, container: &str) -> Holding {
        let Some(raw) = Pid::from_raw(pid) else {
            return Holding::Impossible(io::ErrorKind::InvalidInput.into());
        };
        let pidfd = match pidfd_open(raw, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(rustix::io::Errno::SRCH) => return Holding::Ended,
            Err(error) => return Holding::Impossible(error.into()),
        };
        // Looked at after it is held: what the handle holds cannot change any more.
        let Some(stat) = stat(pid) else {
            return Holding::Ended;
        };
        let is_it = match start {
            Some(start) => stat.start == start,
            // Where no cgroup is named after the container, the engine's word has to do.
            None => in_cgroup(pid, container) != Some(false) || !any_in_cgroup(container),
        };
        if !is_it || stat.zombie {
            return Holding::Ended;
        }
        let id = ProcessId {
            pid,
            start: stat.start,
        };
        // SAFETY: an OwnedFd stays the same open descriptor as long as it lives, and it lives in the AsyncFd.
        match unsafe { AsyncFd::register_with_interest(pidfd, Interest::READABLE) } {
            Ok(pidfd) => Holding::Held(Arc::new(Held { id, pidfd })),
            Err(error) => Holding::Impossible(error.into_parts().1),
        }
    }

    fn find(&self, container: &str) -> Option<i32> {
        let members: Vec<_> = pids()
            .into_iter()
            .filter(|pid| in_cgroup(*pid, container) == Some(true))
            .collect();
        // The first one is the child of somebody outside.
        let outside = |pid: &i32| stat(*pid).is_some_and(|stat| !members.contains(&stat.parent));
        members.iter().copied().filter(outside).min()
    }

    fn kill_tree(&self, pid: i32, container: &str) {
        // What is started while this looks is found the next time.
        for _round in 0..8 {
            let all: Vec<_> = pids()
                .into_iter()
                .filter_map(|pid| Some((pid, stat(pid)?)))
                .filter(|(_, stat)| !stat.zombie)
                .collect();
            let mut tree = vec![pid];
            // A descendant of a descendant comes later or earlier in the list: as often as there is news.
            loop {
                let more: Vec<_> = all
                    .iter()
                    .filter(|(other, stat)| {
                        !tree.contains(other)
                            && (tree.contains(&stat.parent) || stat.session == pid)
                    })
                    .map(|(other, _)| *other)
                    .collect();
                if more.is_empty() {
                    break;
                }
                tree.extend(more);
            }
            let mut killed = false;
            for member in tree {
                killed |= kill_member(member, container);
            }
            if !killed {
                return;
            }
        }
    }
}

/// Kills one process, if it is in the container still.
fn kill_member(pid: i32, container: &str) -> bool {
    let Some(raw) = Pid::from_raw(pid) else {
        return false;
    };
    let Ok(pidfd) = pidfd_open(raw, PidfdFlags::empty()) else {
        return false;
    };
    let alive = stat(pid).is_some_and(|stat| !stat.zombie);
    alive
        && in_cgroup(pid, container) == Some(true)
        && pidfd_send_signal(&pidfd, Signal::KILL).is_ok()
}

/// Whether a process is in the cgroup of a container; `None` when that cannot be read.
fn in_cgroup(pid: i32, container: &str) -> Option<bool> {
    // An id, never a short text that is part of everything.
    if container.len() < 32 {
        return None;
    }
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    Some(text.contains(container))
}

fn any_in_cgroup(container: &str) -> bool {
    pids()
        .into_iter()
        .any(|pid| in_cgroup(pid, container) == Some(true))
}

/// Every pid of this pid namespace at the moment.
fn pids() -> Vec<i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

struct Stat {
    parent: i32,
    session: i32,
    start: u64,
    zombie: bool,
}

fn stat(pid: i32) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
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
    })
}

/// The id of this boot; empty without `/proc`.
pub(crate) fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
        .trim()
        .to_owned()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn signals_have_names_and_numbers() {
        for text in ["TERM", "SIGTERM", "sigterm", "15"] {
            assert_eq!(number_of(text), Some(15), "{text}");
        }
        assert_eq!(number_of("SIGNOPE"), None);
        assert_eq!(number_of(""), None);
        assert!(signal_of("0").is_none() && signal_of("4711").is_none());
    }

    #[tokio::test]
    async fn a_process_is_held_until_it_has_ended() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let Holding::Held(held) = HostProcesses.hold(pid, None, "none") else {
            panic!("not held");
        };
        let start = held.id().start;
        assert!(matches!(
            HostProcesses.hold(pid, Some(start + 1), "none"),
            Holding::Ended
        ));
        assert!(held.signal("SIGNOPE").is_err());
        held.signal("KILL").unwrap();
        held.died().await;
        child.wait().unwrap();
        assert!(matches!(
            HostProcesses.hold(pid, Some(start), "none"),
            Holding::Ended
        ));
    }

    #[test]
    fn nothing_outside_of_the_container_is_killed() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let nobody = "f".repeat(64);
        HostProcesses.kill_tree(pid, &nobody);
        HostProcesses.kill_tree(pid, "");
        assert_eq!(HostProcesses.find(&nobody), None);
        assert!(child.try_wait().unwrap().is_none(), "it lives");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}
