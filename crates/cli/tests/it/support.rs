//! A home for a test: a directory, the binary in it, and what is left of its processes.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

pub(crate) const LONGSHORE: &str = env!("CARGO_BIN_EXE_longshore");

/// For what has to happen soon; much longer than it takes, for a busy machine.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// Asks until there is an answer.
pub(crate) fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begun.elapsed() < SOON, "{what}: not within {SOON:?}");
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// Asks until the answer is the expected one; says what it was instead.
pub(crate) fn eventually_is<T: PartialEq + std::fmt::Debug>(
    what: &str,
    expected: &T,
    mut ask: impl FnMut() -> T,
) {
    let begun = Instant::now();
    loop {
        let answer = ask();
        if answer == *expected {
            return;
        }
        assert!(
            begun.elapsed() < SOON,
            "{what}: not within {SOON:?}: expected {expected:#?}, the last answer was {answer:#?}"
        );
        std::thread::park_timeout(Duration::from_millis(20));
    }
}

/// What a command did.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

impl Done {
    /// The same, having ended with `code`.
    #[track_caller]
    pub(crate) fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "{self:#?}");
        self
    }

    pub(crate) fn json(&self) -> serde_json::Value {
        let json: serde_json::Value = serde_json::from_str(&self.stdout).unwrap();
        assert_eq!(json["version"], 1, "{json}");
        json
    }
}

/// A directory for everything; whatever still runs out of it ends when it is dropped.
pub(crate) struct Home {
    dir: TempDir,
    uid: Option<u32>,
    pub(crate) program: PathBuf,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            uid: None,
            program: LONGSHORE.into(),
        }
    }

    /// For the user "nobody", with a copy of the binary that they can reach; only for root.
    pub(crate) fn of_nobody() -> Option<Self> {
        if !nix::unistd::geteuid().is_root() {
            return None;
        }
        let mut home = Self::new();
        home.program = home.path().join("longshore");
        // Copied by another process: a descriptor of ours that is open for writing could be
        // inherited by what another test starts, and the copy be "busy".
        let copied = Command::new("cp")
            .arg(LONGSHORE)
            .arg(&home.program)
            .status()
            .unwrap();
        assert!(copied.success());
        home.uid = Some(65_534);
        home.give_to_nobody(home.path());
        Some(home)
    }

    pub(crate) fn give_to_nobody(&self, path: &Path) {
        std::os::unix::fs::chown(path, Some(65_534), Some(65_534)).unwrap();
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn join(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// The binary, with an environment of this home alone.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        self.command_of(&self.program, args)
    }

    /// Another program, likewise.
    pub(crate) fn command_of<S: AsRef<OsStr>>(
        &self,
        program: impl AsRef<OsStr>,
        args: impl IntoIterator<Item = S>,
    ) -> Command {
        use std::os::unix::process::CommandExt as _;
        let mut command = Command::new(program);
        command
            .args(args)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.path())
            .env("TMPDIR", self.path())
            .env("LONGSHORE_RUNTIME_DIR", self.join("r"))
            .env("LONGSHORE_STATE_DIR", self.join("s"))
            .current_dir(self.path())
            .stdin(Stdio::null());
        if let Some(uid) = self.uid {
            command.uid(uid).gid(uid);
        }
        command
    }

    /// Runs the binary to its end.
    pub(crate) fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Done {
        self.command(args).output().unwrap().into()
    }

    /// Processes that were started with a path below this home among their arguments.
    pub(crate) fn processes(&self) -> Vec<(Pid, String)> {
        let needle = self.path().to_str().unwrap();
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").unwrap() {
            let path = entry.unwrap().path();
            let Some(pid) = path
                .file_name()
                .and_then(|name| name.to_str()?.parse().ok())
            else {
                continue;
            };
            let Ok(arguments) = std::fs::read(path.join("cmdline")) else {
                continue;
            };
            let arguments = String::from_utf8_lossy(&arguments).replace('\0', " ");
            if arguments.contains(needle) {
                found.push((Pid::from_raw(pid), arguments));
            }
        }
        found
    }

    /// Nothing may run out of this home any more.
    #[track_caller]
    pub(crate) fn assert_no_processes(&self) {
        eventually("no process is left", || {
            self.processes().is_empty().then_some(())
        });
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let begun = Instant::now();
        while begun.elapsed() < SOON {
            let left = self.processes();
            if left.is_empty() {
                break;
            }
            for (pid, _) in left {
                // It may have ended meanwhile.
                let _gone = kill(pid, Signal::SIGKILL);
            }
            std::thread::park_timeout(Duration::from_millis(20));
        }
        unmount_below(self.path());
    }
}

