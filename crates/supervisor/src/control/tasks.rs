//! The task verbs: from memory, or handed on to the manager of the tasks; streams are counted.
// long: one service, verb after verb

mod convert;
mod local;
mod output;

pub use local::LocalTasks;

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use longshore_control_api::v1::tasks_server;
use longshore_control_api::{MAX_MESSAGE, MAX_TASK_INFO, v1};
use longshore_docker_executor::HostProcesses;
use longshore_engine::{DockerConfig, DockerEngine};
use longshore_mesos_api::v1::TaskInfo;
use longshore_mesos_api::{DecodeLimits, decode, json};
use longshore_task_manager::{
    CsiReadiness, Declaration, DeclaredBy, DeclaredOptions, DeclaredStatus, DeclaredTasks,
    EngineStatus, LogMode, NewTask, TaskManager, TaskManagerError, TaskStatus,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio::time::Instant;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::{Request, Response, Status};

use crate::SupervisorError;
use crate::config::{Config, TaskSettings, rule};
use crate::nri::Nri;
use crate::reload::chain;

/// Watchers and readers of output at a time, over all connections.
const STREAMS: usize = 200;
/// The longest that a caller may wait for an end.
const WAIT_MAX: Duration = Duration::from_secs(3600);
/// Elements of a task's message; its size is bounded before.
const ELEMENTS: usize = 50_000;

/// The changes of tasks that there are none of.
static NEVER: std::sync::LazyLock<tokio::sync::watch::Sender<u64>> =
    std::sync::LazyLock::new(tokio::sync::watch::Sender::default);

/// The tasks of a daemon, or why it can have none.
#[derive(Debug, Clone)]
pub(crate) enum Tasks {
    There {
        manager: TaskManager,
        /// The engine's address.
        address: String,
        /// The configuration names it.
        configured: bool,
        /// Those that are declared; none without a daemon.
        declared: Option<DeclaredTasks>,
    },
    Absent(String),
}

impl Tasks {
    /// Takes up the tasks below `state_dir`. An engine whose address cannot be used is no error: there are no tasks then, and
    /// those on record are left alone.
    ///
    /// # Errors
    /// [`SupervisorError::Tasks`].
    pub(crate) async fn start(
        settings: &TaskSettings,
        state_dir: &std::path::Path,
        nri: &Nri,
    ) -> Result<Self, SupervisorError> {
        let endpoint = match settings.endpoint() {
            Ok(endpoint) => endpoint,
            Err(error) => {
                let reason = chain(&error);
                tracing::warn!(reason, "no engine can be used for tasks");
                return Ok(Self::Absent(reason));
            }
        };
        let address = endpoint.to_string();
        tracing::info!(engine = address, "tasks run on this engine");
        let engine = Arc::new(DockerEngine::new(DockerConfig::new(endpoint)));
        let options = settings.options(state_dir);
        let manager =
            TaskManager::start_with(options, engine, nri.hooks(), Arc::new(HostProcesses))
                .await
                .map_err(|source| SupervisorError::Tasks { source })?;
        nri.reaches(manager.executor().clone());
        Ok(Self::There {
            manager,
            address,
            configured: settings.engine.is_some(),
            declared: None,
        })
    }

    /// Takes up the declared tasks with what the configuration says of them. Gives what is wrong with some.
    pub(crate) fn declare(
        self,
        config: &Config,
        csi: watch::Receiver<Arc<CsiReadiness>>,
    ) -> (Self, Vec<String>) {
        let found = config.declared.declared.clone();
        match self {
            Self::There {
                manager,
                address,
                configured,
                ..
            } => {
                let options = DeclaredOptions {
                    policy: config.tasks.restart,
                    csi,
                    held: None,
                };
                let (declared, problems) = DeclaredTasks::start(manager.clone(), options, found);
                let declared = Some(declared);
                let tasks = Self::There {
                    manager,
                    address,
                    configured,
                    declared,
                };
                (tasks, problems)
            }
            Self::Absent(reason) => {
                let names: Vec<_> = found.wanted.iter().map(|it| it.name.as_str()).collect();
                let problem = (!names.is_empty()).then(|| {
                    let names = names.join(", ");
                    format!("declared tasks ({names}): no engine can be used: {reason}")
                });
                (Self::Absent(reason), problem.into_iter().collect())
            }
        }
    }

    /// Those that are declared.
    pub(crate) fn declared(&self) -> Option<&DeclaredTasks> {
        match self {
            Self::There { declared, .. } => declared.as_ref(),
            Self::Absent(_) => None,
        }
    }

    /// The declared tasks, if this is the name of one.
    fn declared_as(&self, name: &str) -> Option<&DeclaredTasks> {
        self.declared()
            .filter(|declared| declared.status(name).is_ok())
    }

    /// The id of a task: for the name of a declared one that of its last attempt.
    fn resolve(&self, id: String) -> Result<String, Status> {
        match self.declared().and_then(|declared| declared.attempt(&id)) {
            Some(attempt) => attempt.map_err(|error| refused(&error)),
            None => Ok(id),
        }
    }

    fn manager(&self) -> Result<&TaskManager, Status> {
        match self {
            Self::There { manager, .. } => Ok(manager),
            Self::Absent(reason) => Err(Status::failed_precondition(format!(
                "no engine can be used for tasks: {reason} (set `tasks.engine` and start the daemon again)"
            ))),
        }
    }

    /// Grows with each change; without tasks it never does.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        match self {
            Self::There { manager, .. } => manager.changes(),
            Self::Absent(_) => NEVER.subscribe(),
        }
    }

    /// The same of declared ones.
    pub(crate) fn declared_changes(&self) -> watch::Receiver<u64> {
        match self.declared() {
            Some(declared) => declared.changes(),
            None => NEVER.subscribe(),
        }
    }

    /// All declared ones, from memory.
    pub(crate) fn declared_all(&self) -> Vec<Arc<DeclaredStatus>> {
        self.declared().map(DeclaredTasks::all).unwrap_or_default()
    }

    /// All of them, from memory.
    pub(crate) fn all(&self) -> Vec<Arc<TaskStatus>> {
        match self {
            Self::There { manager, .. } => manager.tasks(),
            Self::Absent(_) => Vec::new(),
        }
    }

    /// What is known of the engine.
    pub(crate) fn engine(&self) -> v1::TaskEngine {
        match self {
            Self::There {
                manager,
                address,
                configured,
                ..
            } => convert::engine(manager, address, *configured),
            Self::Absent(reason) => v1::TaskEngine {
                error: reason.clone(),
                wanted: true,
                ..v1::TaskEngine::default()
            },
        }
    }

    /// A task with what is known of the engine.
    fn shown(&self, task: &TaskStatus) -> v1::Task {
        match self {
            Self::There {
                manager, address, ..
            } => convert::task(task, &manager.engine().borrow(), address),
            Self::Absent(_) => convert::task(task, &EngineStatus::default(), ""),
        }
    }

    /// In numbers.
    pub(crate) fn status(&self) -> v1::TasksStatus {
        let all = self.all();
        let ended = all.iter().filter(|task| task.has_ended()).count();
        let declared = self.declared_all();
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        v1::TasksStatus {
            engine: Some(self.engine()),
            unfinished: count(all.len() - ended),
            ended: count(ended),
            declared: count(declared.len()),
            declared_waiting: count(declared.iter().filter(|it| it.waits()).count()),
        }
    }
}

