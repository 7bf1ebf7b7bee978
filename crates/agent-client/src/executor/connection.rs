use std::time::{SystemTime, UNIX_EPOCH};

use longshore_mesos_api::DecodeLimits;
use longshore_mesos_api::v1::{AgentId, ExecutorId, TaskState, TaskStatus, task_status::Source};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::driver::{Command, Driver};
use super::{ExecutorEnvironment, ExecutorEvent, Uuid};
use crate::{AgentError, Codec, KeepAlive};

/// How an executor talks with its agent.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ExecutorConfig {
    /// Who it is, and where the agent is.
    pub environment: ExecutorEnvironment,
    /// Form of the messages. Default protobuf.
    pub codec: Codec,
    /// TCP keep-alive of both connections: it notices an agent whose machine is gone.
    pub keep_alive: KeepAlive,
    /// Largest event that is read, and the most elements in it. Default 16 MiB and 50,000.
    pub event: DecodeLimits,
}

impl ExecutorConfig {
    /// The defaults for `environment`.
    #[must_use]
    pub fn new(environment: ExecutorEnvironment) -> Self {
        Self {
            environment,
            codec: Codec::default(),
            keep_alive: KeepAlive::default(),
            event: DecodeLimits::default(),
        }
    }
}

/// The connection of an executor to its agent. Dropping it closes it, whatever is unacknowledged.
#[derive(Debug)]
pub struct ExecutorConnection {
    handle: ExecutorHandle,
    events: mpsc::Receiver<ExecutorEvent>,
    /// Holds the one task that does the work.
    _driver: JoinSet<()>,
}

/// Sends what an executor has to say. Cloning is cheap.
#[derive(Debug, Clone)]
pub struct ExecutorHandle {
    commands: mpsc::Sender<Command>,
    executor_id: ExecutorId,
    agent_id: Option<AgentId>,
}

/// Commands and events that wait to be taken.
const WAITING: usize = 64;

impl ExecutorConnection {
    /// Begins to subscribe. Needs a tokio runtime with time and I/O.
    ///
    /// # Errors
    /// [`AgentError::NoTls`] or [`AgentError::CaFile`].
    pub fn start(config: ExecutorConfig) -> Result<Self, AgentError> {
        let handle_for = &config.environment;
        let executor_id = ExecutorId {
            value: handle_for.executor_id.clone(),
        };
        let agent_id = handle_for.agent_id.clone().map(|value| AgentId { value });
        let (commands, inbox) = mpsc::channel(WAITING);
        let (outbox, events) = mpsc::channel(WAITING);
        let driver = Driver::new(config, inbox, outbox)?;
        let mut task = JoinSet::new();
        task.spawn(Box::new(driver).run());
        Ok(Self {
            handle: ExecutorHandle {
                commands,
                executor_id,
                agent_id,
            },
            events,
            _driver: task,
        })
    }

    /// What sends updates.
    #[must_use]
    pub fn handle(&self) -> ExecutorHandle {
        self.handle.clone()
    }

    /// The next event; `None` after [`ExecutorEvent::Ended`]. Dropping the future loses nothing. As long as 64 events are
    /// not taken, nothing more is read from the agent.
    pub async fn next(&mut self) -> Option<ExecutorEvent> {
        self.events.recv().await
    }
}

impl ExecutorHandle {
    /// Takes over a status, to be sent until it is acknowledged, and returns what names it.
    ///
    /// Source, executor and agent are filled in; `uuid` (a random one) and `timestamp` (now) are unless they are set. Once this
    /// has returned nothing but the end of the process loses it. Dropping the future before may or may not send it.
    ///
    /// # Errors
    /// [`AgentError::BadUpdate`] for what no agent accepts, [`AgentError::ExecutorEnded`] after the end.
    pub async fn update(&self, mut status: TaskStatus) -> Result<Uuid, AgentError> {
        let uuid = self.complete(&mut status)?;
        let update = Command::Update(Box::new(status), uuid);
        match self.commands.send(update).await {
            Ok(()) => Ok(uuid),
            Err(_) => Err(AgentError::ExecutorEnded),
        }
    }

    /// Sends the scheduler a message of the executor's own. As with Mesos' library it is lost without a subscription, or when more
    /// than 64 wait.
    pub async fn message(&self, data: Vec<u8>) {
        // After the end nobody hears it, as without a subscription.
        let _ended = self.commands.send(Command::Message(data)).await;
    }

    /// Says that no update follows: the connection ends when all are acknowledged.
    pub async fn finish(&self) {
        // After the end there is nothing to finish.
        let _ended = self.commands.send(Command::Finish).await;
    }

