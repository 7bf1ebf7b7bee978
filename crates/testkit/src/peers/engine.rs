//! A real container engine of another release, started for one test and ended with it.

use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::net::UnixStream;
use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

/// The script could not fetch what it needs: a skip, whatever else the machine has.
const COULD_NOT_BE_HAD: i32 = 75;
/// The first start installs a release.
const START_DEADLINE: Duration = Duration::from_secs(900);

/// A running engine; dropping it ends the engine. Containers that it started are the test's.
#[derive(Debug)]
pub struct Engine {
    child: Child,
    socket: PathBuf,
    log: PathBuf,
    // Engines of one release share their storage.
    _alone: MutexGuard<'static, ()>,
}

impl Engine {
    /// Starts the command of `LONGSHORE_ENGINES_CMD` as `RELEASE ENGINE SOCKET`, with the socket in
    /// `dir` (below `/tmp`: such paths mean the same within the engine), and waits until it takes
    /// connections; `None` is a named skip (`engines`). One engine at a time runs in a process.
    ///
    /// # Panics
    /// When the command is there but the engine does not start: that is a failure, not a skip.
    pub async fn start(dir: &Path, release: &str, engine: &str) -> Option<Self> {
        static ALONE: Mutex<()> = Mutex::const_new(());
        let command = super::engines_cmd()?;
        super::root()?;
        let alone = ALONE.lock().await;
        let (socket, log) = (dir.join("engine.sock"), dir.join("engine.log"));
        let out = std::fs::File::create(&log).expect("a log file");
        let mut command = Command::new(command);
        if engine == "podman" {
            command.env("CONTAINERS_CONF_OVERRIDE", podman_settings(dir));
        }
        let child = command
            .args([release, engine])
            .arg(&socket)
            .stdin(Stdio::null())
            .stdout(out.try_clone().expect("a second handle of the log"))
            .stderr(out)
            .process_group(0)
            .spawn()
            .expect("the command of the engine starts");
        let mut engine = Self {
            child,
            socket,
            log,
            _alone: alone,
        };
        engine
            .wait_until_it_listens(release)
            .await
            .then_some(engine)
    }

    async fn wait_until_it_listens(&mut self, release: &str) -> bool {
        let deadline = Instant::now() + START_DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().expect("wait for the engine") {
                if status.code() == Some(COULD_NOT_BE_HAD) {
                    super::skip::<()>("engines", &format!("{release} could not be had"));
                    return false;
                }
                panic!("the engine ended with {status}:\n{}", self.log());
            }
            if UnixStream::connect(&self.socket).await.is_ok() {
                return true;
            }
            assert!(
                Instant::now() < deadline,
                "the engine does not listen:\n{}",
                self.log()
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Where a containerd takes plugins of NRI.
    #[must_use]
    pub fn nri_socket(&self) -> PathBuf {
        self.socket.with_extension("sock.nri")
    }

    /// The last lines that it logged.
    #[must_use]
    pub fn log(&self) -> String {
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }
}

/// Podman remembers the folders of its last start, which are others each time, so its records are put aside. Its
/// usual runtime, crun, refuses a machine with both versions of cgroups: there it gets this machine's runc.
fn podman_settings(dir: &Path) -> PathBuf {
    let records = dir.join("podman");
    let settings = format!("[engine]\nstatic_dir = \"{}\"\n", records.display());
    let is_hybrid = Path::new("/sys/fs/cgroup/unified").is_dir();
    let runtime = match super::in_path("runc").filter(|_| is_hybrid) {
        Some(runc) => {
            let copy = dir.join("runc");
            std::fs::copy(runc, &copy).expect("a copy of runc");
            let runc = copy.display();
            format!("runtime = \"runc\"\n[engine.runtimes]\nrunc = [\"{runc}\"]\n")
        }
        None => String::new(),
    };
    let path = dir.join("containers.conf");
    std::fs::write(&path, settings + &runtime).expect("a file of settings");
    path
}

impl Drop for Engine {
    fn drop(&mut self) {
        if let Ok(group) = i32::try_from(self.child.id()) {
            // Gone already is as good.
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
        drop(self.child.wait());
    }
}
