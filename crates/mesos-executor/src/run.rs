//! Performs what the session decides.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::time::Duration;

use longshore_agent_client::executor::{
    Ending, ExecutorConfig, ExecutorConnection, ExecutorEvent, ShutdownCause,
};
use longshore_docker_executor::{Acknowledge, Executor, ExecutorOptions, Launch, Task, TaskView};
use longshore_engine::DockerEngine;
use longshore_executor_watchdog::{Init, Watched};
use longshore_mesos_api::v1::framework_info::capability;
use longshore_mesos_api::v1::{CommandInfo, FrameworkInfo, TaskInfo, TaskState, TaskStatus};
use longshore_task_spec::Sandbox;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::session::{Act, Event, Session, is_terminal};
use crate::{Prepared, chain};

/// Who made the containers, in their labels.
const OWNER: &str = "mesos-executor";
/// From the last acknowledgement to the end of what is left to do: a container is removed.
const CLEAN_UP: Duration = Duration::from_secs(20);
/// Without an event for so long it is quiet.
const QUIET: Duration = Duration::from_secs(5);
/// How often it is found to be quiet again: checks of a task are no events.
const STILL_QUIET: Duration = Duration::from_secs(60);
/// Statuses on their way to the agent.
const STATUSES: usize = 64;

/// Runs to the end; true when the agent has acknowledged everything.
pub(crate) fn run(prepared: Prepared, quiet: fn()) -> Result<bool, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| format!("cannot start: {error}"))?;
    let outcome = runtime.block_on(async { Running::start(prepared)?.until_the_end(quiet).await });
    // What hangs in a system call is not waited for.
    runtime.shutdown_timeout(Duration::from_secs(1));
    outcome
}

struct Running {
    prepared: Prepared,
    connection: ExecutorConnection,
    executor: Executor,
    session: Session,
    tasks: BTreeMap<String, Task>,
    framework: FrameworkInfo,
    statuses: mpsc::Receiver<TaskStatus>,
    sender: mpsc::Sender<TaskStatus>,
    /// What the watchdog knows.
    watched: Option<Watched>,
    /// First processes of the container.
    inits: mpsc::Receiver<Init>,
    found: mpsc::Sender<Init>,
    forwarders: JoinSet<()>,
}

impl Running {
    fn start(prepared: Prepared) -> Result<Self, String> {
        let environment = &prepared.environment;
        let flags = &prepared.flags;
        let mut options = ExecutorOptions::new(prepared.place.path(), OWNER);
        options.single = true;
        options.grace = environment.shutdown_grace.max(flags.stop_timeout);
        options.default_dns = flags.default_container_dns.clone();
        options.enable_cfs = flags.cgroups_enable_cfs;
        options.prepared_by_agent = true;
        // A container that the agent has named it removes, too, after a time for looking at it.
        options.remove = flags.container.is_none();
        let engine = DockerEngine::new(prepared.engine.clone());
        let executor = Executor::new(Arc::new(engine), options).map_err(|error| chain(&error))?;
        let config = ExecutorConfig::new(environment.clone());
        let connection = ExecutorConnection::start(config).map_err(|error| chain(&error))?;
        let (sender, statuses) = mpsc::channel(STATUSES);
        let (found, inits) = mpsc::channel(1);
        Ok(Self {
            connection,
            executor,
            session: Session::default(),
            tasks: BTreeMap::new(),
            framework: FrameworkInfo::default(),
            statuses,
            sender,
            watched: None,
            inits,
            found,
            forwarders: JoinSet::new(),
            prepared,
        })
    }

