//! A private engine that may be killed: `cargo xtask chaos` starts it, and takes down whatever is left of it.

use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long dockerd may take to come up: it stops containers first that it does not keep.
const START: Duration = Duration::from_secs(120);
const ANSWER: Duration = Duration::from_secs(60);
/// With it dockerd keeps the containers of the one before it.
const LIVE_RESTORE: &str = "--live-restore";

/// The engine in a folder of `cargo xtask engine up`.
#[derive(Debug)]
pub(super) struct Dockerd {
    dir: PathBuf,
    cgroup: String,
    /// How it was started.
    words: Vec<String>,
    pid: i32,
    /// One that we have started ourselves.
    child: Option<Child>,
}

impl Dockerd {
    pub(super) fn running_in(dir: &Path) -> Self {
        let read = |name: &str| fs::read_to_string(dir.join(name)).unwrap();
        let pid = read("dockerd.pid").trim().parse().unwrap();
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap();
        let line = String::from_utf8(line).unwrap();
        Self {
            dir: dir.to_owned(),
            cgroup: read("longshore-test-engine").trim().to_owned(),
            words: line.split_terminator('\0').map(str::to_owned).collect(),
            pid,
            child: None,
        }
    }

    pub(super) fn socket(&self) -> PathBuf {
        self.dir.join("docker.sock")
    }

    /// SIGKILL; its containers go on. Returns once it is gone.
    pub(super) fn kill(&mut self) {
        kill(Pid::from_raw(self.pid), Signal::SIGKILL).unwrap();
        if let Some(mut child) = self.child.take() {
            child.wait().unwrap();
        }
        while !is_gone(self.pid) {
            tick();
        }
    }

    /// Starts it again, and waits until it answers. Without `keep` it stops the containers that it finds.
    pub(super) fn start(&mut self, keep: bool) {
        let log = fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(self.dir.join("dockerd.log"))
            .unwrap();
        // Of one that was killed; whoever reaps it may not have done so yet.
        fs::remove_file(self.dir.join("dockerd.pid")).unwrap();
        let mut command = Command::new(&self.words[0]);
        command
            .args(self.words[1..].iter().filter(|word| *word != LIVE_RESTORE))
            .args(keep.then_some(LIVE_RESTORE))
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        let child = command.spawn().unwrap();
        self.pid = i32::try_from(child.id()).unwrap();
        self.child = Some(child);
        let deadline = Instant::now() + START;
        while ask(&self.socket(), "GET", "/_ping").is_none_or(|answer| answer.status != 200) {
            assert!(Instant::now() < deadline, "dockerd does not come up again");
            tick();
        }
    }

    /// Processes of its containers, by their cgroup.
    pub(super) fn processes(&self) -> Vec<i32> {
        let below = format!("/{}/", self.cgroup);
        let pids = fs::read_dir("/proc").unwrap().flatten();
        pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter(|pid: &i32| {
                let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
                groups.contains(&below)
            })
            .collect()
    }
}

fn is_gone(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_none_or(|rest| rest.trim().is_empty() || rest.trim().starts_with('Z'))
}

/// A short wait between two looks at another process.
pub(super) fn tick() {
    std::thread::park_timeout(Duration::from_millis(50));
}

/// What an engine answers.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
}

impl Answer {
    pub(super) fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.body).unwrap_or_default()
    }

    pub(super) fn is_good(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// One call, past the proxy; `None` when nobody answers.
pub(super) fn ask(socket: &Path, method: &str, path: &str) -> Option<Answer> {
    let exchange = || -> io::Result<Vec<u8>> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(ANSWER))?;
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nHost: docker\r\nContent-Length: 0\r\n\r\n"
        )?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(answer)
    };
    let answer = exchange().ok()?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some(Answer {
        status: head.split(' ').nth(1)?.parse().ok()?,
        body: body.to_owned(),
    })
}
