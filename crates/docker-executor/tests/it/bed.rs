//! A fake engine, an executor on it, and what tasks of tests are made of.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use longshore_docker_executor::fake::FakeProcesses;
use longshore_docker_executor::{Executor, ExecutorOptions, Kill, Launch, Processes, Task, labels};
use longshore_engine::EngineError;
use longshore_engine::fake::{FakeEngine, Script};
use longshore_mesos_api::v1::{TaskInfo, TaskState, TaskStatus};
use longshore_mesos_api::{DecodeLimits, json};
use longshore_task_spec::Sandbox;
use longshore_task_spec::hooks::{ContainerHooks, NoHooks};

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const IMAGE: &str = "busybox";

pub(crate) struct Bed {
    pub(crate) engine: FakeEngine,
    pub(crate) executor: Executor,
    pub(crate) dir: Arc<tempfile::TempDir>,
}

impl Bed {
    pub(crate) fn new() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut ExecutorOptions)) -> Self {
        let engine = FakeEngine::with_image(IMAGE);
        let dir = Arc::new(tempfile::tempdir().unwrap());
        std::fs::create_dir(dir.path().join("sandbox")).unwrap();
        Self::on(engine, dir, Arc::new(NoHooks), change)
    }

    /// One whose processes are told of by somebody else than the engine.
    pub(crate) fn with_processes(processes: Arc<dyn Processes>) -> Self {
        let Self { engine, dir, .. } = Self::new();
        let options = ExecutorOptions::new(dir.path().join("state"), "test");
        let shared = Arc::new(engine.clone());
        let executor = Executor::with(shared, options, Arc::new(NoHooks), processes).unwrap();
        Self {
            engine,
            executor,
            dir,
        }
    }

    pub(crate) fn hooked(hooks: Arc<dyn ContainerHooks>) -> Self {
        let engine = FakeEngine::with_image(IMAGE);
        let dir = Arc::new(tempfile::tempdir().unwrap());
        std::fs::create_dir(dir.path().join("sandbox")).unwrap();
        Self::on(engine, dir, hooks, |_| {})
    }

    fn on(
        engine: FakeEngine,
        dir: Arc<tempfile::TempDir>,
        hooks: Arc<dyn ContainerHooks>,
        change: impl FnOnce(&mut ExecutorOptions),
    ) -> Self {
        let mut options = ExecutorOptions::new(dir.path().join("state"), "test");
        change(&mut options);
        let processes = Arc::new(FakeProcesses::of(engine.clone()));
        let executor = Executor::with(Arc::new(engine.clone()), options, hooks, processes).unwrap();
        Self {
            engine,
            executor,
            dir,
        }
    }

    /// We die; containers and records stay.
    pub(crate) fn die(self) -> Dead {
        drop(self.executor);
        Dead {
            engine: self.engine,
            dir: self.dir,
        }
    }

    pub(crate) fn sandbox(&self) -> std::path::PathBuf {
        self.dir.path().join("sandbox")
    }

    pub(crate) fn launch(&self, id: &str, rest: &str) -> Task {
        self.executor.launch(launch(&self.sandbox(), id, rest))
    }

    /// A task that runs, whose container does this.
    pub(crate) async fn running(&self, script: Script, rest: &str) -> (Task, String) {
        self.engine.script(script);
        let task = self.launch("t", rest);
        until(&task, TaskState::TaskRunning).await;
        let container = self.engine.containers().last().unwrap().clone();
        (task, container)
    }
}

/// What is left when we have died.
pub(crate) struct Dead {
    engine: FakeEngine,
    dir: Arc<tempfile::TempDir>,
}

impl Dead {
    pub(crate) fn engine(&self) -> &FakeEngine {
        &self.engine
    }

    /// Somebody of the same state directory comes after us.
    pub(crate) fn rise(self) -> Bed {
        Bed::on(self.engine, self.dir, Arc::new(NoHooks), |_| {})
    }
}

