//! What is on disk of a task.
//!
//! ```text
//!  <state_dir>/tasks/<key>/task     TaskRecord, power-durable: what is to run; written before anything exists
//!                         /state    StateRecord: how far it is. Process-durable while it runs, power-durable once it has
//!                                   ended: what a running container is can be asked of the engine after a power failure
//! ```

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use longshore_checkpoint::{
    CheckpointError, CodecError, Durability, Record, Recovered, Writer, bincode_decode,
    bincode_encode,
};
use longshore_task_spec::logs::LogPosition;
use serde::{Deserialize, Serialize};
use tokio::sync::Semaphore;

use crate::{Acknowledge, LogMode, RecordedKill, Stage};

/// How many records are written at once.
const WRITERS: usize = 4;
const TASK: &str = "task";
const STATE: &str = "state";

/// What is to run. Holds secrets of the task's environment.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskRecord {
    /// The task's id.
    pub(crate) id: String,
    /// The container's name.
    pub(crate) name: String,
    pub(crate) framework: String,
    /// `mesos.v1.TaskInfo`.
    pub(crate) task: Vec<u8>,
    /// The sandbox, on the host and in the container.
    pub(crate) sandbox: Option<(String, String)>,
    pub(crate) log_owner: Option<(u32, u32)>,
    pub(crate) task_environment: Vec<(String, String)>,
    pub(crate) tell_killing: bool,
    pub(crate) stop_signal: Option<String>,
    pub(crate) logs: LogMode,
    pub(crate) remove: bool,
    pub(crate) acknowledge: Acknowledge,
    /// When it was launched, in milliseconds since 1970, and in which boot.
    pub(crate) launched_ms: u64,
    pub(crate) boot_id: String,
}

/// No secret: neither the task nor its environment.
impl fmt::Debug for TaskRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskRecord")
            .field("id", &self.id)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// How far it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct StateRecord {
    pub(crate) stage: Stage,
    pub(crate) boot_id: String,
    pub(crate) container: Option<String>,
    pub(crate) run: Option<i64>,
    /// The first process: its pid and when it began, in clock ticks since the boot.
    pub(crate) process: Option<(i32, u64)>,
    pub(crate) told_running: bool,
    pub(crate) healthy: Option<bool>,
    pub(crate) logs: LogPosition,
    /// Statuses that nobody has acknowledged, oldest first: `mesos.v1.TaskStatus`.
    pub(crate) pending: Vec<Vec<u8>>,
    /// The last one of all.
    pub(crate) last: Option<Vec<u8>>,
    /// When it ended, in milliseconds since 1970.
    pub(crate) ended_ms: Option<u64>,
    /// Its container is removed, or kept on purpose: nothing is left to do.
    pub(crate) cleaned: bool,
    /// The kill under way. Version 1 ended before it.
    pub(crate) kill: Option<KillRecord>,
    /// When the task's run had begun at the latest, in nanoseconds since 1970. Version 2 ended before it.
    pub(crate) started_by: Option<i64>,
}

/// A kill under way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct KillRecord {
    /// What was left of the grace when this was written, in milliseconds.
    pub(crate) grace_ms: u64,
    /// When KILL is due, in milliseconds since 1970.
    pub(crate) by_ms: u64,
    /// The signal that was asked for, in place of the container's.
    pub(crate) signal: Option<String>,
}

impl Default for StateRecord {
    fn default() -> Self {
        Self {
            stage: Stage::Intended,
            boot_id: String::new(),
            container: None,
            run: None,
            process: None,
            told_running: false,
            healthy: None,
            logs: LogPosition::default(),
            pending: Vec::new(),
            last: None,
            ended_ms: None,
            cleaned: false,
            kill: None,
            started_by: None,
        }
    }
}

impl KillRecord {
    pub(crate) fn new(kill: RecordedKill, now_ms: u64) -> Self {
        let grace_ms = u64::try_from(kill.left.as_millis()).unwrap_or(u64::MAX);
        Self {
            grace_ms,
            by_ms: now_ms.saturating_add(grace_ms),
            signal: kill.signal,
        }
    }

    /// What is left now. A clock that was set back does not prolong it.
    pub(crate) fn left(&self, now_ms: u64) -> RecordedKill {
        RecordedKill {
            left: Duration::from_millis(self.by_ms.saturating_sub(now_ms).min(self.grace_ms)),
            signal: self.signal.clone(),
        }
    }
}

