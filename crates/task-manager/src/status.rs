//! A task as everybody else sees it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use longshore_engine::PullProgress;

/// How far a task is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// On record, its container not running yet.
    #[default]
    Starting,
    /// Its container runs.
    Running,
    /// It was asked to end.
    Killing,
    /// It has ended, for good.
    Ended,
}

/// What is known of one task. Holds no value of a variable and no secret.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TaskStatus {
    /// Its id.
    pub id: String,
    /// Its name, for people.
    pub name: String,
    /// The image, as it was asked for.
    pub image: String,
    /// The container's name.
    pub container: String,
    /// How far it is.
    pub phase: Phase,
    /// The last state told, as Mesos names it.
    pub state: &'static str,
    /// The reason of that, as Mesos names it; empty without one.
    pub reason: &'static str,
    /// One line for a person.
    pub message: String,
    /// One word for how it has ended; empty before.
    pub ending: String,
    /// What a command line that ran it exits with; of a task that has ended.
    pub exit_code: u8,
    /// When it was launched, since 1970.
    pub launched: Duration,
    /// When it ended, since 1970.
    pub ended: Option<Duration>,
    /// What its health check found last.
    pub healthy: Option<bool>,
    /// Addresses of its container, v4 before v6.
    pub addresses: Vec<String>,
    /// Where its output is, when it is in files.
    pub sandbox: Option<PathBuf>,
    /// The task's labels.
    pub labels: BTreeMap<String, String>,
    /// Grows with each change.
    pub generation: u64,
    /// The pull that is under way.
    pub pull: Option<PullProgress>,
    /// Why the launch does not go on for the moment, while it is tried again.
    pub waiting: Option<String>,
    /// What the engine said of the container last, in JSON; empty when it said nothing.
    pub data: Vec<u8>,
}

impl TaskStatus {
    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }
}

/// What is known of the engine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineStatus {
    /// Its version, once it has told it.
    pub version: Option<String>,
    /// Since when it has not answered, since 1970, and why.
    pub silent: Option<(Duration, String)>,
}
