//! One launched plugin: its process, its end of the socket, its last words.
//!
//! ```text
//!  spawn -> running --leader ended-----------------------------> KILL the group -> reap -> Exit
//!              |----terminate--> TERM to the group, grace ---ended----^
//!              |                                      '-over-> KILL the group --ended--^
//!              '----handle dropped--> KILL the group --------------ended---------------^
//! ```
//!
//! The group is killed while its leader is not yet reaped: until then no other process can be given
//! its number.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::Pid;
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;
use tokio::net::unix::pipe;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until, timeout};

use super::discover::holds_nul;
use super::stderr::{Capture, Tail};
use super::trust::Judge;
use super::{LaunchError, Program, sys};

/// How long executing a program may take, as on a file system that hangs.
const SPAWN_DEADLINE: Duration = Duration::from_secs(10);
/// How long what a process that ended has written is still read.
const DRAIN: Duration = Duration::from_millis(500);

/// How a plugin's process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// Its exit status, when it exited.
    pub code: Option<i32>,
    /// The signal that ended it, else.
    pub signal: Option<i32>,
}

/// A running plugin. Dropping it kills the plugin and the processes of its group.
#[derive(Debug)]
pub struct Child {
    pid: i32,
    stream: Option<UnixStream>,
    grace: watch::Sender<Option<Duration>>,
    exit: watch::Receiver<Option<Exit>>,
    tail: Tail,
}

/// Starts a plugin: in `/`, leading a session of its own, with three variables, a socket as
/// descriptor 3, nothing on standard input and output, and its standard error captured into the log.
///
/// The executable is judged again, as it was when it was discovered: months may lie between.
///
/// Cancel safe: a process that is started and not handed out any more is killed.
///
/// # Errors
/// [`LaunchError::Untrusted`], [`LaunchError::Look`], or [`LaunchError::Spawn`] with what the system
/// says; timed out after 10 s.
///
/// # Panics
/// Outside a tokio runtime with I/O and time enabled.
pub async fn spawn(program: &Program) -> Result<Child, LaunchError> {
    let failed = |source| LaunchError::Spawn {
        path: program.path.clone(),
        source,
    };
    let start = tokio::task::spawn_blocking({
        let program = program.clone();
        move || Started::new(&program)
    });
    let started = match timeout(SPAWN_DEADLINE, start).await {
        Ok(Ok(started)) => started?,
        Ok(Err(error)) => return Err(failed(io::Error::other(error))),
        Err(_) => return Err(failed(io::ErrorKind::TimedOut.into())),
    };
    started.watch(program).map_err(failed)
}

impl Child {
    /// The pid of the plugin's process, which leads its session and group.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// The runtime's end of the socket; `None` when it was taken before.
    pub fn take_stream(&mut self) -> Option<UnixStream> {
        self.stream.take()
    }

    /// How the process ended, if it has.
    pub fn exited(&self) -> Option<Exit> {
        *self.exit.borrow()
    }

    /// Waits until the process has ended, has been reaped, and nothing is left of its group.
    ///
    /// Cancel safe.
    pub async fn wait(&mut self) -> Exit {
        match self.exit.wait_for(Option::is_some).await {
            Ok(exit) => *exit,
            Err(_) => None,
        }
        // The runtime is shutting down: it killed the process with the task that watched it.
        .unwrap_or(Exit {
            code: None,
            signal: Some(libc::SIGKILL),
        })
    }

    /// Ends the plugin: TERM to its group, KILL after `grace`, then as [`Child::wait`].
    ///
    /// Cancelling the future does not take the order back. Of several graces the first to end counts.
    pub async fn terminate(&mut self, grace: Duration) -> Exit {
        self.grace.send_replace(Some(grace));
        self.wait().await
    }

    /// The last lines of its standard error, oldest first; at most 50 of at most 4 KiB.
    pub fn last_lines(&self) -> Vec<String> {
        self.tail.lines()
    }

    /// The last lines of its standard error in one, for a message: at most five of at most 200
    /// characters that are not blank, as `first | second`; empty when there are none.
    pub fn last_words(&self) -> String {
        self.tail.words()
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exited with status {code}"),
            (None, Some(signal)) => match Signal::try_from(signal) {
                Ok(signal) => write!(f, "was ended by {signal}"),
                Err(_) => write!(f, "was ended by signal {signal}"),
            },
            (None, None) => f.write_str("ended"),
        }
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        Self {
            code: status.code(),
            signal: status.signal(),
        }
    }
}

/// A process that runs and that nobody watches yet.
struct Started {
    process: Process,
    handle: OwnedFd,
    stream: StdStream,
    stderr: OwnedFd,
}

impl Started {
    fn new(program: &Program) -> Result<Self, LaunchError> {
        let judge = Judge::new(program.trust_any_owner);
        judge.look(&program.path)?;
        let failed = |source| LaunchError::Spawn {
            path: program.path.clone(),
            source,
        };
        if program.args.iter().any(|argument| holds_nul(argument)) {
            return Err(failed(io::ErrorKind::InvalidInput.into()));
        }
        let (ours, theirs) = StdStream::pair().map_err(failed)?;
        let mut command = Command::new(&program.path);
        command
            .arg0(&program.path)
            .args(&program.args)
            .env_clear()
            .env("NRI_PLUGIN_NAME", program.id.base())
            .env("NRI_PLUGIN_IDX", program.id.index().to_string())
            .env("NRI_PLUGIN_SOCKET", sys::SOCKET.to_string())
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        sys::isolate(&mut command, theirs.into());
        let mut process = Process::new(command.spawn().map_err(failed)?).map_err(failed)?;
        let stderr = process.child.stderr.take();
        let stderr = stderr.ok_or_else(|| failed(io::ErrorKind::BrokenPipe.into()))?;
        Ok(Self {
            handle: sys::pidfd_open(process.group.as_raw()).map_err(failed)?,
            process,
            stream: ours,
            stderr: stderr.into(),
        })
    }

