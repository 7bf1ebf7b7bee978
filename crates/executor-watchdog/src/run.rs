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

use crate::protocol::Ledger;
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
                        let pid = watched.and_then(|watched| watched.pid);
                        if let Some(init) = pid.and_then(|pid| sys::pidfd_open(pid).ok()) {
                            inits.insert(name, init);
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
