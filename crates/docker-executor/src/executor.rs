//! All tasks of one engine and one state directory.

mod recover;
mod strays;
mod update;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use longshore_engine::{Engine, EngineKind};
use longshore_mesos_api::v1::TaskInfo;
use longshore_task_spec::hooks::{ContainerHooks, HookContainer, NoHooks};
use prost::Message as _;
use tokio::sync::OnceCell;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::driver::calls::heed;
use crate::driver::{Driver, Mailbox, events};
use crate::prepare::{Prepared, container_name, prepare};
use crate::publisher::Outbox;
use crate::record::{Records, StateRecord, TaskRecord};
use crate::task::{Shared, Task, Wish};
use crate::{
    Acknowledge, Ending, ExecutorError, ExecutorOptions, HostProcesses, Launch, LogMode, Plan,
    Processes, Stage, State, processes, status,
};

pub use recover::Recovery;

/// Runs tasks as containers of one engine. Clones are the same. Needs a tokio runtime with time and I/O.
///
/// Dropping it, and the end of the process, leave the containers as they are: [`recover`](Self::recover) takes them up
/// again. Its state directory belongs to one process, by a lock of the caller's.
#[derive(Clone, Debug)]
pub struct Executor {
    core: Arc<Core>,
    _last: Arc<Last>,
}

/// Ends the drivers with the last clone of their executor: they hold the core, too.
#[derive(Debug)]
struct Last(Arc<Core>);

impl Drop for Last {
    fn drop(&mut self) {
        let entries = std::mem::take(&mut *self.0.entries());
        drop(entries);
    }
}

#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) hooks: Arc<dyn ContainerHooks>,
    pub(crate) processes: Arc<dyn Processes>,
    pub(crate) options: ExecutorOptions,
    pub(crate) records: Records,
    pub(crate) root: String,
    pub(crate) boot_id: String,
    entries: Mutex<BTreeMap<String, Entry>>,
    /// Whether the engine's events are heard.
    hearing: AtomicBool,
    /// Reads the engine's events, from the first task on.
    events: OnceCell<AbortOnDrop>,
    /// Which engine it is, once it has said so.
    kind: OnceCell<EngineKind>,
}

#[derive(Debug)]
struct Entry {
    task: Task,
    mailbox: Mailbox,
    _driver: AbortOnDrop,
    _publisher: AbortOnDrop,
}

