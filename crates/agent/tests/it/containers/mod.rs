//! Process containers for real: shims, processes, cgroups and mounts of this machine, each test in a
//! temporary root of its own.

mod crash;
mod failures;
mod hosted;
mod images;
mod life;
mod limits;
mod nested;
mod recover;
mod removed;
mod spare;
mod tree;
mod volumes;

use std::collections::BTreeMap;
use std::future::Future;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use longshore_agent::service::{
    ContainerService, ContainerView, ExitInfo, LaunchError, LaunchRequest, Launched, NotFound,
    Phase,
};
use longshore_agent::{AgentOptions, Containers, ShimCommand};
use longshore_mesos_api::v1::{CommandInfo, ContainerInfo, Environment, environment};
use longshore_paths::ContainerId;

const SHIM: &str = env!("CARGO_BIN_EXE_longshore-shim");

/// A temporary root with the directories of one agent.
struct Node {
    options: AgentOptions,
    root: tempfile::TempDir,
}

impl Node {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        // Other users' containers must get to their sandboxes.
        std::fs::set_permissions(root.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
        let options = AgentOptions::new(
            root.path().join("state"),
            root.path().join("run"),
            root.path().join("socket/agent.sock"),
            ShimCommand::new(SHIM, [""; 0]),
        );
        Self { options, root }
    }

    async fn start(&self) -> Containers {
        Containers::start(&self.options).await.unwrap()
    }

    fn sandbox(&self, id: &str) -> PathBuf {
        self.root
            .path()
            .join("state/containers")
            .join(id.replace('.', "/containers/"))
    }

    fn output(&self, id: &str) -> String {
        std::fs::read_to_string(self.sandbox(id).join("stdout")).unwrap()
    }

    /// The directories of the launches that are on record.
    fn records(&self) -> Vec<PathBuf> {
        std::fs::read_dir(self.root.path().join("run/containers"))
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect()
    }

    /// The processes that run the copy of the shim in the root itself.
    fn processes_of_copy(&self) -> Vec<i32> {
        let shim = std::fs::canonicalize(self.root.path().join("shim")).unwrap();
        processes(|pid| std::fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == shim))
    }

    /// The pids of the shims at work below this root.
    fn shims(&self) -> Vec<i32> {
        processes(|pid| {
            let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let root = self.root.path().to_str().unwrap();
            command.starts_with(SHIM.as_bytes()) && String::from_utf8_lossy(&command).contains(root)
        })
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        for pid in self.shims() {
            // After a failed test: its containers end with their shims.
            let _gone = nix::sys::signal::kill(
                nix::unistd::Pid::from_raw(pid),
                nix::sys::signal::Signal::SIGKILL,
            );
        }
    }
}

fn id(text: &str) -> ContainerId {
    text.parse().unwrap()
}

fn shell(command: &str) -> CommandInfo {
    CommandInfo {
        value: Some(command.to_owned()),
        ..CommandInfo::default()
    }
}

fn exec(program: &str, arguments: &[&str]) -> CommandInfo {
    CommandInfo {
        value: Some(program.to_owned()),
        shell: Some(false),
        arguments: arguments.iter().map(|text| (*text).to_owned()).collect(),
        ..CommandInfo::default()
    }
}

fn with_environment(mut command: CommandInfo, pairs: &[(&str, &str)]) -> CommandInfo {
    let variables = pairs
        .iter()
        .map(|(name, value)| environment::Variable {
            name: (*name).to_owned(),
            value: Some((*value).to_owned()),
            ..environment::Variable::default()
        })
        .collect();
    command.environment = Some(Environment { variables });
    command
}

fn request(name: &str, command: CommandInfo) -> LaunchRequest {
    LaunchRequest {
        id: id(name),
        command: Some(command),
        container: None,
        resources: Vec::new(),
        limits: BTreeMap::new(),
    }
}

fn with_container(mut request: LaunchRequest, container: ContainerInfo) -> LaunchRequest {
    request.container = Some(container);
    request
}

/// Launches, and fails unless it is new.
async fn launch(agent: &Containers, name: &str, command: &str) {
    let launched = within(agent.launch(request(name, shell(command)))).await;
    assert_eq!(launched, Ok(Launched::New), "{name}");
}

async fn refused(agent: &Containers, request: LaunchRequest) -> LaunchError {
    within(agent.launch(request)).await.unwrap_err()
}

async fn wait(agent: &Containers, name: &str) -> Result<ExitInfo, NotFound> {
    within(agent.wait(&id(name))).await
}

async fn status(agent: &Containers, name: &str) -> i32 {
    let exit = wait(agent, name).await.unwrap();
    assert_eq!(exit.reason, None, "{exit:?}");
    exit.status.unwrap()
}

async fn kill(agent: &Containers, name: &str, signal: i32) {
    within(agent.kill(&id(name), signal)).await.unwrap();
}

/// Kills and waits for the end.
async fn end(agent: &Containers, name: &str) {
    kill(agent, name, 9).await;
    assert_eq!(status(agent, name).await, 9, "{name}");
}

fn view(agent: &Containers, name: &str) -> Option<ContainerView> {
    agent.list().into_iter().find(|view| view.id == id(name))
}

fn pid(agent: &Containers, name: &str) -> i32 {
    let view = view(agent, name).unwrap();
    assert_eq!(view.phase, Phase::Running);
    i32::try_from(view.pid.unwrap()).unwrap()
}

/// Nothing here takes ten seconds.
async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(10), future)
        .await
        .unwrap()
}

/// Polls until it is so; fails after ten seconds.
async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(tokio::time::Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The text of a file, once it ends with a newline.
async fn line(path: &Path) -> String {
    let read = || std::fs::read_to_string(path).unwrap_or_default();
    eventually(&format!("a line in {}", path.display()), || {
        read().ends_with('\n')
    })
    .await;
    read().trim().to_owned()
}

/// Living processes of this machine that are as asked.
fn processes(is_so: impl Fn(i32) -> bool) -> Vec<i32> {
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .filter(|pid| lives(*pid) && is_so(*pid))
        .collect()
}

/// Whether a process is a shim that waits for a container.
fn is_spare(pid: i32) -> bool {
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut words = command.split(|byte| *byte == 0);
    words.any(|word| word.trim_ascii_end() == b"spare")
}

/// Whether a process is there and no zombie.
fn lives(pid: i32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat[stat.rfind(')').unwrap()..].starts_with(") Z"))
}

fn kill_process(pid: i32) {
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(pid),
        nix::sys::signal::Signal::SIGKILL,
    )
    .unwrap();
}

fn root() -> bool {
    nix::unistd::geteuid().is_root()
}
