//! All tasks of one root: launched, taken up again, ended, forgotten.
// long: one table of tasks, with all that may be asked of it

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longshore_docker_executor::{
    Executor, ExecutorOptions, HostProcesses, Kill, Launch, LogMode, Processes, Task,
};
use longshore_engine::{Engine, LogOptions, LogStream, RemoveOptions};
use longshore_mesos_api::v1::TaskInfo;
use longshore_sandbox::Rotation;
use longshore_task_spec::Sandbox;
use longshore_task_spec::hooks::{ContainerHooks, NoHooks};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::declared::{Declaration, Recorded, Store};
use crate::follow::{Handle, follow};
use crate::sandboxes::{MAPPED, Sandboxes};
use crate::{
    EngineStatus, ManagerOptions, NewTask, Phase, TaskManagerError, TaskStatus, id, keep, redacted,
    signal,
};

/// Who we are, in the labels of containers.
const OWNER: &str = "longshore";
/// What stands for the framework of tasks that none launched.
const FRAMEWORK: &str = "local";
/// How long a launch waits until it is on record, and a removal until nothing is left of a task that has ended.
const RECORDED: Duration = Duration::from_secs(30);
/// How long a forced removal waits for the end.
const FORCED: Duration = Duration::from_secs(120);

/// The tasks of one root. Clones are the same. Needs a tokio runtime with time and I/O.
///
/// The end of the last clone ends no task. The root belongs to one process, by a lock of the caller's.
#[derive(Clone, Debug)]
pub struct TaskManager {
    pub(crate) shared: Arc<Shared>,
    _loops: Arc<JoinSet<()>>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) options: ManagerOptions,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) executor: Executor,
    pub(crate) sandboxes: Sandboxes,
    tasks: Mutex<BTreeMap<String, Slot>>,
    changed: watch::Sender<u64>,
    pub(crate) engine_status: watch::Sender<EngineStatus>,
    damaged: Vec<String>,
    /// What is on record of declared tasks, until it is taken up.
    recorded: Mutex<Vec<Recorded>>,
    /// How many tasks are declared.
    pub(crate) declared: AtomicUsize,
    /// The last attempt of each declared task, by its name: what it tells is not forgotten.
    kept: Mutex<BTreeMap<String, String>>,
}

#[derive(Debug)]
enum Slot {
    /// Being launched: the id is taken.
    Launching,
    There(Handle),
}

/// Gives an id back unless its task is there.
struct Reserved<'a>(&'a Shared, String);

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        let mut tasks = self.0.tasks();
        if matches!(tasks.get(&self.1), Some(Slot::Launching)) {
            tasks.remove(&self.1);
        }
    }
}

impl TaskManager {
    /// Takes up all tasks of the root, and looks after them from now on. The engine need not be there.
    ///
    /// # Errors
    /// The records cannot be read at all. A damaged one is no error: see [`damaged`](Self::damaged).
    pub async fn start(
        options: ManagerOptions,
        engine: Arc<dyn Engine>,
    ) -> Result<Self, TaskManagerError> {
        Self::start_with(options, engine, Arc::new(NoHooks), Arc::new(HostProcesses)).await
    }

