//! What happens between fork and exec, in the process that becomes the container's init.
//!
//! ```text
//!  shim   fork --------------------- pid recorded ---- go --------> loop
//!  child       set-up -- Ready / Refused / Failed        \-- exec -- end of the pipe | NotExecuted
//! ```
//!
//! Nothing of the command runs before its pid is on record.

use std::ffi::{CStr, CString};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, sigprocmask};
use nix::sys::stat::{Mode, umask};
use nix::unistd::{Gid, Uid, fchdir, getppid, setgroups, setresgid, setresuid, setsid};

use super::{mounts, sys};
use crate::cgroup;
use crate::record::{Program, Spec};

/// The first byte of what the child tells the shim.
pub(super) const READY: u8 = b'R';
/// The request cannot be; a text follows.
pub(super) const REFUSED: u8 = b'B';
/// This host failed; a text follows.
pub(super) const FAILED: u8 = b'I';
/// The set-up was good and the program could not be executed; a text follows.
pub(super) const NOT_EXECUTED: u8 = b'X';

/// The exit code of a container whose program could not be executed. (A Mesos agent means the same
/// and reports 256256, since "256" is written to its status file twice.)
const EXIT_NOT_EXECUTED: i32 = 1;

/// The child's ends of the pipes, and what it starts from.
pub(super) struct Child<'a> {
    pub spec: &'a Spec,
    /// The cgroup that the process was born in.
    pub joined: Option<&'a PathBuf>,
    pub sandbox: &'a OwnedFd,
    pub shim: i32,
    pub null: OwnedFd,
    pub stdout: OwnedFd,
    pub stderr: OwnedFd,
    pub status: File,
    pub go: File,
}

struct Failure {
    kind: u8,
    text: String,
}

