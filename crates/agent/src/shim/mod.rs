//! The shim: a small blocking program that is the parent of a container's first process.
//!
//! ```text
//!  agent --spawn--> shim (own session, child subreaper)   fd 0: run/, locked   fd 1: report to the agent
//!                                                         fd 2: /dev/null, or the leash
//!                    |--fork--> init of the container
//!                    |            stdout, stderr --pipes--> sandbox files, rotated by size
//!                    |-- init ended: kill and reap the whole tree, empty the pipes
//!                    '-- write run/exit, end (which frees the lock)
//! ```
//!
//! One may be started before there is a container for it, and then waits for its order: `spare.rs`.
//!
//! It has one thread and no runtime, decodes its task from the record that the agent has written,
//! and reports once: `ok <pid> <start>` or `bad <text>` or `failed <text>`. It ignores every signal
//! that can be ignored. When it is killed all the same, the init is killed by the kernel
//! (PR_SET_PDEATHSIG) and the agent, seeing the lock free and no exit status, ends the rest.
//!
//! On a leash, a pipe that ends with the agent, it ends its container when the agent has ended.
//!
//! Run it as the first thing of a process: it closes what it has inherited.

use std::ffi::{CStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use longshore_checkpoint::{Durability, Loaded, Writer};
use longshore_sandbox::{LogFile, Rotation, dirs};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};

use self::child::Child;
use self::supervise::Supervision;
use crate::cgroup;
use crate::process::{ProcessId, SHIM_NAME};
use crate::record::{self, ContainerRecord, PidRecord};

mod child;
pub(crate) mod mounts;
pub(crate) mod spare;
mod supervise;
pub(crate) mod sys;
mod tree;

/// The most that a report holds.
pub(crate) const MAX_REPORT: usize = 8192;

/// Runs the shim. `args` are its own arguments alone: the directory of the container, or the word that makes
/// it wait for one.
///
/// Standard input must be the locked `run` directory and standard output the pipe of the report,
/// which is how the agent starts it; called by hand it says so and changes nothing.
pub fn main(args: impl Iterator<Item = OsString>) -> ExitCode {
    let mut args = args;
    let (Some(dir), None) = (args.next(), args.next()) else {
        let _nobody_reads = writeln!(io::stderr(), "usage: shim DIR (started by the agent alone)");
        return ExitCode::from(2);
    };
    sys::close_inherited();
    if spare::is_asked_for(&dir) {
        return spare::run();
    }
    let Ok((report, leash)) = take_streams() else {
        let _nobody_reads = writeln!(io::stderr(), "the shim is started by the agent alone");
        return ExitCode::from(2);
    };
    run(Ready::new(SHIM_NAME), &PathBuf::from(dir), report, leash)
}

/// Starts the container in `dir`, reports, and stays until it has ended.
fn run(
    ready: Result<Ready, Failure>,
    dir: &Path,
    report: File,
    leash: Option<OwnedFd>,
) -> ExitCode {
    let mut report = Some(report);
    match ready.and_then(|ready| start(ready, dir, &mut report, leash)) {
        Ok(supervision) => supervision.run(),
        Err(failure) => {
            let (word, text) = match &failure {
                Failure::Refused(text) => ("bad", text),
                Failure::Failed(text) => ("failed", text),
            };
            let text: String = text.chars().take(MAX_REPORT / 8).collect();
            tell(&mut report, &format!("{word} {text}"));
            ExitCode::FAILURE
        }
    }
}

/// Reports once and ends the report, to whose end the agent reads.
fn tell(report: &mut Option<File>, text: &str) {
    if let Some(mut report) = report.take() {
        let _agent_is_gone = report.write_all(text.as_bytes());
    }
}

/// Why nothing was started.
enum Failure {
    /// The request cannot be.
    Refused(String),
    /// This host failed.
    Failed(String),
}