    fn complete(&self, status: &mut TaskStatus) -> Result<Uuid, AgentError> {
        let refuse = |reason| {
            Err(AgentError::BadUpdate {
                task: status.task_id.value.clone(),
                reason,
            })
        };
        if status.task_id.value.is_empty() {
            return refuse("it names no task");
        }
        match TaskState::try_from(status.state) {
            Ok(TaskState::TaskStaging) => return refuse("STAGING is what the agent says"),
            Ok(_) => {}
            Err(_) => return refuse("its state is unknown"),
        }
        let uuid = match status.uuid.as_deref().map(Uuid::try_from) {
            Some(Ok(given)) if matches!(given[6] >> 4, 1..=5) => given,
            Some(Ok(_)) => return refuse("its uuid is of no version from 1 to 5"),
            Some(Err(_)) => return refuse("its uuid has not 16 bytes"),
            None => match random_uuid() {
                Ok(uuid) => uuid,
                Err(_) => return refuse("the system has no random numbers for its uuid"),
            },
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        status.uuid = Some(uuid.to_vec());
        status
            .timestamp
            .get_or_insert(now.map_or(0.0, |now| now.as_secs_f64()));
        status.source = Some(Source::Executor.into());
        status.executor_id = Some(self.executor_id.clone());
        if self.agent_id.is_some() {
            status.agent_id.clone_from(&self.agent_id);
        }
        Ok(uuid)
    }
}

/// A random UUID, version 4 (RFC 9562).
fn random_uuid() -> Result<Uuid, getrandom::Error> {
    let mut uuid = Uuid::default();
    getrandom::fill(&mut uuid)?;
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    Ok(uuid)
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_mesos_api::v1::TaskId;

    fn handle() -> (ExecutorHandle, mpsc::Receiver<Command>) {
        let (commands, inbox) = mpsc::channel(WAITING);
        let handle = ExecutorHandle {
            commands,
            executor_id: ExecutorId { value: "e".into() },
            agent_id: Some(AgentId { value: "a".into() }),
        };
        (handle, inbox)
    }

    fn status(task: &str, state: TaskState) -> TaskStatus {
        TaskStatus {
            task_id: TaskId { value: task.into() },
            state: state.into(),
            ..TaskStatus::default()
        }
    }

    #[tokio::test]
    async fn a_status_is_made_complete() {
        let (handle, mut inbox) = handle();
        let mut seen = Vec::new();
        for _ in 0..2 {
            let uuid = handle
                .update(status("t", TaskState::TaskRunning))
                .await
                .unwrap();
            let Some(Command::Update(status, named)) = inbox.recv().await else {
                panic!("an update");
            };
            assert_eq!(uuid, named);
            assert_eq!(status.uuid.as_deref(), Some(&uuid[..]));
            assert_eq!((uuid[6] >> 4, uuid[8] >> 6), (4, 2), "version and variant");
            assert!(status.timestamp.unwrap() > 1.7e9);
            assert_eq!(status.source(), Source::Executor);
            assert_eq!(status.executor_id.unwrap().value, "e");
            assert_eq!(status.agent_id.unwrap().value, "a");
            seen.push(uuid);
        }
        assert_ne!(seen[0], seen[1]);
    }

    #[tokio::test]
    async fn what_is_set_stays() {
        let (handle, mut inbox) = handle();
        let mut given = status("t", TaskState::TaskFinished);
        let uuid = [0x47; 16];
        given.uuid = Some(uuid.to_vec());
        given.timestamp = Some(1.5);
        assert_eq!(handle.update(given).await.unwrap(), uuid);
        let Some(Command::Update(status, _)) = inbox.recv().await else {
            panic!("an update");
        };
        assert_eq!(status.timestamp, Some(1.5));
    }

    #[tokio::test]
    async fn ex10_what_an_agent_would_refuse_is_not_sent() {
        let (handle, mut inbox) = handle();
        let mut short = status("t", TaskState::TaskRunning);
        short.uuid = Some(vec![1, 2, 3]);
        let mut no_version = status("t", TaskState::TaskRunning);
        no_version.uuid = Some(vec![7; 16]);
        let mut unknown = status("t", TaskState::TaskRunning);
        unknown.state = 1234;
        for (bad, expected) in [
            (status("", TaskState::TaskRunning), "names no task"),
            (status("t", TaskState::TaskStaging), "STAGING"),
            (unknown, "unknown"),
            (short, "16 bytes"),
            (no_version, "no version"),
        ] {
            let error = handle.update(bad).await.unwrap_err().to_string();
            assert!(error.contains(expected), "{error}");
        }
        assert!(inbox.try_recv().is_err());
        drop(inbox);
        let late = handle.update(status("t", TaskState::TaskRunning)).await;
        assert!(matches!(late, Err(AgentError::ExecutorEnded)));
    }
}