    async fn until_the_end(mut self, quiet: fn()) -> Result<bool, String> {
        let wait = |kind| signal(kind).map_err(|error| format!("cannot handle signals: {error}"));
        let mut term: Signal = wait(SignalKind::terminate())?;
        let mut int: Signal = wait(SignalKind::interrupt())?;
        let grace = self.prepared.environment.shutdown_grace;
        let asked = |name: &str| {
            tracing::info!(signal = name, "asked to end");
            Event::Shutdown(ShutdownCause::Agent, grace)
        };
        let mut patience = QUIET;
        loop {
            let quiet_from = tokio::time::Instant::now() + patience;
            patience = QUIET;
            tokio::select! {
                () = tokio::time::sleep_until(quiet_from) => {
                    quiet();
                    patience = STILL_QUIET;
                }
                event = self.connection.next() => match event {
                    Some(ExecutorEvent::Ended(ending)) => return Ok(self.end(ending).await),
                    Some(event) => self.hear(event).await,
                    None => return Err("the connection to the agent is gone".to_owned()),
                },
                Some(status) = self.statuses.recv() => self.send(status).await,
                Some(init) = self.inits.recv() => self.watch(|watched| watched.init = Some(init)),
                Some(()) = term.recv() => self.take(asked("SIGTERM")).await,
                Some(()) = int.recv() => self.take(asked("SIGINT")).await,
            }
        }
    }

    async fn hear(&mut self, event: ExecutorEvent) {
        match event {
            ExecutorEvent::Subscribed(subscribed) => {
                tracing::info!(
                    framework = subscribed.framework_info.name,
                    agent = subscribed.agent_info.hostname,
                    "subscribed"
                );
                self.framework = subscribed.framework_info;
            }
            ExecutorEvent::Launch(task) => self.take(Event::Launch(task)).await,
            ExecutorEvent::LaunchGroup(tasks) => self.take(Event::LaunchGroup(tasks)).await,
            ExecutorEvent::Kill { task_id, policy } => {
                self.take(Event::Kill { task_id, policy }).await;
            }
            ExecutorEvent::Shutdown { cause, grace } => {
                tracing::info!(?cause, "shutdown");
                self.take(Event::Shutdown(cause, grace)).await;
            }
            ExecutorEvent::Acknowledged { task_id, uuid, .. } => {
                if let Some(task) = self.tasks.get(&task_id.value) {
                    task.acknowledge(&uuid);
                }
            }
            ExecutorEvent::Refused {
                task_id,
                uuid,
                reason,
            } => {
                tracing::error!(task = task_id.value, reason, "the agent refuses a status");
                if let Some(task) = self.tasks.get(&task_id.value) {
                    task.acknowledge(&uuid);
                }
            }
            ExecutorEvent::Disconnected { reason } => tracing::warn!(reason, "no agent"),
            ExecutorEvent::Error(message) => tracing::error!(message, "the agent reports an error"),
            // A docker executor has nothing to do with it.
            ExecutorEvent::Message(_) => {}
            other => tracing::debug!(?other, "passed over"),
        }
    }

    async fn take(&mut self, event: Event) {
        for act in self.session.step(event) {
            match act {
                Act::Launch(task) => self.launch(*task),
                Act::Kill { task, kill } => {
                    tracing::info!(task, grace = ?kill.grace, "kill");
                    if let Some(grace) = kill.grace {
                        self.watch(|watched| watched.grace = grace);
                    }
                    if let Some(task) = self.tasks.get(&task) {
                        task.kill(kill);
                    }
                }
                Act::Say(status) => self.update(*status).await,
                Act::Finish => self.connection.handle().finish().await,
            }
        }
    }