fn failed<E: std::fmt::Display>(what: &str) -> impl Fn(E) -> Failure {
    move |error| Failure::Failed(format!("cannot {what}: {error}"))
}

/// Takes the report pipe off standard output, and the leash off standard error, where one is there. Standard
/// input, the locked directory, stays where it is: it is the lock, and nothing reads it.
fn take_streams() -> io::Result<(File, Option<OwnedFd>)> {
    let run = child::duplicate(io::stdin())?;
    if !dirs::is(
        &nix::sys::stat::fstat(&run)?,
        nix::sys::stat::SFlag::S_IFDIR,
    ) {
        return Err(io::Error::from_raw_os_error(libc::ENOTDIR));
    }
    let report = child::duplicate(io::stdout())?;
    let stderr = child::duplicate(io::stderr())?;
    let is_pipe = dirs::is(
        &nix::sys::stat::fstat(&stderr)?,
        nix::sys::stat::SFlag::S_IFIFO,
    );
    let null = child::null()?;
    nix::unistd::dup2_stdout(&null)?;
    nix::unistd::dup2_stderr(&null)?;
    Ok((report.into(), is_pipe.then_some(stderr)))
}

/// A process that is set up to be a container's parent, whichever that will be.
struct Ready {
    itself: ProcessId,
    signals: SignalFd,
}

impl Ready {
    /// Sets this process up; it is called `name` from now on.
    fn new(name: &CStr) -> Result<Self, Failure> {
        nix::unistd::setsid().map_err(failed("make a session"))?;
        nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
        std::env::set_current_dir("/").map_err(failed("leave the current directory"))?;
        let _a_name_only = prctl::set_name(name);
        prctl::set_child_subreaper(true).map_err(failed("become a subreaper"))?;
        SigSet::all()
            .thread_block()
            .map_err(failed("block signals"))?;
        // None is delivered here; the container inherits them.
        sys::default_dispositions();
        let mut children = SigSet::empty();
        children.add(Signal::SIGCHLD);
        let flags = SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK;
        let signals =
            SignalFd::with_flags(&children, flags).map_err(failed("watch for ended children"))?;
        let pid = i32::try_from(std::process::id()).map_err(failed("read the own pid"))?;
        let itself = ProcessId::of(pid).map_err(failed("read the own start time"))?;
        Ok(Self { itself, signals })
    }
}