    /// The same, with hooks around each container, and with whoever knows the processes of this host.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_with(
        options: ManagerOptions,
        engine: Arc<dyn Engine>,
        hooks: Arc<dyn ContainerHooks>,
        processes: Arc<dyn Processes>,
    ) -> Result<Self, TaskManagerError> {
        let executor = Executor::with(
            Arc::clone(&engine),
            executor_options(&options),
            hooks,
            processes,
        )?;
        let sandboxes = Sandboxes::new(&options.state_dir);
        let store = Store::new(&options.state_dir);
        let recorded = blocking(move || store.read()).await??;
        let last = recorded
            .iter()
            .filter_map(|one| Some((one.name().to_owned(), one.last()?)));
        let kept = last.collect();
        // Before anything can be launched.
        let recovery = executor.recover()?;
        let changed = watch::Sender::new(0);
        let mut tasks = BTreeMap::new();
        for task in recovery.tasks {
            let id = task.id().to_owned();
            let sandbox = sandboxes.of(&id);
            tasks.insert(id, Slot::There(follow(task, sandbox, changed.clone())));
        }
        if recovery.damaged.is_empty() {
            // With a damaged record it is not known whose a sandbox is.
            let known: BTreeSet<_> = tasks.keys().cloned().collect();
            let sandboxes = sandboxes.clone();
            let sweep = move || sandboxes.remove_others(&known);
            blocking(sweep).await?;
        }
        let damaged = recovery
            .damaged
            .into_iter()
            .map(|(record, problem)| {
                tracing::error!(
                    record,
                    problem,
                    "the record of a task cannot be read; its container is left alone"
                );
                format!("{record}: {problem}")
            })
            .collect();
        let shared = Arc::new(Shared {
            options,
            engine,
            executor,
            sandboxes,
            tasks: Mutex::new(tasks),
            changed,
            engine_status: watch::Sender::default(),
            damaged,
            recorded: Mutex::new(recorded),
            declared: AtomicUsize::new(0),
            kept: Mutex::new(kept),
        });
        let mut loops = JoinSet::new();
        loops.spawn(keep::engine(Arc::clone(&shared)));
        loops.spawn(keep::strays(Arc::clone(&shared)));
        loops.spawn(keep::finished(Arc::clone(&shared)));
        Ok(Self {
            shared,
            _loops: Arc::new(loops),
        })
    }

    /// Launches a task, and gives its id once it is on record. What becomes of it is in its status.
    ///
    /// # Errors
    /// [`TaskManagerError::Taken`], [`TaskManagerError::Id`], [`TaskManagerError::ContainerName`]; what it asks for cannot be
    /// served ([`TaskManagerError::Refused`] with field and value); it cannot be put on record. Nothing exists then.
    pub async fn run(&self, new: NewTask) -> Result<String, TaskManagerError> {
        let NewTask {
            mut info,
            container_name,
            logs,
        } = new;
        let shared = &self.shared;
        if let Some(name) = &container_name {
            id::check_container(name)?;
        }
        if info.task_id.value.is_empty() {
            info.task_id.value = id::generate()?;
        }
        let id = info.task_id.value.clone();
        id::check(&id)?;
        if info.name.is_empty() {
            info.name.clone_from(&id);
        }
        self.reserve(&id)?;
        let _reserved = Reserved(shared, id.clone());
        let sandboxes = shared.sandboxes.clone();
        let sandbox_id = id.clone();
        let sandbox = blocking(move || sandboxes.make(&sandbox_id)).await??;
        let task = shared.executor.launch(Launch {
            framework: FRAMEWORK.to_owned(),
            container_name,
            sandbox: Some(Sandbox {
                host: sandbox.to_string_lossy().into_owned(),
                mapped: MAPPED.to_owned(),
            }),
            tell_killing: true,
            logs,
            ..Launch::new(info)
        });
        if let Err(error) = on_record(&task).await {
            let sandboxes = shared.sandboxes.clone();
            let gone = id.clone();
            if let Err(error) = blocking(move || sandboxes.remove(&gone)).await? {
                tracing::warn!(task = id, %error, "the sandbox of a refused task stays");
            }
            return Err(error);
        }
        let handle = follow(task, sandbox, shared.changed.clone());
        shared.tasks().insert(id.clone(), Slot::There(handle));
        Ok(id)
    }

    /// Whether what is declared could be launched, as far as that can be told without an engine.
    pub(crate) fn judge(declaration: &Declaration) -> Result<(), TaskManagerError> {
        let mut info = declaration.info.clone();
        info.task_id.value.clone_from(&declaration.name);
        info.name.clone_from(&declaration.name);
        longshore_docker_executor::judge(&info).map_err(|problem| TaskManagerError::Refused {
            id: declaration.name.clone(),
            problem,
        })
    }

    fn reserve(&self, id: &str) -> Result<(), TaskManagerError> {
        let mut tasks = self.shared.tasks();
        let taken = |how, advice| {
            Err(TaskManagerError::Taken {
                id: id.to_owned(),
                how,
                advice,
            })
        };
        match tasks.get(id) {
            Some(Slot::There(handle)) if handle.status.borrow().has_ended() => {
                return taken("and has ended", "remove it first, or take another id");
            }
            Some(_) => return taken("and runs", "stop it first, or take another id"),
            None => {}
        }
        let unfinished = tasks.values().filter(|slot| match slot {
            Slot::Launching => true,
            Slot::There(handle) => !handle.status.borrow().has_ended(),
        });
        let limit = self.shared.options.max_tasks;
        if unfinished.count() >= limit {
            return Err(TaskManagerError::TooMany { limit });
        }
        tasks.insert(id.to_owned(), Slot::Launching);
        Ok(())
    }

    /// What runs the tasks' containers.
    #[must_use]
    pub fn executor(&self) -> &Executor {
        &self.shared.executor
    }

    /// All tasks, in the order in which they were launched.
    #[must_use]
    pub fn tasks(&self) -> Vec<Arc<TaskStatus>> {
        let mut all = self.shared.statuses();
        all.sort_by(|a, b| (a.launched, &a.id).cmp(&(b.launched, &b.id)));
        all
    }

    /// One task, now and from now on.
    ///
    /// # Errors
    /// [`TaskManagerError::Unknown`].
    pub fn watch(&self, id: &str) -> Result<watch::Receiver<Arc<TaskStatus>>, TaskManagerError> {
        Ok(self.shared.handle(id)?.status)
    }

    /// A number that grows with each change of any task, or of the engine's status.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }

    /// What a task asks for, without what may be a secret.
    ///
    /// # Errors
    /// [`TaskManagerError::Unknown`].
    pub fn info(&self, id: &str) -> Result<TaskInfo, TaskManagerError> {
        Ok(redacted(self.shared.handle(id)?.task.info()))
    }

    /// Asks a task to end: its stop signal, then KILL after `grace` or the task's own. It may have ended.
    ///
    /// # Errors
    /// [`TaskManagerError::Unknown`].
    pub fn stop(&self, id: &str, grace: Option<Duration>) -> Result<(), TaskManagerError> {
        let kill = grace.map_or_else(Kill::asked, Kill::within);
        self.shared.handle(id)?.task.kill(kill);
        Ok(())
    }

    /// Sends a signal, by name or number; KILL, also when none is named, ends the task at once. It never waits.
    ///
    /// # Errors
    /// [`TaskManagerError::Unknown`], [`TaskManagerError::Signal`], [`TaskManagerError::Ended`].
    pub fn kill(&self, id: &str, signal: &str) -> Result<(), TaskManagerError> {
        let handle = self.shared.handle(id)?;
        let signal = signal::parse(signal)?;
        if handle.status.borrow().has_ended() {
            return Err(TaskManagerError::Ended { id: id.to_owned() });
        }
        if signal == "SIGKILL" {
            handle.task.kill(Kill::within(Duration::ZERO));
            return Ok(());
        }
        handle.task.signal(signal);
        Ok(())
    }

    /// Forgets a task that has ended, with its sandbox and output; with `force` it is killed first.
    ///
    /// # Errors
    /// [`TaskManagerError::Unknown`], [`TaskManagerError::Running`], [`TaskManagerError::StillRunning`]; what cannot be removed.
    pub async fn remove(&self, id: &str, force: bool) -> Result<(), TaskManagerError> {
        let handle = self.shared.handle(id)?;
        if let Some(name) = self.shared.keeper(id) {
            return Err(TaskManagerError::Kept {
                id: id.to_owned(),
                name,
            });
        }
        if !handle.status.borrow().has_ended() {
            if !force {
                return Err(TaskManagerError::Running { id: id.to_owned() });
            }
            handle.task.kill(Kill::within(Duration::ZERO));
        }
        let within = if force { FORCED } else { RECORDED };
        self.shared.forget(id, &handle, within).await
    }

    /// Whether the output of a task stays with the engine.
    ///
    /// # Errors
    /// [`TaskManagerError::Unknown`].
    pub fn has_engine_logs(&self, id: &str) -> Result<bool, TaskManagerError> {
        Ok(self.shared.handle(id)?.task.log_mode() == LogMode::Engine)
    }

    /// The output of a task whose output stays with the engine: all, or the last `tail` lines; with `follow` waits until its
    /// container has been started. `None` while there is no container, and for a task that never had one.
    ///
    /// # Errors
    /// [`TaskManagerError::Unknown`]; what the engine says.
    pub async fn engine_logs(
        &self,
        id: &str,
        follow: bool,
        tail: Option<u64>,
    ) -> Result<Option<LogStream>, TaskManagerError> {
        let handle = self.shared.handle(id)?;
        if follow {
            let mut status = handle.status.clone();
            let started = status.wait_for(|status| status.phase != Phase::Starting);
            // The last status of a task that has ended is there for good.
            let _gone = started.await.is_err();
        }
        let Some(container) = handle.task.watch().borrow().container.clone() else {
            return Ok(None);
        };
        let options = LogOptions {
            follow,
            tail,
            ..LogOptions::default()
        };
        Ok(Some(self.shared.engine.logs(&container, &options).await?))
    }

    /// What is known of the engine, now and from now on.
    #[must_use]
    pub fn engine(&self) -> watch::Receiver<EngineStatus> {
        self.shared.engine_status.subscribe()
    }

    /// Records that could not be read, and why. Their containers are left alone.
    #[must_use]
    pub fn damaged(&self) -> &[String] {
        &self.shared.damaged
    }

    /// Asks all tasks to end, waits for their ends, and forgets them; those that do not end within `limit` stay.
    ///
    /// # Errors
    /// The first that could not be forgotten; the others are.
    pub async fn end_all(&self, limit: Duration) -> Result<(), TaskManagerError> {
        let handles = self.shared.handles();
        for handle in handles.values() {
            handle.task.kill(Kill::asked());
        }
        let mut first = Ok(());
        let deadline = tokio::time::Instant::now() + limit;
        for (id, handle) in &handles {
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            let done = self.shared.forget(id, handle, left).await;
            if first.is_ok() {
                first = done;
            }
        }
        first
    }
}

