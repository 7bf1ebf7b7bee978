//! What the state machine is told.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use longshore_engine::EngineError;
use longshore_health::{CheckStatus, HealthReport};

/// Something that happened. An answer belongs to the last action of its kind.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Event {
    /// Somebody wants the task to end.
    Kill(Kill),
    /// Somebody wants it to get a signal, and nothing else.
    Signal(String),
    /// [`Action::Record`](crate::Action::Record) is on disk, or is not, and why.
    Recorded(Result<(), String>),
    /// The image is there.
    Pulled(Result<PulledImage, EngineError>),
    /// The container has been made; its id.
    Created(Result<String, CreateFailure>),
    /// It has been started, and its exit subscribed to before; when the answer came, in nanoseconds since 1970.
    Started(Result<i64, EngineError>),
    /// How the container is. One of that name that is not ours is "no such container".
    Inspected(Result<Found, EngineError>),
    /// The engine says that it has exited with this code; or the subscription broke.
    Exited(Result<i64, EngineError>),
    /// Whether its first process is held by a pidfd from now on.
    Held(Held),
    /// The process that was held has ended.
    InitDied,
    /// [`Action::Sweep`](crate::Action::Sweep) has been done.
    Swept,
    /// Whether the engine has sent a signal.
    Signalled {
        /// Which.
        signal: String,
        /// What it answered.
        result: Result<(), EngineError>,
    },
    /// Whether the engine has thawed the container.
    Unpaused(Result<(), EngineError>),
    /// Whether it has removed it.
    Removed(Result<(), EngineError>),
    /// The engine tells what happened to the container.
    Seen(Seen),
    /// The engine's events cannot be heard yet.
    EventsMissing,
    /// The engine's events broke off.
    EngineLost,
    /// They go on; what came between may have been missed.
    EngineResumed,
    /// The health check has something to tell.
    Health(HealthReport),
    /// The check has.
    Check(CheckStatus),
    /// All output that there is has been read.
    LogsDrained,
    /// [`State::due`](crate::State::due) has come.
    Due,
}

/// A wish that the task ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kill {
    /// On whose behalf.
    pub cause: KillCause,
    /// From the signal to KILL; otherwise what the task says. A later wish can only shorten it.
    pub grace: Option<Duration>,
    /// The first signal, as `SIGTERM` or `15`; otherwise the container's stop signal.
    pub signal: Option<String>,
    /// Who wants it and why, of an eviction.
    pub reason: Option<String>,
}

impl Kill {
    /// Somebody asked for it; with the task's own grace and signal.
    #[must_use]
    pub const fn asked() -> Self {
        Self {
            cause: KillCause::Asked,
            grace: None,
            signal: None,
            reason: None,
        }
    }

    /// It is evicted; with the task's own grace and signal.
    #[must_use]
    pub fn evicted(reason: impl Into<String>) -> Self {
        Self {
            cause: KillCause::Evicted,
            reason: Some(reason.into()),
            ..Self::asked()
        }
    }

    /// The same, with this grace.
    #[must_use]
    pub const fn within(grace: Duration) -> Self {
        Self {
            cause: KillCause::Asked,
            grace: Some(grace),
            signal: None,
            reason: None,
        }
    }
}

/// Why a task is killed. The first cause decides how it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub enum KillCause {
    /// The scheduler or a user asked for it.
    Asked,
    /// Whoever runs the task goes down, and takes it along.
    Shutdown,
    /// Its health check failed too often.
    Unhealthy,
    /// Its time is over.
    OutOfTime,
    /// Somebody else has restarted it: what runs now is not what was launched.
    Restarted,
    /// A plugin wants it to end. On record it is [`Self::Asked`]: the reason is not kept.
    Evicted,
}

/// What a pull found out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PulledImage {
    /// The image's own stop signal.
    pub stop_signal: Option<String>,
}

/// Why there is no container.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CreateFailure {
    /// The engine did not make it.
    Engine(EngineError),
    /// A hook does not want it, or could not be asked.
    Hook(String),
}

/// What became of holding the first process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Held {
    /// It is held.
    Yes,
    /// It has ended before it could be.
    Ended,
    /// It cannot be: another pid namespace, no descriptor left. The engine's word has to do.
    Impossible,
}

/// How a container is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its id.
    pub id: String,
    /// What it does.
    pub condition: Condition,
    /// Its first process on this host.
    pub pid: Option<i32>,
    /// When its last run began, in nanoseconds since 1970: tells one run from another.
    pub run: Option<i64>,
    /// How that ended.
    pub code: i64,
    /// A process of it was killed for lack of memory.
    pub out_of_memory: bool,
    /// Why its start failed.
    pub error: String,
    /// The signal that asks it to end.
    pub stop_signal: Option<String>,
    /// What a status tells of it.
    pub details: Arc<Details>,
}

/// What a container does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// It was never started.
    Created,
    /// It runs.
    Running,
    /// It is frozen.
    Paused,
    /// It has exited, and the engine will start it again.
    Restarting,
    /// It has exited.
    Down,
    /// It is being removed.
    Removing,
}

/// What a status tells of a running container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Details {
    /// The engine's description, in JSON, without values of the environment; bounded.
    pub data: Vec<u8>,
    /// Its addresses, v4 before v6.
    pub addresses: Vec<IpAddr>,
    /// A path that names its network namespace.
    pub sandbox_key: Option<String>,
    /// Its output is that of a terminal.
    pub terminal: bool,
}

/// What the engine's events tell of the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Seen {
    /// It was started.
    Start,
    /// It was sent a signal, by its number.
    Signal(i32),
    /// Somebody has stopped it.
    Stop,
    /// It exited, with this code if that is told.
    Die(Option<i64>),
    /// It ran out of memory.
    OutOfMemory,
    /// It was frozen.
    Pause,
    /// It was thawed.
    Unpause,
    /// It was removed.
    Destroy,
}