fn start(
    ready: Ready,
    dir: &Path,
    report: &mut Option<File>,
    leash: Option<OwnedFd>,
) -> Result<Supervision, Failure> {
    let Ready {
        itself: shim,
        signals,
    } = ready;
    let path = dir.join(record::CONTAINER);
    let record = match longshore_checkpoint::read::<ContainerRecord>(&path) {
        Ok(Loaded::Record(record)) => record,
        Ok(other) => {
            let text = format!("the record {} cannot be used: {other:?}", path.display());
            return Err(Failure::Failed(text));
        }
        Err(error) => return Err(failed("read the container's record")(error)),
    };
    let spec = &record.spec;
    let sandbox = dirs::open(&spec.sandbox_base)
        .and_then(|base| dirs::ensure_below(base, &spec.sandbox, 0o750))
        .map_err(failed("open the sandbox"))?;
    let log = |name| {
        let dir = child::duplicate(&sandbox)?;
        let owner = spec.user.as_ref().map(|user| (user.uid, user.gid));
        let rotation = Rotation {
            max_bytes: spec.logs.max_bytes,
            keep: spec.logs.keep,
        };
        LogFile::open(dir, name, owner, rotation)
    };
    let logs = [
        log("stdout").map_err(failed("open the sandbox's stdout"))?,
        log("stderr").map_err(failed("open the sandbox's stderr"))?,
    ];

    let pipe = || child::pipe().map_err(failed("make a pipe"));
    let (out_read, out_write) = pipe()?;
    let (err_read, err_write) = pipe()?;
    let (status_read, status_write) = pipe()?;
    let (go_read, go_write) = pipe()?;
    let null = child::null().map_err(failed("open /dev/null"))?;
    let own_cgroup = spec.cgroups.container.iter().find(|dir| cgroup::is_v2(dir));
    let handle = own_cgroup.and_then(|dir| dirs::open(dir).ok());
    let forked = sys::fork_single_threaded(handle.as_ref().map(AsFd::as_fd));
    let (forked, joined) = forked.map_err(failed("fork"))?;
    let pid = match forked {
        sys::Forked::Child => {
            drop((out_read, err_read, status_read, go_write, signals));
            Child {
                spec,
                joined: own_cgroup.filter(|_| joined),
                sandbox: &sandbox,
                shim: shim.pid,
                null,
                stdout: out_write,
                stderr: err_write,
                status: status_write.into(),
                go: go_read.into(),
            }
            .run()
        }
        sys::Forked::Parent(pid) => pid,
    };
    drop((out_write, err_write, status_write, go_read, null));
    let status = File::from(status_read);
    let init = match let_go(dir, shim, pid, &status, go_write.into()) {
        Ok(init) => init,
        Err(failure) => {
            let _already_gone = sys::kill(pid, libc::SIGKILL);
            let _nothing_to_add = tree::end(&spec.cgroups);
            return Err(failure);
        }
    };
    tell(report, &format!("ok {} {}", init.pid, init.start));
    // Without the shims' cgroup the shim stays in the daemon's: worse, but no reason to fail.
    make_shared(&record.spec.cgroups.shims);
    let (slow, quick): (Vec<_>, Vec<_>) = record
        .spec
        .cgroups
        .shims
        .iter()
        .cloned()
        .partition(|dir| cgroup::is_v2(dir));
    let _reported_by_the_agent = cgroup::join(&quick);
    Ok(Supervision {
        dir: dir.to_owned(),
        join_later: slow,
        cgroups: record.spec.cgroups,
        init: pid,
        leash,
        reserved: None,
        signals,
        streams: [out_read, err_read],
        logs,
        status,
    })
}

/// Makes cgroups that several agents share, where they are not there: one that ended has removed them when they
/// were empty.
fn make_shared(dirs: &[PathBuf]) {
    for dir in dirs {
        let _noticed_when_it_is_joined = std::fs::create_dir_all(dir);
    }
}

/// Records the init, waits until it is ready and lets it execute its program.
fn let_go(
    dir: &Path,
    shim: ProcessId,
    pid: i32,
    mut status: &File,
    mut go: File,
) -> Result<ProcessId, Failure> {
    use std::io::Read as _;

    let init = ProcessId::of(pid).map_err(failed("read the init's start time"))?;
    let path = dir.join(record::RUN).join(record::PID);
    Writer::new()
        .write(&path, &PidRecord { shim, init }, Durability::Process)
        .map_err(failed("record the init's pid"))?;
    let mut first = [0];
    let kind = match status.read(&mut first) {
        Ok(1) => first[0],
        Ok(_) => {
            return Err(Failure::Failed(
                "the init ended during its set-up".to_owned(),
            ));
        }
        Err(error) => return Err(failed("read the init's state")(error)),
    };
    if kind != child::READY {
        let text = read_text(status);
        return Err(match kind {
            child::REFUSED => Failure::Refused(text),
            _ => Failure::Failed(text),
        });
    }
    go.write_all(&[1]).map_err(failed("let the init go"))?;
    Ok(init)
}

/// What the child says after the first byte of its message.
fn read_text(status: &File) -> String {
    use std::io::Read as _;

    let mut text = Vec::new();
    let _what_there_is = status.take(4096).read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Makes a descriptor not block.
fn not_blocking(fd: &OwnedFd) -> io::Result<()> {
    use nix::fcntl::{FcntlArg, OFlag, fcntl};

    fcntl(fd.as_fd(), FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
    Ok(())
}