    /// Not async: the watchdog is told before the task's driver has had a turn.
    fn launch(&mut self, mut info: TaskInfo) {
        // A master takes no command in the task of a custom executor: the image's own is meant.
        info.command.get_or_insert_with(|| CommandInfo {
            shell: Some(false),
            ..CommandInfo::default()
        });
        let id = info.task_id.value.clone();
        let killing = capability::Type::TaskKillingState;
        let mut known = self.framework.capabilities.iter();
        let mut launch = Launch::new(info);
        launch.framework = self.prepared.environment.framework_id.clone();
        launch.tell_killing = known.any(|capability| capability.r#type() == killing);
        launch.container_name = self.prepared.flags.container.clone();
        launch.task_environment = self.prepared.flags.task_environment.clone();
        launch.acknowledge = Acknowledge::ByCaller;
        if let Some(sandbox) = &self.prepared.sandbox {
            let found = std::fs::metadata(sandbox);
            launch.log_owner = found.ok().map(|found| (found.uid(), found.gid()));
            launch.sandbox = Some(Sandbox {
                host: sandbox.display().to_string(),
                mapped: self.prepared.flags.mapped_directory.clone(),
            });
        }
        let grace = launch
            .task
            .kill_policy
            .as_ref()
            .and_then(|policy| policy.grace_period.as_ref())
            .map_or(
                self.prepared
                    .environment
                    .shutdown_grace
                    .max(self.prepared.flags.stop_timeout),
                |grace| Duration::from_nanos(u64::try_from(grace.nanoseconds).unwrap_or(0)),
            );
        let task = self.executor.launch(launch);
        tracing::info!(task = id, container = task.container_name(), "launch");
        // A second task has no container: it is refused at once.
        let is_first = self.tasks.values().all(|task| task.watch().borrow().over);
        if is_first {
            self.watched = Some(Watched {
                container: task.container_name().to_owned(),
                grace,
                init: None,
            });
            self.watch(|_| ());
            self.forwarders
                .spawn(tell_inits(task.watch(), self.found.clone()));
        }
        let (mut updates, sender) = (task.updates(), self.sender.clone());
        self.forwarders.spawn(async move {
            loop {
                let status = updates.next().await;
                let last = is_terminal(status.state());
                if sender.send(status).await.is_err() || last {
                    return;
                }
            }
        });
        self.tasks.insert(id, task);
    }

    /// Tells the watchdog what has changed for it.
    fn watch(&mut self, change: impl FnOnce(&mut Watched)) {
        let (Some(watched), Some(watchdog)) = (&mut self.watched, &mut self.prepared.watchdog)
        else {
            return;
        };
        change(watched);
        if let Err(error) = watchdog.watch(watched) {
            tracing::error!(%error, "the watchdog is gone");
        }
    }

    /// A status of a task, on its way to the agent.
    async fn send(&mut self, status: TaskStatus) {
        let (task, state) = (status.task_id.value.clone(), status.state());
        self.update(status).await;
        self.take(Event::Told { task, state }).await;
    }

    async fn update(&self, mut status: TaskStatus) {
        // Only a master says ERROR; an agent does not expect it of an executor.
        if status.state() == TaskState::TaskError {
            status.state = TaskState::TaskFailed.into();
        }
        let task = status.task_id.value.clone();
        tracing::info!(
            task,
            state = status.state().as_str_name(),
            message = status.message.as_deref(),
            "status"
        );
        if let Err(error) = self.connection.handle().update(status).await {
            tracing::error!(task, error = chain(&error), "a status is lost");
        }
    }

    /// Nothing more can be said: waits for the containers to be gone, and tells the watchdog whether it is not needed.
    async fn end(mut self, ending: Ending) -> bool {
        let well = ending == Ending::Acknowledged;
        if !well {
            tracing::error!(?ending, "the agent has not taken every status");
        }
        for task in self.tasks.values() {
            for status in task.unacknowledged() {
                task.acknowledge(status.uuid());
            }
        }
        let finished = async {
            for task in self.tasks.values() {
                task.finished().await;
            }
        };
        let clean = tokio::time::timeout(CLEAN_UP, finished).await.is_ok();
        // An agent that has not taken the last status may know the container no more; then nobody would remove it.
        let forsaken = !well && self.prepared.flags.container.is_some();
        if !clean || forsaken {
            tracing::warn!("the watchdog removes the container, if one is left");
        } else if let Some(watchdog) = self.prepared.watchdog.take()
            && let Err(error) = watchdog.done()
        {
            tracing::warn!(%error, "the watchdog is gone");
        }
        well
    }
}

/// Sends on each first process that the container has.
async fn tell_inits(mut view: watch::Receiver<TaskView>, found: mpsc::Sender<Init>) {
    let mut last = None;
    loop {
        let init = view.borrow_and_update().init;
        if init != last
            && let Some(process) = init
            && found
                .send(Init {
                    pid: process.pid,
                    start: process.start,
                })
                .await
                .is_err()
        {
            return;
        }
        last = init;
        if view.changed().await.is_err() {
            return;
        }
    }
}