impl Shared {
    fn tasks(&self) -> MutexGuard<'_, BTreeMap<String, Slot>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn handles(&self) -> BTreeMap<String, Handle> {
        let tasks = self.tasks();
        let there = tasks.iter().filter_map(|(id, slot)| match slot {
            Slot::Launching => None,
            Slot::There(handle) => Some((id.clone(), handle.clone())),
        });
        there.collect()
    }

    pub(crate) fn statuses(&self) -> Vec<Arc<TaskStatus>> {
        let handles = self.handles();
        handles
            .values()
            .map(|handle| Arc::clone(&handle.status.borrow()))
            .collect()
    }

    pub(crate) fn take_recorded(&self) -> Vec<Recorded> {
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut recorded)
    }

    fn kept(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on this is the last attempt of the declared task `name`.
    pub(crate) fn keep(&self, name: &str, id: &str) {
        self.kept().insert(name.to_owned(), id.to_owned());
    }

    /// The declared task `name` is over.
    pub(crate) fn let_go(&self, name: &str) {
        self.kept().remove(name);
    }

    /// The declared task whose last attempt this is.
    pub(crate) fn keeper(&self, id: &str) -> Option<String> {
        let kept = self.kept();
        let (name, _) = kept.iter().find(|(_, last)| *last == id)?;
        Some(name.clone())
    }

    fn handle(&self, id: &str) -> Result<Handle, TaskManagerError> {
        match self.tasks().get(id) {
            Some(Slot::There(handle)) => Ok(handle.clone()),
            Some(Slot::Launching) | None => Err(TaskManagerError::Unknown { id: id.to_owned() }),
        }
    }

    pub(crate) fn bump(&self) {
        self.changed.send_modify(|generation| *generation += 1);
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// Waits until nothing is left of a task, and removes its record, its sandbox, and a container that was kept for its
    /// output.
    pub(crate) async fn forget(
        &self,
        id: &str,
        handle: &Handle,
        within: Duration,
    ) -> Result<(), TaskManagerError> {
        let task = &handle.task;
        if tokio::time::timeout(within, task.finished()).await.is_err() {
            let id = id.to_owned();
            return Err(TaskManagerError::StillRunning { id, within });
        }
        let container = task.watch().borrow().container.clone();
        if let Some(container) = container.filter(|_| task.log_mode() == LogMode::Engine) {
            let options = RemoveOptions {
                force: true,
                volumes: true,
            };
            match self.engine.remove(&container, options).await {
                Err(error) if !error.is_no_such_container() => return Err(error.into()),
                Ok(()) | Err(_) => {}
            }
        }
        self.executor.forget(task).await?;
        self.tasks().remove(id);
        self.bump();
        let (sandboxes, id) = (self.sandboxes.clone(), id.to_owned());
        blocking(move || sandboxes.remove(&id)).await?
    }
}

/// Waits until a task is on record, or is refused.
async fn on_record(task: &Task) -> Result<(), TaskManagerError> {
    let mut view = task.watch();
    let told = view.wait_for(|view| view.state.is_some());
    match tokio::time::timeout(RECORDED, told).await {
        Ok(_) => {}
        Err(_) => {
            // Whatever becomes of it, it does not run behind anybody's back.
            task.kill(Kill::within(Duration::ZERO));
            return Err(TaskManagerError::Refused {
                id: task.id().to_owned(),
                problem: format!(
                    "it could not be put on record within {}s",
                    RECORDED.as_secs()
                ),
            });
        }
    }
    let status = task.last_status().unwrap_or_default();
    let ending = crate::follow::ending(&status);
    if matches!(ending.as_deref(), Some("invalid" | "not-recorded")) {
        return Err(TaskManagerError::Refused {
            id: task.id().to_owned(),
            problem: status.message.unwrap_or_default(),
        });
    }
    Ok(())
}

fn executor_options(options: &ManagerOptions) -> ExecutorOptions {
    let (max_bytes, keep) = options.log_files;
    ExecutorOptions {
        grace: options.grace,
        pull_auth: options.pull_auth.clone(),
        logs: options.logs,
        rotation: Rotation { max_bytes, keep },
        engine_log: Some(options.engine_log),
        ..ExecutorOptions::new(options.state_dir.clone(), OWNER)
    }
}

pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, TaskManagerError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => Ok(done),
        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
        Err(_) => Err(TaskManagerError::Stopping),
    }
}
