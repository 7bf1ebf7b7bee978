//! What the state machine wants done.

use std::sync::Arc;

use longshore_health::CheckStatus;
use longshore_mesos_api::v1::TaskState;

use crate::{Details, Ending, Stage};

/// Something to do, in the order in which it is given.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Action {
    /// Put on disk how far the task is. Answered by [`Event::Recorded`](crate::Event::Recorded) only where
    /// [`Stage::is_awaited`].
    Record(Stage),
    /// Get the image.
    Pull,
    /// Give that up; there is no answer.
    CancelPull,
    /// Make the container.
    Create,
    /// Subscribe to its exit, and start it.
    Start,
    /// Subscribe to its exit again.
    Wait,
    /// Look at it.
    Inspect,
    /// Hold its first process.
    Hold(i32),
    /// Let the engine send a signal.
    Signal(String),
    /// Send it to the first process without the engine; there is no answer.
    SignalInit(String),
    /// End what may run of it without the engine's knowledge, and wait for that, not for long.
    Sweep,
    /// Let the engine thaw it.
    Unpause,
    /// Remove it, running or not.
    Remove,
    /// Begin to read its output.
    StartLogs,
    /// It has ended: read the rest of its output.
    DrainLogs,
    /// Begin to check it.
    StartChecks,
    /// Check no more for now.
    PauseChecks,
    /// Go on checking.
    ResumeChecks,
    /// It has ended: check no more.
    StopChecks,
    /// Publish this.
    Tell(Box<Update>),
    /// Nothing is left: no container, and no answer is awaited.
    Finish,
}

/// A status of the task, before it has a time and an id.
#[derive(Clone, Debug, PartialEq)]
pub struct Update {
    /// What state it is in.
    pub state: TaskState,
    /// What made this news of it.
    pub news: News,
    /// Whether it was last found healthy.
    pub healthy: Option<bool>,
    /// What its check last found.
    pub check: Option<CheckStatus>,
    /// What is known of its container.
    pub details: Option<Arc<Details>>,
}

/// What a status is told for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum News {
    /// The state itself.
    State,
    /// It was found healthy, or not, and why not.
    Health(String),
    /// Its check found something else than before.
    Check,
    /// It has ended.
    Ended(Ending),
}