/// A `TaskInfo` has 1 MiB of environment at most; statuses are bounded by their data.
const MAX_BODY: usize = 8 << 20;

impl Record for TaskRecord {
    const KIND: &'static str = "executor.task";
    const VERSION: u16 = 1;
    const MAX_BODY: usize = MAX_BODY;

    fn encode(&self) -> Result<Vec<u8>, CodecError> {
        bincode_encode(self)
    }

    fn decode(version: u16, body: &[u8]) -> Result<Self, CodecError> {
        match version {
            1 => bincode_decode(body),
            version => Err(CodecError::UnsupportedVersion { version }),
        }
    }
}

/// The fields at the end of a state that earlier versions do not have.
const NOT_IN_2: Option<i64> = None;
const NOT_IN_1: (Option<KillRecord>, Option<i64>) = (None, NOT_IN_2);

impl Record for StateRecord {
    const KIND: &'static str = "executor.state";
    const VERSION: u16 = 3;
    const MAX_BODY: usize = MAX_BODY;

    fn encode(&self) -> Result<Vec<u8>, CodecError> {
        bincode_encode(self)
    }

    fn decode(version: u16, body: &[u8]) -> Result<Self, CodecError> {
        match version {
            // What came later is as if it were not on record.
            1 => bincode_decode(&[body, &bincode_encode(&NOT_IN_1)?].concat()),
            2 => bincode_decode(&[body, &bincode_encode(&NOT_IN_2)?].concat()),
            3 => bincode_decode(body),
            version => Err(CodecError::UnsupportedVersion { version }),
        }
    }
}

/// The records below one state directory. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    root: PathBuf,
    writer: Arc<Writer>,
    permits: Arc<Semaphore>,
}

impl Records {
    pub(crate) fn new(state_dir: &Path) -> Self {
        Self {
            root: state_dir.join("tasks"),
            writer: Arc::new(Writer::new()),
            permits: Arc::new(Semaphore::new(WRITERS)),
        }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn dir(&self, key: &str) -> PathBuf {
        self.root.join(key)
    }

    /// Power-durable.
    pub(crate) async fn write_task(
        &self,
        key: &str,
        record: TaskRecord,
    ) -> Result<(), CheckpointError> {
        let path = self.dir(key).join(TASK);
        self.blocking(move |writer| writer.write(path, &record, Durability::Power))
            .await
    }

    /// Power-durable where it is said.
    pub(crate) async fn write_state(
        &self,
        key: &str,
        record: StateRecord,
        durability: Durability,
    ) -> Result<(), CheckpointError> {
        let path = self.dir(key).join(STATE);
        self.blocking(move |writer| writer.write(path, &record, durability))
            .await
    }

    /// What is on record of a task; what is damaged is set aside.
    pub(crate) fn read(
        &self,
        key: &str,
    ) -> Result<(Recovered<TaskRecord>, StateRecord), CheckpointError> {
        let task = longshore_checkpoint::recover(self.dir(key).join(TASK))?;
        let state = match longshore_checkpoint::recover(self.dir(key).join(STATE))? {
            Recovered::Record(record) => record,
            Recovered::Nothing => StateRecord::default(),
            Recovered::Quarantined { damage, .. } | Recovered::Newer { damage } => {
                tracing::warn!(%damage, key, "the state of a task cannot be read; its container tells it");
                // Whether it ran is not known: it is not to be started a second time.
                StateRecord {
                    stage: Stage::Starting,
                    ..StateRecord::default()
                }
            }
        };
        Ok((task, state))
    }

    /// Removes all of a task.
    pub(crate) async fn remove(&self, key: &str) -> Result<(), CheckpointError> {
        let dir = self.dir(key);
        self.blocking(move |_| {
            for name in [TASK, STATE] {
                longshore_checkpoint::remove(dir.join(name), Durability::Process)?;
            }
            // What was set aside keeps its directory.
            let _kept = std::fs::remove_dir(&dir);
            Ok(())
        })
        .await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Writer) -> Result<T, CheckpointError> + Send + 'static,
    ) -> Result<T, CheckpointError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let writer = Arc::clone(&self.writer);
        let done = tokio::task::spawn_blocking(move || {
            let result = work(&writer);
            drop(permit);
            result
        });
        match done.await {
            Ok(result) => result,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime goes down, and the write was not begun.
            Err(_) => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests;