/// Ends a tokio task with its owner.
#[derive(Debug)]
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Executor {
    /// Runs tasks on `engine`. Nothing happens yet.
    ///
    /// # Errors
    /// [`ExecutorError::RelativeStateDir`].
    pub fn new(engine: Arc<dyn Engine>, options: ExecutorOptions) -> Result<Self, ExecutorError> {
        Self::with(engine, options, Arc::new(NoHooks), Arc::new(HostProcesses))
    }

    /// The same, with hooks around each container, and with whoever knows the processes of this host.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with(
        engine: Arc<dyn Engine>,
        options: ExecutorOptions,
        hooks: Arc<dyn ContainerHooks>,
        processes: Arc<dyn Processes>,
    ) -> Result<Self, ExecutorError> {
        if !options.state_dir.is_absolute() {
            return Err(ExecutorError::RelativeStateDir {
                path: options.state_dir,
            });
        }
        let core = Arc::new(Core {
            engine,
            hooks,
            processes,
            records: Records::new(&options.state_dir),
            root: options.state_dir.display().to_string(),
            boot_id: processes::boot_id(),
            options,
            entries: Mutex::default(),
            hearing: AtomicBool::new(false),
            events: OnceCell::new(),
            kind: OnceCell::new(),
        });
        Ok(Self {
            _last: Arc::new(Last(Arc::clone(&core))),
            core,
        })
    }

    /// Launches a task. What is wrong with it is its last status, never an error here. It is on record from its first status
    /// (STARTING) on: what dies before that has launched nothing.
    ///
    /// A second task with the id of one that has not ended, or while one runs where only one may, is refused with a status
    /// of its own; the first goes on.
    #[must_use]
    pub fn launch(&self, launch: Launch) -> Task {
        let key = hex(&status::random());
        let id = launch.task.task_id.value.clone();
        let name = launch
            .container_name
            .clone()
            .unwrap_or_else(|| container_name(&id, &key));
        let options = &self.core.options;
        let logs = launch.logs.unwrap_or(options.logs);
        let record = TaskRecord {
            id: id.clone(),
            name,
            framework: launch.framework,
            task: launch.task.encode_to_vec(),
            sandbox: launch.sandbox.map(|it| (it.host, it.mapped)),
            log_owner: launch.log_owner,
            task_environment: launch.task_environment,
            tell_killing: launch.tell_killing,
            stop_signal: launch.stop_signal,
            logs,
            remove: launch.remove.unwrap_or(options.remove) && logs != LogMode::Engine,
            acknowledge: launch.acknowledge,
            launched_ms: status::now_ms(),
            boot_id: self.core.boot_id.clone(),
        };
        let mut entries = self.core.entries();
        let busy = entries.values().find(|entry| {
            (options.single || entry.task.id() == id) && !entry.task.watch().borrow().over
        });
        if let Some(entry) = busy {
            let problem = if entry.task.id() == id {
                format!("task_id.value {id:?}: a task with this id runs already")
            } else {
                let other = entry.task.id();
                format!("task_id.value {id:?}: the task {other:?} runs, and only one may")
            };
            drop(entries);
            return self.refuse(key, &record, launch.task, problem);
        }
        match prepare(
            &key,
            &record,
            &launch.task,
            options,
            &self.core.root,
            Duration::ZERO,
        ) {
            Err(problem) => {
                drop(entries);
                self.refuse(key, &record, launch.task, problem)
            }
            Ok(prepared) => {
                let state = StateRecord {
                    boot_id: self.core.boot_id.clone(),
                    ..StateRecord::default()
                };
                let start =
                    |plan: Plan, actions: &mut Vec<_>| State::launch(plan, Duration::ZERO, actions);
                self.start(
                    &mut entries,
                    key,
                    record,
                    launch.task,
                    state,
                    prepared,
                    start,
                )
            }
        }
    }

    /// A task that is not launched: it has a status, and no record, since nothing of it exists. Whoever launched it
    /// sees the status; after a restart nobody asks for it.
    fn refuse(&self, key: String, record: &TaskRecord, info: TaskInfo, problem: String) -> Task {
        let outbox = Arc::new(Outbox::new(StateRecord::default(), record.acknowledge));
        let ending = Ending::Invalid(problem);
        let mut actions = Vec::new();
        let _gone = State::refused(Plan::default(), ending, Duration::ZERO, &mut actions);
        for action in actions {
            match action {
                crate::Action::Tell(update) => outbox.tell(status::of_update(&info, &update)),
                _ => outbox.change(false, |record| {
                    record.stage = Stage::Over;
                    record.cleaned = true;
                }),
            }
        }
        let (answers, _nobody) = tokio::sync::mpsc::channel(1);
        let publisher = Arc::clone(&outbox).run(self.core.records.clone(), None, answers);
        drop(tokio::spawn(publisher));
        Task {
            shared: Arc::new(Shared {
                key,
                name: record.name.clone(),
                hook: HookContainer {
                    id: String::new(),
                    name: record.id.clone(),
                    pod: record.id.clone(),
                    labels: BTreeMap::new(),
                },
                info,
                logs: record.logs,
                removes: record.remove,
                outbox,
                wish: Wish::default(),
                mailbox: OnceLock::new(),
                hooks: Arc::default(),
                launched_ms: record.launched_ms,
            }),
        }
    }

    #[expect(
        clippy::too_many_arguments,
        reason = "the parts of one task, put together here alone"
    )]
    fn start(
        &self,
        entries: &mut BTreeMap<String, Entry>,
        key: String,
        record: TaskRecord,
        info: TaskInfo,
        state: StateRecord,
        prepared: Prepared,
        start: impl FnOnce(Plan, &mut Vec<crate::Action>) -> State,
    ) -> Task {
        let outbox = Arc::new(Outbox::new(state, record.acknowledge));
        let task = Task {
            shared: Arc::new(Shared {
                key: key.clone(),
                name: record.name.clone(),
                info,
                logs: record.logs,
                removes: record.remove,
                outbox: Arc::clone(&outbox),
                wish: Wish::default(),
                mailbox: OnceLock::new(),
                hook: prepared.hook.clone(),
                hooks: Arc::default(),
                launched_ms: record.launched_ms,
            }),
        };
        let mut actions = Vec::new();
        let machine = start(prepared.plan.clone(), &mut actions);
        let (driver, mailbox) = Driver::new(
            Arc::clone(&self.core),
            Arc::clone(&task.shared),
            record,
            prepared,
            machine,
        );
        if !self.core.hearing.load(Ordering::SeqCst) {
            mailbox.post(crate::Event::EventsMissing);
        }
        // It is new.
        let _first = task.shared.mailbox.set(mailbox.clone());
        let publisher = outbox.run(
            self.core.records.clone(),
            Some(key.clone()),
            mailbox.sender().clone(),
        );
        let entry = Entry {
            task: task.clone(),
            mailbox,
            _publisher: AbortOnDrop(tokio::spawn(publisher).abort_handle()),
            _driver: AbortOnDrop(tokio::spawn(driver.run(actions)).abort_handle()),
        };
        entries.insert(key, entry);
        self.listen();
        task
    }

    /// All tasks that are on record, in no order that means anything.
    #[must_use]
    pub fn tasks(&self) -> Vec<Task> {
        let entries = self.core.entries();
        entries.values().map(|entry| entry.task.clone()).collect()
    }

    /// The task with this id: the one that runs, else the one that was launched last.
    #[must_use]
    pub fn task(&self, id: &str) -> Option<Task> {
        let entries = self.core.entries();
        let mut found: Vec<_> = entries
            .values()
            .map(|entry| &entry.task)
            .filter(|task| task.id() == id)
            .collect();
        found.sort_by_key(|task| {
            let over = task.watch().borrow().over;
            (over, std::cmp::Reverse(task.shared.launched_ms))
        });
        found.first().copied().cloned()
    }

    /// Forgets a task that has ended: removes its record. Its sandbox is its owner's.
    ///
    /// # Errors
    /// [`ExecutorError::NotOver`], [`ExecutorError::Record`]. What is not there any more is no error.
    pub async fn forget(&self, task: &Task) -> Result<(), ExecutorError> {
        if !task.watch().borrow().finished {
            return Err(ExecutorError::NotOver {
                id: task.id().to_owned(),
            });
        }
        let key = &task.shared.key;
        self.core.records.remove(key).await?;
        drop(self.core.entries().remove(key));
        // Of one that was kept for its output.
        let turn = task.shared.hooks.lock().await;
        heed(self.core.hooks.removed(&task.shared.hook)).await;
        drop(turn);
        Ok(())
    }

    /// The task whose container has this id among hooks.
    #[must_use]
    pub fn task_of_container(&self, id: &str) -> Option<Task> {
        let entries = self.core.entries();
        entries.get(id).map(|entry| entry.task.clone())
    }

    fn listen(&self) {
        if !self.core.events.initialized() {
            let reading = tokio::spawn(events::read(Arc::downgrade(&self.core)));
            let _second = self.core.events.set(AbortOnDrop(reading.abort_handle()));
        }
    }
}