pub(crate) fn launch(sandbox: &Path, id: &str, rest: &str) -> Launch {
    Launch {
        framework: "f".to_owned(),
        sandbox: Some(Sandbox {
            host: sandbox.display().to_string(),
            mapped: "/mnt/mesos/sandbox".to_owned(),
        }),
        tell_killing: true,
        ..Launch::new(task(id, rest))
    }
}

/// A task with these members, each followed by its comma.
pub(crate) fn task(id: &str, rest: &str) -> TaskInfo {
    let command = if rest.contains(r#""command":{"shell""#) {
        ""
    } else {
        r#""command":{"shell":false},"#
    };
    let container = if rest.contains("\"container\"") {
        String::new()
    } else {
        format!(r#""container":{{"type":"DOCKER","docker":{{"image":"{IMAGE}"}}}},"#)
    };
    let text = format!(
        r#"{{{rest}{command}{container}"name":"t","task_id":{{"value":"{id}"}},"agent_id":{{"value":"a"}}}}"#
    );
    json::from_slice(text.as_bytes(), &DecodeLimits::default())
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// `RUNNING`, `RUNNING healthy`, `FAILED exited`.
pub(crate) fn word(status: &TaskStatus) -> String {
    let state = status.state().as_str_name().trim_start_matches("TASK_");
    let ending = status.labels.iter().flat_map(|labels| &labels.labels);
    let ending = ending
        .filter(|label| label.key == labels::ENDING)
        .find_map(|label| label.value.clone());
    let reason = status.reason.map(|_| status.reason());
    let more = ending.or_else(|| match reason {
        Some(longshore_mesos_api::v1::task_status::Reason::TaskHealthCheckStatusUpdated) => Some(
            if status.healthy == Some(true) {
                "healthy"
            } else {
                "unhealthy"
            }
            .to_owned(),
        ),
        Some(longshore_mesos_api::v1::task_status::Reason::TaskCheckStatusUpdated) => {
            Some("check".to_owned())
        }
        _ => None,
    });
    more.map_or_else(|| state.to_owned(), |more| format!("{state} {more}"))
}

/// All its statuses, up to the last one.
pub(crate) async fn told(task: &Task) -> Vec<TaskStatus> {
    let mut updates = task.updates();
    let mut told = Vec::new();
    loop {
        let next = tokio::time::timeout(10_000 * SECOND, updates.next()).await;
        let status = next.unwrap_or_else(|_| panic!("no more than {told:?}"));
        let last = is_last(&status);
        told.push(status);
        if last {
            return told;
        }
    }
}

pub(crate) async fn words(task: &Task) -> Vec<String> {
    told(task).await.iter().map(word).collect()
}

pub(crate) fn is_last(status: &TaskStatus) -> bool {
    !matches!(
        status.state(),
        TaskState::TaskStarting | TaskState::TaskRunning | TaskState::TaskKilling
    )
}

/// Waits for a state, which must come before the last one.
pub(crate) async fn until(task: &Task, state: TaskState) {
    let mut updates = task.updates();
    loop {
        let status = updates.next().await;
        if status.state() == state {
            return;
        }
        assert!(!is_last(&status), "{}: {:?}", word(&status), status.message);
    }
}

/// Its last status; in virtual time nothing takes so long.
pub(crate) async fn ended(task: &Task) -> TaskStatus {
    match tokio::time::timeout(10_000 * SECOND, task.ended()).await {
        Ok(status) => status,
        Err(_) => panic!("it never ends: {:?}", task.watch().borrow()),
    }
}

/// Until nothing is left of it.
pub(crate) async fn finished(task: &Task) {
    let done = tokio::time::timeout(10_000 * SECOND, task.finished()).await;
    assert!(
        done.is_ok(),
        "it is never finished: {:?}",
        task.watch().borrow()
    );
}

/// What a call says whose engine has gone away.
pub(crate) fn gone() -> EngineError {
    EngineError::Gone {
        call: "call",
        subject: String::new(),
        source: None,
    }
}

/// Kills it, and says how it ended.
pub(crate) async fn killed(task: &Task) -> String {
    task.kill(Kill::asked());
    word(&ended(task).await)
}