/// A declared task as the control service shows it, without its history.
pub(crate) fn shown(task: &DeclaredStatus) -> v1::DeclaredTask {
    convert::declared(task, false)
}

/// Answers the task verbs; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct TaskControl {
    tasks: Tasks,
    streams: Arc<Semaphore>,
    tracker: TaskTracker,
    stop: CancellationToken,
}

impl TaskControl {
    pub(crate) fn new(tasks: Tasks, tracker: TaskTracker, stop: CancellationToken) -> Self {
        Self {
            tasks,
            streams: Arc::new(Semaphore::new(STREAMS)),
            tracker,
            stop,
        }
    }

    pub(crate) fn server(self) -> tasks_server::TasksServer<Self> {
        tasks_server::TasksServer::new(self)
            .max_decoding_message_size(MAX_TASK_INFO + 64 * 1024)
            .max_encoding_message_size(MAX_MESSAGE)
    }

    fn slot(&self) -> Result<OwnedSemaphorePermit, Status> {
        Arc::clone(&self.streams)
            .try_acquire_owned()
            .map_err(|_| Status::resource_exhausted(format!("{STREAMS} streams are open already")))
    }
}

type Streamed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl tasks_server::Tasks for TaskControl {
    type WatchTaskStream = Streamed<v1::Task>;
    type TaskLogsStream = Streamed<v1::TaskLogsResponse>;

    async fn run_task(
        &self,
        request: Request<v1::RunTaskRequest>,
    ) -> Result<Response<v1::RunTaskResponse>, Status> {
        let request = request.into_inner();
        let manager = self.tasks.manager()?;
        let logs = match request.logs() {
            v1::TaskLogMode::Unspecified => None,
            v1::TaskLogMode::Files => Some(LogMode::Files),
            v1::TaskLogMode::Engine => Some(LogMode::Engine),
            v1::TaskLogMode::None => Some(LogMode::None),
        };
        let limits = DecodeLimits {
            max_bytes: MAX_TASK_INFO,
            max_elements: ELEMENTS,
        };
        let info: TaskInfo = decode(&request.task_info, &limits)
            .map_err(|error| Status::invalid_argument(format!("task_info: {error}")))?;
        if !request.restart.is_empty() {
            let rule = rule(&request.restart)
                .map_err(|problem| Status::invalid_argument(format!("--restart {problem}")))?;
            let declared = self.tasks.declared().ok_or_else(|| {
                Status::failed_precondition("tasks are started again by a daemon alone")
            })?;
            let name = info.task_id.value.clone();
            let declaration = Declaration {
                name: name.clone(),
                info,
                logs,
                rule,
                needs: Vec::new(),
                origin: DeclaredBy::Command,
            };
            let done = declared.declare(declaration).await;
            done.map_err(|error| refused(&error))?;
            return Ok(Response::new(v1::RunTaskResponse { id: name }));
        }
        let id = &info.task_id.value;
        if self.tasks.declared_as(id).is_some() {
            return Err(Status::already_exists(format!(
                "a task {id:?} is declared: take another id"
            )));
        }
        let new = NewTask {
            info,
            container_name: Some(request.container_name).filter(|name| !name.is_empty()),
            logs,
        };
        let id = manager.run(new).await.map_err(|error| refused(&error))?;
        Ok(Response::new(v1::RunTaskResponse { id }))
    }

    async fn list_tasks(
        &self,
        request: Request<v1::ListTasksRequest>,
    ) -> Result<Response<v1::ListTasksResponse>, Status> {
        let all = request.into_inner().all;
        let tasks = self.tasks.manager()?.tasks();
        let shown = tasks.iter().filter(|task| all || !task.has_ended());
        Ok(Response::new(v1::ListTasksResponse {
            tasks: shown.map(|task| self.tasks.shown(task)).collect(),
            engine: Some(self.tasks.engine()),
            declared: self
                .tasks
                .declared()
                .map(DeclaredTasks::all)
                .unwrap_or_default()
                .iter()
                .map(|task| convert::declared(task, false))
                .collect(),
        }))
    }

    async fn inspect_task(
        &self,
        request: Request<v1::InspectTaskRequest>,
    ) -> Result<Response<v1::InspectTaskResponse>, Status> {
        let id = request.into_inner().id;
        let manager = self.tasks.manager()?;
        let declared = self
            .tasks
            .declared_as(&id)
            .and_then(|all| all.status(&id).ok());
        let declared = declared.map(|task| convert::declared(&task, true));
        let id = match self.tasks.resolve(id) {
            Ok(id) => id,
            Err(_) if declared.is_some() => {
                return Ok(Response::new(v1::InspectTaskResponse {
                    declared,
                    ..v1::InspectTaskResponse::default()
                }));
            }
            Err(status) => return Err(status),
        };
        let status = watched(manager, &id)?.borrow().clone();
        let info = manager.info(&id).map_err(|error| refused(&error))?;
        let task_json = json::to_vec(&info).map_err(|error| Status::internal(error.to_string()))?;
        Ok(Response::new(v1::InspectTaskResponse {
            task: Some(self.tasks.shown(&status)),
            task_json: String::from_utf8_lossy(&task_json).into_owned(),
            container_json: String::from_utf8_lossy(&status.data).into_owned(),
            declared,
        }))
    }

    async fn watch_task(
        &self,
        request: Request<v1::WatchTaskRequest>,
    ) -> Result<Response<Self::WatchTaskStream>, Status> {
        let manager = self.tasks.manager()?;
        let mut status = watched(manager, &self.tasks.resolve(request.into_inner().id)?)?;
        let (tasks, mut engine) = (self.tasks.clone(), manager.engine());
        let slot = self.slot()?;
        let stop = self.stop.clone();
        let (sender, receiver) = mpsc::channel(1);
        self.tracker.spawn(async move {
            let _slot = slot;
            let mut last = None;
            loop {
                let now = Arc::clone(&status.borrow_and_update());
                let shown = tasks.shown(&now);
                if last.as_ref() != Some(&shown) {
                    if sender.send(Ok(shown.clone())).await.is_err() || now.has_ended() {
                        return;
                    }
                    last = Some(shown);
                }
                tokio::select! {
                    changed = status.changed() => if changed.is_err() { return },
                    // It tells why a launch waits.
                    changed = engine.changed() => if changed.is_err() { return },
                    () = sender.closed() => return,
                    () = stop.cancelled() => return,
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn wait_task(
        &self,
        request: Request<v1::WaitTaskRequest>,
    ) -> Result<Response<v1::Task>, Status> {
        let v1::WaitTaskRequest { id, wait_ms } = request.into_inner();
        let id = self.tasks.resolve(id)?;
        let mut status = watched(self.tasks.manager()?, &id)?;
        let deadline = Instant::now() + Duration::from_millis(wait_ms).min(WAIT_MAX);
        let ended = status.wait_for(|status| status.has_ended());
        tokio::select! {
            ended = tokio::time::timeout_at(deadline, ended) => match ended {
                Ok(Ok(status)) => Ok(Response::new(self.tasks.shown(&status))),
                Ok(Err(_)) => Err(Status::not_found(format!("task {id:?} is gone"))),
                Err(_) => Err(Status::deadline_exceeded(format!("task {id:?} has not ended"))),
            },
            () = self.stop.cancelled() => {
                Err(Status::unavailable("the daemon is stopping; the task goes on"))
            }
        }
    }

    async fn stop_task(
        &self,
        request: Request<v1::StopTaskRequest>,
    ) -> Result<Response<v1::StopTaskResponse>, Status> {
        let v1::StopTaskRequest { id, grace_ms } = request.into_inner();
        let manager = self.tasks.manager()?;
        let grace = grace_ms.map(Duration::from_millis);
        let stopped = match self.tasks.declared_as(&id) {
            Some(declared) => declared.stop(&id, grace).await,
            None => manager.stop(&id, grace),
        };
        stopped.map_err(|error| refused(&error))?;
        let idle = self.tasks.declared_as(&id).is_some() && self.tasks.resolve(id).is_err();
        Ok(Response::new(v1::StopTaskResponse { idle }))
    }

    async fn start_task(
        &self,
        request: Request<v1::StartTaskRequest>,
    ) -> Result<Response<v1::StartTaskResponse>, Status> {
        let id = request.into_inner().id;
        let manager = self.tasks.manager()?;
        let Some(declared) = self.tasks.declared_as(&id) else {
            watched(manager, &id)?;
            return Err(Status::failed_precondition(format!(
                "task {id:?} is not declared and has one life: run it again (`longshore task run`)"
            )));
        };
        let started = declared.start_task(&id).await;
        started.map_err(|error| refused(&error))?;
        Ok(Response::new(v1::StartTaskResponse {}))
    }

    async fn kill_task(
        &self,
        request: Request<v1::KillTaskRequest>,
    ) -> Result<Response<v1::KillTaskResponse>, Status> {
        let v1::KillTaskRequest { id, signal } = request.into_inner();
        let manager = self.tasks.manager()?;
        let killed = match self.tasks.declared_as(&id) {
            // As with docker: what an operator has killed is not started again.
            Some(declared) if is_kill(&signal) => declared.stop(&id, Some(Duration::ZERO)).await,
            _ => manager.kill(&self.tasks.resolve(id)?, &signal),
        };
        killed.map_err(|error| refused(&error))?;
        Ok(Response::new(v1::KillTaskResponse {}))
    }

    async fn remove_task(
        &self,
        request: Request<v1::RemoveTaskRequest>,
    ) -> Result<Response<v1::RemoveTaskResponse>, Status> {
        let v1::RemoveTaskRequest { id, force } = request.into_inner();
        let manager = self.tasks.manager()?;
        let removed = match self.tasks.declared_as(&id) {
            Some(declared) => declared.remove(&id, force).await,
            None => manager.remove(&id, force).await,
        };
        removed.map_err(|error| refused(&error))?;
        Ok(Response::new(v1::RemoveTaskResponse {}))
    }

    async fn task_logs(
        &self,
        request: Request<v1::TaskLogsRequest>,
    ) -> Result<Response<Self::TaskLogsStream>, Status> {
        let v1::TaskLogsRequest {
            id,
            follow,
            tail_lines,
        } = request.into_inner();
        let manager = self.tasks.manager()?.clone();
        let id = self.tasks.resolve(id)?;
        let status = watched(&manager, &id)?;
        let slot = self.slot()?;
        let output = output::Output {
            manager,
            id,
            status,
            follow,
            tail: tail_lines,
        };
        let stop = self.stop.clone();
        let (sender, receiver) = mpsc::channel(4);
        self.tracker.spawn(async move {
            let _slot = slot;
            tokio::select! {
                () = output::send(output, sender) => {}
                () = stop.cancelled() => {}
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}

/// KILL under any of its names.
fn is_kill(signal: &str) -> bool {
    matches!(
        signal.to_ascii_uppercase().as_str(),
        "" | "9" | "KILL" | "SIGKILL"
    )
}

fn watched(manager: &TaskManager, id: &str) -> Result<watch::Receiver<Arc<TaskStatus>>, Status> {
    manager.watch(id).map_err(|error| refused(&error))
}

/// What an error of the manager is on the wire.
fn refused(error: &TaskManagerError) -> Status {
    let text = chain(error);
    match error {
        TaskManagerError::Unknown { .. } => Status::not_found(text),
        TaskManagerError::Taken { .. } => Status::already_exists(text),
        TaskManagerError::Id { .. }
        | TaskManagerError::DeclaredName { .. }
        | TaskManagerError::ContainerName { .. }
        | TaskManagerError::Signal { .. }
        | TaskManagerError::Refused { .. } => Status::invalid_argument(text),
        TaskManagerError::TooMany { .. } => Status::resource_exhausted(text),
        TaskManagerError::StillRunning { .. } => Status::deadline_exceeded(text),
        TaskManagerError::Running { .. }
        | TaskManagerError::Ended { .. }
        | TaskManagerError::OfFile { .. }
        | TaskManagerError::Kept { .. }
        | TaskManagerError::NoAttempt { .. }
        | TaskManagerError::Engine(_) => Status::failed_precondition(text),
        TaskManagerError::Stopping => Status::unavailable(text),
        _ => Status::internal(text),
    }
}
