//! A real Mesos agent, started for one test and ended with it.

use std::io;
use std::net::TcpListener;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// The script could not fetch what it needs: a skip, whatever else the machine has.
const COULD_NOT_BE_HAD: i32 = 75;
/// The first start installs packages.
const START_DEADLINE: Duration = Duration::from_secs(300);

/// A running Mesos agent; dropping it ends the agent (not the containers that it started, as
/// with any Mesos agent: a test ends those).
#[derive(Debug)]
pub struct MesosAgent {
    child: Child,
    command: PathBuf,
    dir: PathBuf,
    port: u16,
    settings: Vec<(String, String)>,
}

impl MesosAgent {
    /// Starts the command of `LONGSHORE_MESOS_AGENT_CMD` with its work directory in `dir` and
    /// waits until its API answers; `None` is a named skip (`mesos`).
    ///
    /// # Panics
    /// When the command is there but the agent does not start: that is a failure, not a skip.
    pub async fn start(dir: &Path) -> Option<Self> {
        Self::start_with(dir, &[]).await
    }

    /// The same with flags of the agent, as variables (`MESOS_LAUNCHER`, ..), now and after each restart.
    ///
    /// # Panics
    /// As [`Self::start`].
    pub async fn start_with(dir: &Path, settings: &[(&str, &str)]) -> Option<Self> {
        let command = super::mesos_agent_cmd()?;
        let port = free_port().expect("a free port");
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let settings: Vec<_> = settings.iter().map(own).collect();
        let mut agent = Self {
            child: spawn(&command, port, dir, &settings),
            command,
            dir: dir.to_owned(),
            port,
            settings,
        };
        agent.wait_until_healthy().await.then_some(agent)
    }

    /// Ends the agent by SIGKILL and starts it again, on the same port and work directory: it
    /// recovers its containers.
    ///
    /// # Panics
    /// When it does not start again.
    pub async fn restart(&mut self) {
        self.kill();
        self.child = spawn(&self.command, self.port, &self.dir, &self.settings);
        assert!(
            self.wait_until_healthy().await,
            "the Mesos agent started once, but not again"
        );
    }

    /// True when its API answers; false when the command says that it could not be had.
    async fn wait_until_healthy(&mut self) -> bool {
        let deadline = Instant::now() + START_DEADLINE;
        loop {
            if let Some(status) = self.child.try_wait().expect("wait for the Mesos agent") {
                if status.code() == Some(COULD_NOT_BE_HAD) {
                    super::skip::<()>("mesos", "its package could not be had");
                    return false;
                }
                panic!("the Mesos agent ended with {status}:\n{}", tail(&self.dir));
            }
            if healthy(self.port).await {
                return true;
            }
            assert!(
                Instant::now() < deadline,
                "the Mesos agent does not answer:\n{}",
                tail(&self.dir)
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// `http://127.0.0.1:PORT/api/v1`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}/api/v1", self.port)
    }

    /// The port that the agent listens on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl MesosAgent {
    fn kill(&mut self) {
        if let Ok(group) = i32::try_from(self.child.id()) {
            // Gone already is as good.
            let _ = killpg(Pid::from_raw(group), Signal::SIGKILL);
        }
        drop(self.child.wait());
    }
}

impl Drop for MesosAgent {
    fn drop(&mut self) {
        self.kill();
    }
}

fn spawn(command: &Path, port: u16, dir: &Path, settings: &[(String, String)]) -> Child {
    let log = std::fs::File::create(dir.join("mesos-agent.log")).expect("a log file");
    Command::new(command)
        .arg(port.to_string())
        .arg(dir.join("mesos"))
        .envs(settings.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(log.try_clone().expect("a second handle of the log"))
        .stderr(log)
        .process_group(0)
        .spawn()
        .expect("the command of the Mesos agent starts")
}

fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// One GET_HEALTH by hand: this crate knows no agent client.
async fn healthy(port: u16) -> bool {
    const CALL: &str = r#"{"type":"GET_HEALTH"}"#;
    let ask = async {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
        let request = format!(
            "POST /api/v1 HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
             Accept: application/json\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{CALL}",
            CALL.len()
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.take(65_536).read_to_string(&mut answer).await?;
        io::Result::Ok(answer)
    };
    match tokio::time::timeout(Duration::from_secs(5), ask).await {
        Ok(Ok(answer)) => answer.starts_with("HTTP/1.1 200"),
        Ok(Err(_)) | Err(_) => false,
    }
}

fn tail(dir: &Path) -> String {
    let log = std::fs::read_to_string(dir.join("mesos-agent.log")).unwrap_or_default();
    let lines: Vec<_> = log.lines().collect();
    lines[lines.len().saturating_sub(20)..].join("\n")
}