impl Core {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands an event to the task that it is about, or to all.
    pub(crate) fn post(&self, key: Option<&str>, event: &crate::Event) {
        let entries = self.entries();
        match key {
            Some(key) => {
                if let Some(entry) = entries.get(key) {
                    entry.mailbox.post(event.clone());
                }
            }
            None => {
                for entry in entries.values() {
                    entry.mailbox.post(event.clone());
                }
            }
        }
    }

    /// Which engine it is; `None` while it does not say.
    pub(crate) async fn engine_kind(&self) -> Option<EngineKind> {
        let ask = async || self.engine.version().await.map(|version| version.kind);
        self.kind.get_or_try_init(ask).await.ok().copied()
    }

    /// Tells all tasks that the engine's events are heard from now on, or are not any more.
    pub(crate) fn set_hearing(&self, hearing: bool) {
        // A task that is added meanwhile is told with the others, or knows it already.
        self.hearing.store(hearing, Ordering::SeqCst);
        let event = if hearing {
            crate::Event::EngineResumed
        } else {
            crate::Event::EngineLost
        };
        self.post(None, &event);
    }

    /// The time since `epoch`, as the state machine counts.
    pub(crate) fn since(epoch: Instant) -> Duration {
        epoch.elapsed()
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Whether a text may be the name of a record's directory.
fn is_key(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

impl Task {
    /// Who says that its statuses have arrived.
    #[must_use]
    pub fn is_acknowledged_by_caller(&self) -> bool {
        self.shared.outbox.acknowledges() == Acknowledge::ByCaller
    }
}
