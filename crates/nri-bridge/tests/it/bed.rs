//! A fake engine, an executor on it, a bridge between it and a plugin that notes everything.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use longshore_docker_executor::fake::FakeProcesses;
use longshore_docker_executor::{Executor, ExecutorOptions, Kill, Launch, Task, labels};
use longshore_engine::Resources;
use longshore_engine::fake::FakeEngine;
use longshore_mesos_api::v1::{TaskState, TaskStatus};
use longshore_mesos_api::{DecodeLimits, json};
use longshore_nri_adaptation::{Adaptation, BuiltinPlugin, NodeState};
use longshore_nri_api::{
    ContainerUpdate, CreateContainerRequest, CreateContainerResponse, Event, StateChangeEvent,
    StopContainerRequest, StopContainerResponse, UpdateContainerRequest, UpdateContainerResponse,
    event_name,
};
use longshore_nri_bridge::{Bridge, BridgeOptions, Owner};
use longshore_task_spec::hooks::{HookError, HookFuture};
use longshore_ttrpc::{Code, Status};

pub(crate) const IMAGE: &str = "busybox";
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// What the plugin answers.
#[derive(Clone, Default)]
pub(crate) struct Answers {
    pub(crate) create: CreateContainerResponse,
    pub(crate) update: UpdateContainerResponse,
    pub(crate) stop: StopContainerResponse,
    /// CreateContainer is answered with this error.
    pub(crate) refuses: Option<&'static str>,
    /// CreateContainer is not answered until this is set.
    pub(crate) hangs: Option<Arc<tokio::sync::Semaphore>>,
}

/// Notes each event as `Event container`, and the states that it is told.
#[derive(Clone, Default)]
pub(crate) struct Notes {
    pub(crate) seen: Arc<Mutex<Vec<String>>>,
    pub(crate) synchronized: Arc<Mutex<Option<NodeState>>>,
    pub(crate) created: Arc<Mutex<Vec<CreateContainerRequest>>>,
    pub(crate) answers: Arc<Mutex<Answers>>,
}

impl Notes {
    fn note(&self, event: &str) {
        self.seen.lock().unwrap().push(event.to_owned());
    }

    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    fn answers(&self) -> Answers {
        self.answers.lock().unwrap().clone()
    }

    /// Until this event was told so often.
    pub(crate) async fn until(&self, event: &str, times: usize) {
        let enough = || self.seen().iter().filter(|it| *it == event).count() >= times;
        for _ in 0..1000 {
            if enough() {
                return;
            }
            tokio::time::sleep(SECOND).await;
        }
        panic!("no {event}: {:?}", self.seen());
    }
}

impl BuiltinPlugin for Notes {
    async fn synchronize(&self, state: NodeState) -> Result<Vec<ContainerUpdate>, Status> {
        *self.synchronized.lock().unwrap() = Some(state);
        Ok(Vec::new())
    }

    async fn create_container(
        &self,
        request: CreateContainerRequest,
    ) -> Result<CreateContainerResponse, Status> {
        self.note("CreateContainer");
        self.created.lock().unwrap().push(request);
        let answers = self.answers();
        if let Some(gate) = answers.hangs {
            drop(gate.acquire().await);
        }
        match answers.refuses {
            Some(reason) => Err(Status::new(Code::PermissionDenied, reason)),
            None => Ok(answers.create),
        }
    }

    async fn update_container(
        &self,
        _: UpdateContainerRequest,
    ) -> Result<UpdateContainerResponse, Status> {
        self.note("UpdateContainer");
        Ok(self.answers().update)
    }

    async fn stop_container(
        &self,
        _: StopContainerRequest,
    ) -> Result<StopContainerResponse, Status> {
        self.note("StopContainer");
        Ok(self.answers().stop)
    }

    async fn state_change(&self, event: StateChangeEvent) -> Result<(), Status> {
        self.note(event_name(Event::try_from(event.event).unwrap()));
        Ok(())
    }
}

/// The executor, for what plugins want.
#[derive(Debug)]
struct Runner(Executor);

impl Owner for Runner {
    fn owns(&self, id: &str) -> bool {
        self.0.task_of_container(id).is_some()
    }

    fn update<'a>(&'a self, id: &'a str, resources: Resources) -> HookFuture<'a, ()> {
        Box::pin(async move {
            let gone = |reason: String| HookError::Unavailable { reason };
            let task = self
                .0
                .task_of_container(id)
                .ok_or_else(|| gone("no task".to_owned()))?;
            let done = self.0.update_unasked(&task, &resources).await;
            done.map(drop).map_err(|error| gone(error.to_string()))
        })
    }

