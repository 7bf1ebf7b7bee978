//! The watchdog itself.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::PathBuf;
use std::time::Instant;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::{dup2_stdin, dup2_stdout};

use crate::protocol::{Init, Ledger};
use crate::{cgroup, say, stop, sys};

/// Watches the executor `pid`, whose lines come on standard input, and ends what it leaves behind.
pub(crate) fn run(socket: PathBuf, pid: i32) -> io::Result<()> {
    nix::unistd::setsid()?;
    ignore_signals()?;
    std::env::set_current_dir("/")?;
    if nix::unistd::geteuid().is_root() {
        for (hierarchy, error) in cgroup::leave() {
            say(&format!(
                "cannot leave the executor's cgroup in {}: {error}",
                hierarchy.display()
            ));
        }
    }
    let pipe = io::stdin().as_fd().try_clone_to_owned()?;
    let null = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&null)?;
    // Where there is none, it has died already, and its pipe says so, too.
    let executor = sys::pidfd_open(pid).ok();
    let ready = io::stdout().write_all(crate::start::READY);
    let told = ready.and_then(|()| io::stdout().flush());
    dup2_stdout(&null)?;
    told?;

    let mut ledger = Ledger::default();
    let inits = listen(pipe, executor, &mut ledger)?;
    if ledger.done || ledger.watched.is_empty() {
        return Ok(());
    }
    let found = Instant::now();
    std::thread::scope(|scope| {
        for (name, watched) in &ledger.watched {
            let (socket, init) = (&socket, inits.get(name));
            scope.spawn(move || stop::stop(socket, watched, init, found));
        }
    });
    Ok(())
}

/// What ends an executor's process group or session is not meant for this process.
fn ignore_signals() -> io::Result<()> {
    let mut set = SigSet::empty();
    for signal in [
        Signal::SIGHUP,
        Signal::SIGINT,
        Signal::SIGQUIT,
        Signal::SIGTERM,
        Signal::SIGTSTP,
        Signal::SIGTTIN,
        Signal::SIGTTOU,
    ] {
        set.add(signal);
    }
    set.thread_block()?;
    Ok(())
}

/// Reads what the executor tells until it is done or dead; gives handles of the containers' first processes.
fn listen(
    pipe: OwnedFd,
    executor: Option<OwnedFd>,
    ledger: &mut Ledger,
) -> io::Result<BTreeMap<String, OwnedFd>> {
    let mut inits = BTreeMap::new();
    let mut part = [0; 4096];
    let mut pipe = File::from(pipe);
    nix::fcntl::fcntl(
        &pipe,
        nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK),
    )?;
    while !ledger.done {
        let mut waited = vec![PollFd::new(pipe.as_fd(), PollFlags::POLLIN)];
        if let Some(executor) = &executor {
            waited.push(PollFd::new(executor.as_fd(), PollFlags::POLLIN));
        }
        match poll(&mut waited, PollTimeout::NONE) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let fired = |number: usize| {
            let fd: Option<&PollFd<'_>> = waited.get(number);
            fd.and_then(PollFd::any).unwrap_or(false)
        };
        let (has_input, has_ended) = (fired(0), fired(1));
        // What it had said before its end counts: the pipe is emptied first.
        if has_input {
            match pipe.read(&mut part) {
                Ok(0) => break,
                Ok(count) => {
                    for name in ledger.take(&part[..count]) {
                        let watched = ledger.watched.get(&name);
                        let init = watched.and_then(|watched| watched.init);
                        if let Some(handle) = init.and_then(hold) {
                            inits.insert(name, handle);
                        }
                    }
                }
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock
                    ) => {}
                Err(_) => break,
            }
        } else if has_ended {
            break;
        }
    }
    Ok(inits)
}

/// A handle of the process that was meant; none when it has ended, whoever has its pid now.
fn hold(init: Init) -> Option<OwnedFd> {
    let handle = sys::pidfd_open(init.pid).ok()?;
    // Whose start is read now is the one of the handle: a process that has ended since then has none.
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", init.pid)).ok()?;
    (start_of(&stat)? == init.start).then_some(handle)
}

/// Field 22 of `/proc/PID/stat`. The name before it may hold anything.
fn start_of(stat: &str) -> Option<u64> {
    let (_, after) = stat.rsplit_once(')')?;
    after.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handle_is_of_the_process_that_began_then_and_of_no_other() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
        let start = start_of(&stat).unwrap();
        assert!(hold(Init { pid, start }).is_some());
        for start in [0, start - 1, start + 1] {
            assert!(hold(Init { pid, start }).is_none());
        }
    }

    #[test]
    fn the_start_is_found_behind_any_name() {
        let numbers: Vec<_> = (4..=52).map(|field| field.to_string()).collect();
        for name in ["sh", "a b", ") S 1 (", ""] {
            let stat = format!("7 ({name}) S {}", numbers.join(" "));
            assert_eq!(start_of(&stat), Some(22), "{stat}");
        }
        for bad in ["", "7 (sh", "7 (sh) S 1 2", "7 (sh)"] {
            assert_eq!(start_of(bad), None);
        }
    }
}
