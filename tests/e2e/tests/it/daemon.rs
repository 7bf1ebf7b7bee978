//! `longshore daemon` in a directory of its own.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tokio::time::Instant;

use crate::procs;

/// How long anything may take before a test calls it lost. Generous: the machine may be busy.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(10);

/// The binary under test: `LONGSHORE_BIN`, else the one of this build directory.
pub(crate) fn longshore() -> PathBuf {
    let path = std::env::var_os("LONGSHORE_BIN").map_or_else(
        || {
            let test = std::env::current_exe().unwrap();
            let profile = test.parent().and_then(Path::parent).unwrap();
            profile.join("longshore")
        },
        PathBuf::from,
    );
    assert!(
        path.is_file(),
        "{} is missing; `cargo build -p longshore` makes it (`cargo xtask test` does)",
        path.display()
    );
    path
}

/// A root directory, a configuration and at most one running daemon. Dropping it ends every
/// process that has the directory in its arguments or environment.
#[derive(Debug)]
pub(crate) struct Daemon {
    root: tempfile::TempDir,
    child: Option<Child>,
}

impl Daemon {
    /// In `/tmp`, since a socket's path must be short.
    pub(crate) fn new() -> Self {
        let root = tempfile::Builder::new()
            .prefix("ls-")
            .tempdir_in("/tmp")
            .unwrap();
        for name in ["state", "run"] {
            fs::create_dir(root.path().join(name)).unwrap();
        }
        Self { root, child: None }
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn log_file(&self) -> PathBuf {
        self.root().join("daemon.log")
    }

    /// Replaces the configuration as an editor would; `body` follows the two directories.
    pub(crate) fn configure(&self, body: &str) {
        let root = self.root().display();
        let text = format!("state_dir = \"{root}/state\"\nruntime_dir = \"{root}/run\"\n{body}");
        let next = self.root().join("next.toml");
        fs::write(&next, text).unwrap();
        #[expect(
            clippy::disallowed_methods,
            reason = "a configuration is no state of ours"
        )]
        fs::rename(&next, self.config()).unwrap();
    }

    fn config(&self) -> PathBuf {
        self.root().join("longshore.toml")
    }

    /// Starts the daemon; does not wait for anything.
    pub(crate) fn start(&mut self) {
        assert!(self.child.is_none(), "a daemon is running already");
        let log: File = OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.log_file())
            .unwrap();
        let child = Command::new(longshore())
            .args(["daemon", "-c"])
            .arg(self.config())
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        self.child = Some(child);
    }

    pub(crate) fn signal(&mut self, signal: Signal) {
        let child = self.child.as_ref().expect("a running daemon");
        kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), signal).unwrap();
    }

    /// SIGKILL; returns once the daemon is gone.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().expect("a running daemon");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// SIGTERM; returns the status of the daemon once it has ended.
    pub(crate) async fn stop(&mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        let mut child = self.child.take().unwrap();
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status;
            }
            assert!(
                Instant::now() < deadline,
                "it does not stop\n{}",
                self.log_tail()
            );
            tokio::time::sleep(POLL).await;
        }
    }

    /// The status that ended it by itself, if it has.
    pub(crate) fn ended(&mut self) -> Option<ExitStatus> {
        self.child
            .as_mut()
            .and_then(|child| child.try_wait().unwrap())
    }

    /// Runs a verb of the command line against this daemon.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(longshore());
        command
            .args(args)
            .env("LONGSHORE_CONFIG", self.config())
            .env("NO_COLOR", "1")
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// `status --json`, or `None` while the daemon does not answer.
    pub(crate) fn status(&self) -> Option<Value> {
        let output = self.run(&["status", "--json"]);
        serde_json::from_slice(&output.stdout).ok()
    }

    /// Waits until the status pleases `judge`, which says what is missing.
    pub(crate) async fn until(
        &mut self,
        what: &str,
        mut judge: impl FnMut(&Value) -> Result<(), String>,
    ) -> Value {
        let deadline = Instant::now() + PATIENCE;
        let mut missing = String::from("no answer");
        loop {
            if let Some(status) = self.status() {
                match judge(&status) {
                    Ok(()) => return status,
                    Err(why) => missing = why,
                }
            } else if let Some(status) = self.ended() {
                panic!(
                    "waiting for {what}: the daemon ended with {status}\n{}",
                    self.log_tail()
                );
            }
            assert!(
                Instant::now() < deadline,
                "waited {PATIENCE:?} for {what}: {missing}\n{}",
                self.log_tail()
            );
            tokio::time::sleep(POLL).await;
        }
    }

    /// The last lines of the daemon's log.
    pub(crate) fn log_tail(&self) -> String {
        let log = fs::read_to_string(self.log_file()).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(60)..].join("\n")
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
        // A shim whose container is killed may do a last write: until none is left, bounded.
        for _ in 0..100 {
            let left = procs::below(self.root());
            if left.is_empty() {
                break;
            }
            left.iter().for_each(procs::Proc::kill);
        }
    }
}