impl Child<'_> {
    /// Sets up and executes; never comes back.
    pub(super) fn run(mut self) -> ! {
        if let Err(failure) = self.set_up() {
            self.tell(failure.kind, &failure.text);
            sys::exit_now(EXIT_NOT_EXECUTED);
        }
        self.tell(READY, "");
        let mut go = [0];
        if self.go.read_exact(&mut go).is_err() {
            sys::exit_now(EXIT_NOT_EXECUTED);
        }
        let text = self.execute();
        // A broken pipe must not change how this ends.
        let _nobody_reads = writeln!(io::stderr(), "{text}");
        self.tell(NOT_EXECUTED, &text);
        sys::exit_now(EXIT_NOT_EXECUTED)
    }

    fn tell(&mut self, kind: u8, text: &str) {
        let mut message = vec![kind];
        message.extend_from_slice(text.as_bytes());
        let _shim_is_gone = self.status.write_all(&message);
    }

    fn set_up(&self) -> Result<(), Failure> {
        let spec = self.spec;
        setsid().map_err(failed("make a session"))?;
        // Set again after the change of user, which clears it.
        prctl::set_pdeathsig(Signal::SIGKILL).map_err(failed("set the death signal"))?;
        sys::reset_nice();
        let others = spec
            .cgroups
            .container
            .iter()
            .filter(|dir| Some(*dir) != self.joined);
        cgroup::join(others).map_err(|error| Failure {
            kind: FAILED,
            text: error.to_string(),
        })?;
        set_oom_score(spec.oom_score_adj)?;
        if spec.mounts.namespace {
            let sandbox = mounts::enter(spec).map_err(|text| Failure {
                kind: REFUSED,
                text,
            })?;
            fchdir(sandbox).map_err(failed("enter the sandbox"))?;
        } else {
            fchdir(self.sandbox).map_err(failed("enter the sandbox"))?;
        }
        nix::unistd::dup2_stdin(&self.null).map_err(failed("set stdin"))?;
        nix::unistd::dup2_stdout(&self.stdout).map_err(failed("set stdout"))?;
        nix::unistd::dup2_stderr(&self.stderr).map_err(failed("set stderr"))?;
        for limit in &spec.rlimits {
            sys::set_rlimit(limit.resource, limit.soft, limit.hard).map_err(|error| Failure {
                kind: REFUSED,
                text: format!(
                    "cannot set resource limit {} to {}:{}: {error}",
                    limit.resource, limit.soft, limit.hard
                ),
            })?;
        }
        if let Some(user) = &spec.user {
            let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
            let groups: Vec<Gid> = user.groups.iter().copied().map(Gid::from_raw).collect();
            setgroups(&groups).map_err(failed("set the supplementary groups"))?;
            setresgid(gid, gid, gid).map_err(failed("set the group"))?;
            setresuid(uid, uid, uid).map_err(failed("set the user"))?;
        }
        prctl::set_pdeathsig(Signal::SIGKILL).map_err(failed("set the death signal"))?;
        if getppid().as_raw() != self.shim {
            return Err(Failure {
                kind: FAILED,
                text: "the shim is gone".to_owned(),
            });
        }
        umask(Mode::from_bits_truncate(0o022));
        // What signals do is the default already: the shim has seen to it.
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)
            .map_err(failed("set the signal mask"))?;
        Ok(())
    }

    /// Executes the program; comes back with the reason why it could not.
    fn execute(&self) -> String {
        let (file, arguments) = match &self.spec.program {
            Program::Missing(text) => return text.clone(),
            Program::Shell(command) => (
                "/bin/sh",
                vec!["sh".to_owned(), "-c".to_owned(), command.clone()],
            ),
            Program::Exec { file, arguments } => (file.as_str(), arguments.clone()),
        };
        match self.execute_file(file, &arguments) {
            Ok(never) => match never {},
            Err(error) => format!("Failed to execute '{file}': {}", error.desc()),
        }
    }

    fn execute_file(
        &self,
        file: &str,
        arguments: &[String],
    ) -> Result<std::convert::Infallible, Errno> {
        let text = |text: &str| CString::new(text).map_err(|_nul| Errno::EINVAL);
        let arguments = arguments
            .iter()
            .map(|one| text(one))
            .collect::<Result<Vec<_>, _>>()?;
        let environment = self
            .spec
            .environment
            .iter()
            .map(|(name, value)| text(&format!("{name}={value}")))
            .collect::<Result<Vec<_>, _>>()?;
        if file.contains('/') {
            return nix::unistd::execve(&text(file)?, &arguments, &environment);
        }
        let path = self
            .spec
            .environment
            .iter()
            .rev()
            .find_map(|(name, value)| (name == "PATH").then_some(value.as_str()))
            .unwrap_or_default();
        let mut worst = Errno::ENOENT;
        for dir in path.split(':').filter(|dir| !dir.is_empty()) {
            let candidate = text(&Path::new(dir).join(file).to_string_lossy())?;
            match nix::unistd::execve::<CString, CString>(
                &candidate as &CStr,
                &arguments,
                &environment,
            ) {
                Ok(never) => return Ok(never),
                Err(Errno::ENOENT | Errno::ENOTDIR) => {}
                // As execvp(3): go on looking, but remember that there was one.
                Err(Errno::EACCES) => worst = Errno::EACCES,
                Err(error) => return Err(error),
            }
        }
        Err(worst)
    }
}

fn set_oom_score(value: i32) -> Result<(), Failure> {
    match fs::write("/proc/self/oom_score_adj", value.to_string()) {
        Ok(()) => Ok(()),
        // Below what we have inherited needs CAP_SYS_RESOURCE; the default is no wish of anybody.
        Err(_) if value == 0 => Ok(()),
        Err(error) => Err(Failure {
            kind: REFUSED,
            text: format!("cannot set oom_score_adj to {value}: {error}"),
        }),
    }
}

fn failed(what: &'static str) -> impl Fn(Errno) -> Failure {
    move |error| Failure {
        kind: FAILED,
        text: format!("cannot {what}: {}", error.desc()),
    }
}

/// Where a pipe's child end is given to [`Child`]; kept beside it so that both ends are seen.
pub(super) fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(nix::unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC)?)
}

/// A handle on `/dev/null`.
pub(super) fn null() -> io::Result<OwnedFd> {
    Ok(File::options()
        .read(true)
        .write(true)
        .open("/dev/null")?
        .into())
}

/// A second handle on a stream of this process.
pub(super) fn duplicate(stream: impl AsFd) -> io::Result<OwnedFd> {
    stream.as_fd().try_clone_to_owned()
}