    fn evict(&self, id: &str, reason: &str) {
        if let Some(task) = self.0.task_of_container(id) {
            task.kill(Kill::evicted(reason));
        }
    }
}

pub(crate) struct Bed {
    pub(crate) engine: FakeEngine,
    pub(crate) executor: Executor,
    pub(crate) bridge: Bridge,
    pub(crate) notes: Notes,
    pub(crate) dir: Arc<tempfile::TempDir>,
}

impl Bed {
    pub(crate) async fn new() -> Self {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        Self::on(FakeEngine::with_image(IMAGE), dir).await
    }

    /// As a daemon starts: containers are taken up, then plugins come.
    pub(crate) async fn on(engine: FakeEngine, dir: Arc<tempfile::TempDir>) -> Self {
        let bridge = Bridge::new(BridgeOptions::new("longshore"));
        let options = ExecutorOptions::new(dir.path().join("state"), "test");
        let processes = Arc::new(FakeProcesses::of(engine.clone()));
        let hooks = Arc::new(bridge.clone());
        let executor = Executor::with(Arc::new(engine.clone()), options, hooks, processes).unwrap();
        assert!(executor.recover().unwrap().damaged.is_empty());
        bridge.add_owner(Arc::new(Runner(executor.clone())));
        let notes = Notes::default();
        let builder = Adaptation::builder("longshore", "1").builtin("10", "notes", notes.clone());
        bridge.attach(builder.start(bridge.clone()).await.unwrap());
        Self {
            engine,
            executor,
            bridge,
            notes,
            dir,
        }
    }

    /// We die, something happens, and somebody comes after us.
    pub(crate) async fn again(self, meanwhile: impl FnOnce(&FakeEngine)) -> Self {
        let Self {
            engine,
            executor,
            bridge,
            dir,
            ..
        } = self;
        drop((executor, bridge));
        meanwhile(&engine);
        Self::on(engine, dir).await
    }

    pub(crate) fn answer(&self, change: impl FnOnce(&mut Answers)) {
        change(&mut self.notes.answers.lock().unwrap());
    }

    pub(crate) fn launch(&self, id: &str) -> Task {
        let text = format!(
            r#"{{"container":{{"type":"DOCKER","docker":{{"image":"{IMAGE}"}}}},"command":{{"shell":false}},
            "labels":{{"labels":[{{"key":"team","value":"a"}}]}},
            "name":"name-of-{id}","task_id":{{"value":"{id}"}},"agent_id":{{"value":"a"}}}}"#
        );
        let info = json::from_slice(text.as_bytes(), &DecodeLimits::default()).unwrap();
        self.executor.launch(Launch::new(info))
    }

    pub(crate) async fn running(&self, id: &str) -> Task {
        let before = self
            .notes
            .seen()
            .iter()
            .filter(|it| *it == "PostStartContainer")
            .count();
        let task = self.launch(id);
        self.notes.until("PostStartContainer", before + 1).await;
        // On record, too: whoever comes after us knows of it.
        let mut view = task.watch();
        let told = view.wait_for(|view| view.state == Some(TaskState::TaskRunning));
        let told = tokio::time::timeout(10_000 * SECOND, told).await;
        assert!(told.is_ok_and(|told| told.is_ok()), "it never runs");
        task
    }
}

/// Its last status.
pub(crate) async fn ended(task: &Task) -> TaskStatus {
    let ended = tokio::time::timeout(10_000 * SECOND, task.ended()).await;
    ended.unwrap_or_else(|_| panic!("it never ends: {:?}", task.watch().borrow()))
}

/// Its container is gone, and that is on record.
pub(crate) async fn finished(task: &Task) {
    let finished = tokio::time::timeout(10_000 * SECOND, task.finished()).await;
    finished.unwrap_or_else(|_| panic!("it is never finished: {:?}", task.watch().borrow()));
}

/// How it ended, as a word.
pub(crate) fn word(status: &TaskStatus) -> String {
    let labels = status.labels.iter().flat_map(|labels| &labels.labels);
    let mut ending = labels.filter(|label| label.key == labels::ENDING);
    ending
        .next()
        .and_then(|label| label.value.clone())
        .unwrap_or_default()
}
