//! An agent, a scheduler and a Docker for one test.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use longshore_docker_executor::labels;
use longshore_engine::{
    ContainerSummary, DockerConfig, DockerEngine, Engine as _, ListFilter, RemoveOptions,
};
use longshore_testkit::peers::{self, Engine, MesosAgent, TEST_IMAGE, import_test_image};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::scheduler::{SOON, Scheduler};

pub(crate) const EXECUTOR: &str = env!("CARGO_BIN_EXE_mesos-docker-executor");

pub(crate) struct Bed {
    pub(crate) agent: MesosAgent,
    pub(crate) scheduler: Scheduler,
    pub(crate) engine: DockerEngine,
    pub(crate) socket: PathBuf,
    pub(crate) dir: TempDir,
    /// No other test's task has it in its name.
    unique: String,
    /// One of its own; it outlives the agent.
    own: Option<Engine>,
}

impl Bed {
    /// `None` where a peer is missing. `settings` are flags of the agent, as variables.
    pub(crate) async fn start(
        settings: impl FnOnce(&Path) -> Vec<(&'static str, String)>,
    ) -> Option<Self> {
        peers::root()?;
        let socket = peers::docker()?;
        Self::start_in(directory(), socket, None, settings).await
    }

    /// The same with the Docker of another release, for this test alone.
    pub(crate) async fn start_on(
        release: &str,
        settings: impl FnOnce(&Path) -> Vec<(&'static str, String)>,
    ) -> Option<Self> {
        // Without an agent there is no need for an engine.
        peers::mesos_agent_cmd()?;
        let dir = directory();
        let engine = Engine::start(dir.path(), release, "docker").await?;
        let socket = engine.socket().to_owned();
        let imported = socket.clone();
        let import = tokio::task::spawn_blocking(move || import_test_image(&imported));
        import.await.unwrap().unwrap();
        Self::start_in(dir, socket, Some(engine), settings).await
    }

    async fn start_in(
        dir: TempDir,
        socket: PathBuf,
        own: Option<Engine>,
        settings: impl FnOnce(&Path) -> Vec<(&'static str, String)>,
    ) -> Option<Self> {
        let settings = settings(&socket);
        let borrowed: Vec<_> = settings
            .iter()
            .map(|(name, value)| (*name, value.as_str()))
            .collect();
        let agent = MesosAgent::start_with(dir.path(), &borrowed).await?;
        let mut config = DockerConfig::new(format!("unix://{}", socket.display()).parse().unwrap());
        config.client_config = None;
        config.deadlines.quick = SOON;
        config.deadlines.slow = SOON;
        let unique = dir
            .path()
            .file_name()
            .unwrap()
            .to_string_lossy()
            .into_owned();
        Some(Self {
            scheduler: Scheduler::subscribe(agent.port(), None).await,
            agent,
            engine: DockerEngine::new(config),
            socket,
            dir,
            unique,
            own,
        })
    }

    /// A name for a task.
    pub(crate) fn id(&self, name: &str) -> String {
        format!("{name}-{}", self.unique)
    }

    /// A container that runs this script.
    pub(crate) fn container(&self, script: &str) -> Value {
        let path = self.dir.path().join("task.sh");
        longshore_testkit::script::write(&path, script);
        json!({"type": "DOCKER", "docker": {"image": TEST_IMAGE, "network": "NONE",
                "parameters": [{"key": "entrypoint", "value": "/task.sh"}]},
            "volumes": [{"host_path": path, "container_path": "/task.sh", "mode": "RO"}]})
    }

    /// A task of a custom executor, which is ours: such a task has no command of its own.
    pub(crate) fn custom(&self, id: &str, script: &str) -> Value {
        self.custom_on(&self.socket, id, script)
    }

    /// The same with the engine at another socket.
    pub(crate) fn custom_on(&self, socket: &Path, id: &str, script: &str) -> Value {
        let command = format!(
            "exec {EXECUTOR} --docker_socket={} --docker=/nowhere --launcher_dir=/nowhere --from_the_future=1",
            socket.display()
        );
        json!({"name": id, "task_id": {"value": id}, "container": self.container(script),
            "executor": {"type": "CUSTOM", "executor_id": {"value": id}, "command": {"value": command}}})
    }

    /// Kills the agent and its master, starts them again, and subscribes as the same framework.
    pub(crate) async fn restart_agent(&mut self) {
        self.agent.restart().await;
        let id = self.scheduler.framework.clone();
        self.scheduler = Scheduler::subscribe(self.agent.port(), Some(&id)).await;
    }

    /// Kills a task until it is killed: an agent that has been away may have to register with its master first.
    pub(crate) async fn kill_until_killed(&mut self, task: &str) -> Vec<Value> {
        let killed = async {
            loop {
                self.scheduler.kill(task).await;
                let until = self.scheduler.until(task, "TASK_KILLED");
                if let Ok(statuses) = tokio::time::timeout(Duration::from_secs(2), until).await {
                    return statuses;
                }
            }
        };
        let killed = tokio::time::timeout(SOON, killed).await;
        killed.expect("the task is killed")
    }

    /// Containers of a task.
    pub(crate) async fn containers(&self, task: &str) -> Vec<ContainerSummary> {
        let mut filter = ListFilter::default();
        filter.labels.push(format!("{}={task}", labels::TASK));
        filter.all = true;
        self.engine.list(&filter).await.unwrap()
    }

    pub(crate) async fn wait_until_gone(&self, task: &str) {
        let gone = async {
            while !self.containers(task).await.is_empty() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let gone = tokio::time::timeout(SOON, gone).await;
        gone.expect("the container goes");
    }

    /// The executors that run in this test's sandboxes.
    pub(crate) fn executors(&self) -> Vec<Pid> {
        let name = Path::new(EXECUTOR).file_name().unwrap();
        processes()
            .filter(|process| {
                let sandbox = fs::read_link(process.join("cwd")).unwrap_or_default();
                let program = fs::read_link(process.join("exe")).unwrap_or_default();
                sandbox.starts_with(self.dir.path()) && program.file_name() == Some(name)
            })
            .filter_map(|process| process.file_name()?.to_str()?.parse().ok())
            .map(Pid::from_raw)
            .collect()
    }

    pub(crate) async fn wait_for_the_executors_end(&self) {
        let ended = async {
            while !self.executors().is_empty() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let ended = tokio::time::timeout(SOON, ended).await;
        ended.expect("the executor ends");
    }

    /// An engine that goes takes the answers with it that its watchdogs wait for, of a container that may still appear for ten seconds.
    fn end_watchdogs(&self) {
        let begun = std::time::Instant::now();
        while !watchdogs(&self.socket).is_empty() {
            if begun.elapsed() > SOON {
                for watchdog in watchdogs(&self.socket) {
                    let _gone = kill(watchdog, Signal::SIGKILL);
                }
            }
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }

    /// To be called before an engine goes: a watchdog that it has not answered to the end asks for an hour.
    pub(crate) async fn wait_for_the_watchdogs_end(socket: &Path) {
        let ended = async {
            while !watchdogs(socket).is_empty() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        let ended = tokio::time::timeout(SOON, ended).await;
        ended.expect("the watchdogs end");
    }

    /// The one file of this name in a sandbox of the task.
    pub(crate) fn output(&self, task: &str, name: &str) -> String {
        let mut found = Vec::new();
        let mut folders = vec![self.dir.path().join("mesos")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = entry.path();
                if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                    folders.push(path);
                } else if path.ends_with(name) && path.to_string_lossy().contains(task) {
                    found.push(path);
                }
            }
        }
        assert_eq!(found.len(), 1, "{found:?}");
        fs::read_to_string(&found[0]).unwrap()
    }
}

/// Of an engine's paths those below `/tmp` alone mean the same within it.
fn directory() -> TempDir {
    let mut builder = tempfile::Builder::new();
    builder.prefix("lsx-").tempdir_in("/tmp").unwrap()
}

/// The watchdogs that speak to the engine at this socket.
fn watchdogs(socket: &Path) -> Vec<Pid> {
    let wanted = format!("watchdog\0run\0{}\0", socket.display());
    processes()
        .filter(|process| {
            let line = fs::read(process.join("cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&wanted)
        })
        .filter_map(|process| process.file_name()?.to_str()?.parse().ok())
        .map(Pid::from_raw)
        .collect()
}

fn processes() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.map(|entry| entry.path())
}

impl Drop for Bed {
    /// Executors do not outlive the test, and their watchdogs see to the containers; those of a failed test are removed here.
    fn drop(&mut self) {
        for executor in self.executors() {
            let _gone = kill(executor, Signal::SIGKILL);
        }
        let engine = self.engine.clone();
        let unique = self.unique.clone();
        let cleaned = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let filter = ListFilter {
                    all: true,
                    ..ListFilter::default()
                };
                for container in engine.list(&filter).await.unwrap_or_default() {
                    if container
                        .labels
                        .values()
                        .any(|value| value.contains(&unique))
                    {
                        let options = RemoveOptions {
                            force: true,
                            volumes: true,
                        };
                        // The watchdog may be quicker.
                        let _gone = engine.remove(&container.id, options).await;
                    }
                }
            });
        });
        let _panicked = cleaned.join();
        if self.own.is_some() {
            self.end_watchdogs();
        }
        // The linux launcher mounts the agent's work directory on itself.
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let points = mounts.lines().filter_map(|line| line.split(' ').nth(4));
        for point in points.filter(|point| Path::new(point).starts_with(self.dir.path())) {
            let _busy = nix::mount::umount2(point, nix::mount::MntFlags::MNT_DETACH);
        }
    }
}
