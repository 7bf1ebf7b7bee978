use std::time::Duration;

use longshore_mesos_api::v1::executor::event::Subscribed;
use longshore_mesos_api::v1::{KillPolicy, TaskId, TaskInfo, TaskState};

/// The 16 bytes that name a status update.
pub type Uuid = [u8; 16];

/// What an executor is told, in the order in which it happened.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum ExecutorEvent {
    /// The agent has taken the executor, for the first time or again.
    Subscribed(Box<Subscribed>),
    /// Run this task.
    Launch(Box<TaskInfo>),
    /// Run these tasks together.
    LaunchGroup(Vec<TaskInfo>),
    /// End a task.
    Kill {
        /// Which.
        task_id: TaskId,
        /// How, in place of the task's own policy.
        policy: Option<KillPolicy>,
    },
    /// The agent has an update safe; it is not sent again.
    Acknowledged {
        /// The task.
        task_id: TaskId,
        /// Names the update.
        uuid: Uuid,
        /// What it said.
        state: TaskState,
    },
    /// The agent says that an update is wrong in itself; it is not sent again.
    Refused {
        /// The task.
        task_id: TaskId,
        /// Names the update.
        uuid: Uuid,
        /// What the agent said.
        reason: String,
    },
    /// The scheduler's own message to the executor.
    Message(Vec<u8>),
    /// The agent reports an error. The connection is made anew.
    Error(String),
    /// There is no subscription; the next attempt follows.
    Disconnected {
        /// What broke.
        reason: String,
    },
    /// Stop every task and finish.
    Shutdown {
        /// Who wants it.
        cause: ShutdownCause,
        /// How long the agent lets it take, once it wants it.
        grace: Duration,
    },
    /// The last event.
    Ended(Ending),
}

/// Why an executor is to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShutdownCause {
    /// The agent says so.
    Agent,
    /// The agent is gone, for longer than the executor may wait.
    AgentLost,
}

/// How a connection ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// Every update is acknowledged.
    Acknowledged,
    /// The agent did not acknowledge the rest in time.
    NotAcknowledged {
        /// How many.
        unacknowledged: usize,
    },
    /// There is no agent to acknowledge the rest.
    AgentLost {
        /// How many.
        unacknowledged: usize,
    },
    /// The executor had not finished when its time was over.
    ShutdownTimedOut {
        /// How many.
        unacknowledged: usize,
    },
}
