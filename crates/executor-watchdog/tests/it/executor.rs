use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

/// For what has to happen soon; much longer than it takes, for a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(60);

/// Asks until there is an answer.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begun.elapsed() < SOON, "{what}: not within {SOON:?}");
        std::thread::park_timeout(Duration::from_millis(10));
    }
}

/// A running executor with a watchdog.
pub(crate) struct Executor {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// Its watchdog.
    pub(crate) watchdog: Pid,
}

impl Executor {
    /// One in a session and process group of its own, as an agent starts it.
    pub(crate) fn start(engine: &Path) -> Self {
        Self::start_by(Command::new(env!("CARGO_BIN_EXE_watched-executor")), engine)
    }

    /// The command may be another that ends in the executor.
    pub(crate) fn start_by(mut command: Command, engine: &Path) -> Self {
        let mut child = command
            .arg(engine)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let mut executor = Self {
            input: child.stdin.take().unwrap(),
            output: BufReader::new(child.stdout.take().unwrap()),
            child,
            watchdog: Pid::from_raw(0),
        };
        assert_eq!(executor.answer(), "ok");
        let own = executor.child.id().to_string();
        let wanted = [engine.to_str().unwrap(), &own];
        executor.watchdog = processes()
            .find(|(_, line)| line.len() >= 2 && line[line.len() - 2..] == wanted)
            .map(|(pid, _)| pid)
            .expect("the watchdog runs");
        executor
    }

    #[track_caller]
    pub(crate) fn tell(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
        assert_eq!(self.answer(), "ok", "{line}");
    }

    /// Tells what ends it.
    pub(crate) fn end_by(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
        self.child.wait().unwrap();
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// SIGKILL for it, its process group and everything below it, as an agent's posix launcher does.
    pub(crate) fn kill_tree(&mut self) {
        let own = i32::try_from(self.child.id()).unwrap();
        let below: Vec<Pid> = processes()
            .map(|(pid, _)| pid)
            .filter(|pid| ancestors(*pid).contains(&own))
            .collect();
        for pid in below {
            let _gone = kill(pid, Signal::SIGKILL);
        }
        let _gone = killpg(Pid::from_raw(own), Signal::SIGKILL);
        self.child.wait().unwrap();
    }

    /// SIGKILL for it alone.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Takes note of its end, if it has ended.
    pub(crate) fn reap(&mut self) {
        self.child.try_wait().unwrap();
    }

    pub(crate) fn watchdog_lives(&self) -> bool {
        is_alive(self.watchdog)
    }

    pub(crate) fn wait_for_the_watchdogs_end(&self) {
        eventually("the watchdog ends", || {
            (!self.watchdog_lives()).then_some(())
        });
    }
}

impl Drop for Executor {
    fn drop(&mut self) {
        // What is gone already is as good.
        let _gone = self.child.kill();
        let _gone = self.child.wait();
        let _gone = kill(self.watchdog, Signal::SIGKILL);
    }
}

/// A zombie is dead.
pub(crate) fn is_alive(pid: Pid) -> bool {
    let stat = stat(pid);
    stat.is_some_and(|stat| stat[0] != "Z" && stat[0] != "X")
}

/// The fields of `/proc/PID/stat` after the name: state, parent, group, session, ..
pub(crate) fn stat(pid: Pid) -> Option<Vec<String>> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after) = text.rsplit_once(") ")?;
    Some(after.split(' ').map(str::to_owned).collect())
}

fn ancestors(pid: Pid) -> Vec<i32> {
    let mut found = Vec::new();
    let mut next = pid;
    while let Some(parent) = stat(next).and_then(|stat| stat[1].parse().ok()) {
        if parent <= 1 || found.len() > 100 {
            break;
        }
        found.push(parent);
        next = Pid::from_raw(parent);
    }
    found
}

fn processes() -> impl Iterator<Item = (Pid, Vec<String>)> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| {
        let pid = entry.file_name().to_str()?.parse().ok()?;
        let path: PathBuf = entry.path().join("cmdline");
        let line = std::fs::read(path).ok()?;
        let words = line
            .split(|byte| *byte == 0)
            .filter(|word| !word.is_empty());
        let words = words.map(|word| String::from_utf8_lossy(word).into_owned());
        Some((Pid::from_raw(pid), words.collect()))
    })
}