    fn watch(self, program: &Program) -> io::Result<Child> {
        let pid = self.process.group.as_raw();
        self.stream.set_nonblocking(true)?;
        let stream = UnixStream::from_std(self.stream)?;
        let pipe = pipe::Receiver::from_owned_fd(self.stderr)?;
        let tail = Tail::default();
        let (grace, orders) = watch::channel(None);
        let (exits, exit) = watch::channel(None);
        let keeper = Keeper {
            process: self.process,
            handle: sys::watch_end(self.handle)?,
            orders,
        };
        let capture = Capture::new(program.id.to_string(), pid, tail.clone());
        // On its own, since it has to outlive the handle to reap the process; it ends with that.
        tokio::spawn(async move {
            let status = keeper.run(capture, pipe).await;
            exits.send_replace(Some(status));
        });
        Ok(Child {
            pid,
            stream: Some(stream),
            grace,
            exit,
            tail,
        })
    }
}

/// A process that leads a group. Dropping it kills the group, and reaps the process in the background.
struct Process {
    child: std::process::Child,
    group: Pid,
    reaped: bool,
}

impl Process {
    fn new(mut child: std::process::Child) -> io::Result<Self> {
        match i32::try_from(child.id()) {
            Ok(pid) if pid > 1 => Ok(Self {
                child,
                group: Pid::from_raw(pid),
                reaped: false,
            }),
            // No kernel hands out such a pid.
            _ => {
                child.kill()?;
                child.wait()?;
                Err(io::ErrorKind::InvalidData.into())
            }
        }
    }

    fn signal(&self, signal: Signal) {
        if self.reaped {
            return;
        }
        // A group that is gone is what was wanted.
        let _gone = killpg(self.group, signal);
    }

    fn reap(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait()?;
        self.reaped = true;
        Ok(status)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.reaped {
            return;
        }
        self.signal(Signal::SIGKILL);
        if matches!(self.child.try_wait(), Ok(Some(_))) {
            return;
        }
        // Dying takes a moment, and a task that is dropped must not wait for it.
        let pid = self.group;
        let reap = move || {
            let _not_ours_any_more = nix::sys::wait::waitpid(pid, None);
        };
        let spawned = std::thread::Builder::new()
            .name("nri-reap".into())
            .spawn(reap);
        if let Err(error) = spawned {
            tracing::warn!(%pid, %error, "a plugin that was killed stays a zombie");
        }
    }
}

/// Waits for the end of a process, and brings it about.
struct Keeper {
    process: Process,
    handle: AsyncFd<OwnedFd>,
    orders: watch::Receiver<Option<Duration>>,
}

impl Keeper {
    async fn run(mut self, capture: Capture, pipe: pipe::Receiver) -> Exit {
        let read = capture.run(pipe);
        tokio::pin!(read);
        let mut read_all = false;
        let mut kill_at: Option<Instant> = None;
        let mut wanted = true;
        loop {
            tokio::select! {
                ready = self.handle.readable() => match ready {
                    Ok(mut ready) if has_ended(self.handle.get_ref()) => { ready.retain_ready(); break }
                    Ok(mut ready) => ready.clear_ready(),
                    // The reactor is gone, and with it what this runs on.
                    Err(_) => break,
                },
                () = &mut read, if !read_all => read_all = true,
                order = self.orders.changed(), if wanted => match order {
                    Ok(()) => kill_at = Some(self.terminate(kill_at)),
                    Err(_) => {
                        wanted = false;
                        self.process.signal(Signal::SIGKILL);
                    }
                },
                () = until(kill_at) => {
                    kill_at = None;
                    self.process.signal(Signal::SIGKILL);
                }
            }
        }
        self.process.signal(Signal::SIGKILL);
        let status = self.process.reap();
        if !read_all {
            // What left the group may hold the pipe open.
            let _left_open = timeout(DRAIN, &mut read).await;
        }
        match status {
            Ok(status) => status.into(),
            Err(error) => {
                tracing::warn!(pid = %self.process.group, %error, "the exit status of a plugin is lost");
                Exit {
                    code: None,
                    signal: None,
                }
            }
        }
    }

    /// Asks the group to end, and says when it is to be killed.
    fn terminate(&mut self, kill_at: Option<Instant>) -> Instant {
        self.process.signal(Signal::SIGTERM);
        let grace = self.orders.borrow_and_update().unwrap_or_default();
        let at = Instant::now() + grace.min(Duration::from_secs(3600));
        kill_at.map_or(at, |earlier| earlier.min(at))
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Whether the process behind a pidfd has ended; it is not reaped.
fn has_ended(handle: &OwnedFd) -> bool {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG | WaitPidFlag::WNOWAIT;
    !matches!(
        waitid(Id::PIDFd(handle.as_fd()), flags),
        Ok(WaitStatus::StillAlive)
    )
}
