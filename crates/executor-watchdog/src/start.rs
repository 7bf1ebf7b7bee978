//! The executor's side, and the process in between.

use std::ffi::OsStr;
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::protocol::{Told, container};
use crate::{RUN, START, WATCHDOG, Watched};

/// What the watchdog says when it watches.
pub(crate) const READY: &[u8] = b"ready\n";

/// Starting a process twice takes milliseconds; a machine may be busy.
const START_DEADLINE: Duration = Duration::from_secs(20);

/// This binary, also after its file was replaced.
const ITSELF: &str = "/proc/self/exe";

/// A running watchdog of this process. Dropping it without [`Watchdog::done`] is a death of the executor.
#[derive(Debug)]
pub struct Watchdog {
    pipe: ChildStdin,
}

impl Watchdog {
    /// Starts it for an engine on this socket, and waits until it watches. To be called before there is another thread.
    ///
    /// # Errors
    /// It cannot be started, or does not say within 20 s that it watches.
    pub fn start(engine: &Path) -> io::Result<Self> {
        let mut child = Command::new(ITSELF)
            .arg0("longshore")
            .args([WATCHDOG, START])
            .arg(engine)
            .arg(std::process::id().to_string())
            // It needs nothing of it, and the executor's token is in it.
            .env_clear()
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let pipe = child.stdin.take();
        let ready = child.stdout.take().map_or_else(
            || Err(io::Error::other("no pipe")),
            |stdout| wait_until_ready(stdout, &mut child),
        );
        // The one in between ends by itself.
        child.wait()?;
        ready?;
        match pipe {
            Some(pipe) => Ok(Self { pipe }),
            None => Err(io::Error::other("no pipe")),
        }
    }

    /// From now on `watched` does not outlive this process. To be told before the container is created, and again when its
    /// first process is known or its grace has changed.
    ///
    /// # Errors
    /// The watchdog is gone, or the container's name is none.
    pub fn watch(&mut self, watched: &Watched) -> io::Result<()> {
        if container(&watched.container).is_none() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{:?} is no name of a container", watched.container),
            ));
        }
        self.tell(&Told::Watch(watched.clone()))
    }

    /// The container is gone, or somebody else's business.
    ///
    /// # Errors
    /// The watchdog is gone.
    pub fn forget(&mut self, container: &str) -> io::Result<()> {
        self.tell(&Told::Forget(container.to_owned()))
    }

    /// The executor ends as it should: nothing is to be done.
    ///
    /// # Errors
    /// The watchdog is gone.
    pub fn done(mut self) -> io::Result<()> {
        self.tell(&Told::Done)
    }

    /// One write of less than a pipe takes at once: whole, or not at all.
    fn tell(&mut self, told: &Told) -> io::Result<()> {
        self.pipe.write_all(told.to_string().as_bytes())
    }
}

fn wait_until_ready(mut stdout: ChildStdout, child: &mut Child) -> io::Result<()> {
    let end = Instant::now() + START_DEADLINE;
    let mut said = Vec::new();
    let mut part = [0; 64];
    while said.len() < READY.len() {
        let left = end.saturating_duration_since(Instant::now());
        let millis = i32::try_from(left.as_millis()).unwrap_or(i32::MAX);
        let timeout = PollTimeout::try_from(millis).unwrap_or(PollTimeout::ZERO);
        let mut waited = [PollFd::new(stdout.as_fd(), PollFlags::POLLIN)];
        match poll(&mut waited, timeout) {
            Ok(0) => {
                child.kill()?;
                return Err(io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("the watchdog does not watch within {START_DEADLINE:?}"),
                ));
            }
            Ok(_) => {}
            Err(nix::errno::Errno::EINTR) => continue,
            Err(error) => return Err(error.into()),
        }
        match stdout.read(&mut part)? {
            0 => break,
            count => said.extend_from_slice(&part[..count]),
        }
    }
    if said == READY {
        Ok(())
    } else {
        Err(io::Error::other(
            "the watchdog ended before it watched; its reason is on standard error",
        ))
    }
}

/// The process in between: its end makes the watchdog a child of init.
pub(crate) fn detach(engine: &OsStr, executor: &OsStr) -> io::Result<()> {
    nix::unistd::setsid()?;
    // Not waited for, that is the point. It has this process's pipes.
    let _child = Command::new(ITSELF)
        .arg0("longshore")
        .args([WATCHDOG, RUN])
        .arg(engine)
        .arg(executor)
        .spawn()?;
    Ok(())
}