/// A test that fails must not leave a mount that its directory cannot be removed from.
fn unmount_below(root: &Path) {
    let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mounts = table.lines().filter_map(|line| line.split(' ').nth(4));
    let mut mounts: Vec<_> = mounts
        .map(PathBuf::from)
        .filter(|m| m.starts_with(root))
        .collect();
    mounts.reverse();
    for mount in mounts {
        let _gone = nix::mount::umount2(&mount, nix::mount::MntFlags::MNT_DETACH);
    }
}

/// A daemon in a home.
pub(crate) struct Daemon {
    pub(crate) home: Home,
    child: Child,
}

/// A `[plugins.NAME]` that runs the bundled driver.
pub(crate) fn hostpath(home: &Home, name: &str, csi: &str) -> String {
    let volumes = home.join(&format!("volumes-{name}"));
    let program = &home.program;
    format!(
        "[plugins.{name}]\ntype = \"test.{name}\"\nkill_grace = \"2s\"\n\n\
         [[plugins.{name}.containers]]\nservices = [\"controller\", \"node\"]\n\
         command = [{program:?}, \"csi\", \"hostpath\", \"--state-dir\", {volumes:?}, \"--csi\", \"{csi}\"]\n\n"
    )
}

impl Daemon {
    /// Starts it on `config` and waits until it answers.
    pub(crate) fn start(home: Home, config: &str) -> Self {
        home.write("longshore.toml", config);
        let child = Self::spawn(&home);
        Self::adopt(home, child)
    }

    /// A daemon that was started otherwise, as soon as it answers.
    pub(crate) fn adopt(home: Home, child: Child) -> Self {
        let daemon = Self { home, child };
        daemon.wait_until_it_answers();
        daemon
    }

    fn spawn(home: &Home) -> Child {
        let log = std::fs::File::options()
            .create(true)
            .append(true)
            .open(home.join("daemon.log"));
        let mut command = home.command(["daemon", "-c"]);
        command
            .arg(home.join("longshore.toml"))
            .stderr(log.unwrap());
        command.spawn().unwrap()
    }

    fn wait_until_it_answers(&self) {
        eventually("the daemon answers", || {
            let code = self.run(["status"]).code;
            assert!([0, 3, 4].contains(&code), "{}", self.log());
            (code != 4).then_some(())
        });
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.home.join("daemon.log")).unwrap_or_default()
    }

    pub(crate) fn run<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Done {
        self.home.run(args)
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).unwrap())
    }

    /// The endpoint of a plugin, as soon as there is one.
    #[track_caller]
    pub(crate) fn endpoint(&self, name: &str) -> String {
        let done = self.run(["csi", "endpoint", name, "--wait", "30s"]);
        assert_eq!(done.code, 0, "{done:#?}\n{}", self.log());
        done.stdout.trim().to_owned()
    }

    /// A plugin's status.
    pub(crate) fn plugin(&self, name: &str) -> serde_json::Value {
        let status = self.run(["status", name, "--json"]).json();
        status["plugins"][0].clone()
    }

    /// The pid of a plugin's container.
    pub(crate) fn plugin_pid(&self, name: &str) -> Pid {
        let pid = eventually("the plugin has a pid", || {
            self.plugin(name)["containers"][0]["pid"].as_i64()
        });
        Pid::from_raw(i32::try_from(pid).unwrap())
    }

    /// SIGKILL, as a crash would be.
    pub(crate) fn crash(&mut self) {
        kill(self.pid(), Signal::SIGKILL).unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM, and how it ended.
    pub(crate) fn terminate(&mut self) -> i32 {
        kill(self.pid(), Signal::SIGTERM).unwrap();
        self.child.wait().unwrap().code().unwrap_or(-1)
    }

    /// How it ends by itself.
    pub(crate) fn wait(&mut self) -> i32 {
        self.child.wait().unwrap().code().unwrap_or(-1)
    }

    /// The next daemon on the same home.
    pub(crate) fn start_again(&mut self) {
        self.child = Self::spawn(&self.home);
        self.wait_until_it_answers();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _gone = self.child.kill();
        let _ended = self.child.wait();
    }
}
