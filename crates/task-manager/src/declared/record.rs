//! What is on disk of a declared task.
//!
//! ```text
//!  <state_dir>/declared/<name>/wanted     WantedRecord, power-durable: written before each launch, and when the operator
//!                                         or the configuration changes what is wanted
//! ```

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use longshore_backoff::RestartPolicy;
use longshore_checkpoint::{
    CheckpointError, CodecError, Durability, Record, Recovered, Writer, bincode_decode,
    bincode_encode,
};
use longshore_mesos_api::v1::TaskInfo;
use prost::Message as _;
use serde::{Deserialize, Serialize};

use super::machine::{Attempt, Rule, State};
use super::{Declaration, DeclaredBy};
use crate::manager::blocking;
use crate::{LogMode, TaskManagerError};

/// Where declared tasks are on record, a directory each, below the state directory.
pub const DECLARED: &str = "declared";
const WANTED: &str = "wanted";
/// The most that are read.
const MAX_RECORDS: usize = 10_000;

/// What is wanted. Holds secrets of the task's environment.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct WantedRecord {
    name: String,
    /// `mesos.v1.TaskInfo`.
    task: Vec<u8>,
    logs: Option<LogMode>,
    rule: Rule,
    needs: Vec<String>,
    origin: DeclaredBy,
    generation: u64,
    number: u64,
    attempts: Vec<Attempt>,
    stopped: bool,
    leaving: bool,
    due_ms: u64,
    failing: bool,
    reset: u64,
}

/// No secret: neither the task nor its environment.
impl fmt::Debug for WantedRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WantedRecord")
            .field("name", &self.name)
            .field("generation", &self.generation)
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl Record for WantedRecord {
    const KIND: &'static str = "tasks.wanted";
    const VERSION: u16 = 1;
    const MAX_BODY: usize = 8 << 20;

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

impl WantedRecord {
    pub(crate) fn of(declaration: &Declaration, state: &State) -> Self {
        Self {
            name: declaration.name.clone(),
            task: declaration.info.encode_to_vec(),
            logs: declaration.logs,
            rule: state.rule,
            needs: declaration.needs.iter().map(ToString::to_string).collect(),
            origin: declaration.origin.clone(),
            generation: state.generation,
            number: state.number,
            attempts: state.attempts.iter().cloned().collect(),
            stopped: state.stopped,
            leaving: state.leaving,
            due_ms: u64::try_from(state.due.as_millis()).unwrap_or(u64::MAX),
            failing: state.failing,
            reset: state.reset,
        }
    }

    fn read(self, policy: RestartPolicy) -> Result<(Declaration, State), String> {
        let mut needs = Vec::with_capacity(self.needs.len());
        for need in &self.needs {
            needs.push(need.parse()?);
        }
        let declaration = Declaration {
            name: self.name,
            info: TaskInfo::decode(self.task.as_slice()).map_err(|error| error.to_string())?,
            logs: self.logs,
            rule: self.rule,
            needs,
            origin: self.origin,
        };
        let mut state = State::new(self.rule, policy);
        state.generation = self.generation;
        state.number = self.number;
        state.attempts = VecDeque::from(self.attempts);
        state.stopped = self.stopped;
        state.leaving = self.leaving;
        state.due = std::time::Duration::from_millis(self.due_ms);
        state.failing = self.failing;
        state.reset = self.reset;
        Ok((declaration, state))
    }
}

/// What was found on record of one.
#[derive(Debug)]
pub(crate) enum Recorded {
    Wanted(Box<WantedRecord>),
    /// It was damaged, and is set aside.
    Damaged {
        name: String,
        problem: String,
    },
    /// A newer release has written it: it is left as it is.
    Newer {
        name: String,
        problem: String,
    },
}

impl Recorded {
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Wanted(record) => &record.name,
            Self::Damaged { name, .. } | Self::Newer { name, .. } => name,
        }
    }

    /// The id of the last attempt.
    pub(crate) fn last(&self) -> Option<String> {
        match self {
            Self::Wanted(record) if record.number > 0 => {
                Some(format!("{}.{}", record.name, record.number))
            }
            _ => None,
        }
    }

    /// The declaration and its state, or why there is none.
    pub(crate) fn read(self, policy: RestartPolicy) -> Result<(Declaration, State), String> {
        match self {
            Self::Wanted(record) => record.read(policy),
            Self::Damaged { problem, .. } | Self::Newer { problem, .. } => Err(problem),
        }
    }
}

/// The records below one state directory. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    root: PathBuf,
    writer: Arc<Writer>,
}

impl Store {
    pub(crate) fn new(state_dir: &Path) -> Self {
        Self {
            root: state_dir.join(DECLARED),
            writer: Arc::new(Writer::new()),
        }
    }

    /// All of them; what is damaged is set aside. Blocking.
    pub(crate) fn read(&self) -> Result<Vec<Recorded>, TaskManagerError> {
        let failed = |source| TaskManagerError::Directory {
            path: self.root.clone(),
            source,
        };
        let entries = match std::fs::read_dir(&self.root) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed(error)),
        };
        let mut found = Vec::new();
        for entry in entries.take(MAX_RECORDS) {
            let name = entry.map_err(failed)?.file_name();
            let Some(name) = name
                .to_str()
                .filter(|name| crate::id::check_declared(name).is_ok())
            else {
                continue;
            };
            let damaged = |problem: String| Recorded::Damaged {
                name: name.to_owned(),
                problem,
            };
            match longshore_checkpoint::recover::<WantedRecord>(self.path(name)) {
                Ok(Recovered::Record(record)) if record.name == name => {
                    found.push(Recorded::Wanted(Box::new(record)));
                }
                Ok(Recovered::Record(_)) => {
                    found.push(damaged("it is that of another name".to_owned()));
                }
                Ok(Recovered::Nothing) => {}
                Ok(Recovered::Quarantined { damage, .. }) => {
                    found.push(damaged(damage.to_string()));
                }
                Ok(Recovered::Newer { damage }) => found.push(Recorded::Newer {
                    name: name.to_owned(),
                    problem: damage.to_string(),
                }),
                Err(error) => found.push(damaged(error.to_string())),
            }
        }
        found.sort_by(|a, b| a.name().cmp(b.name()));
        Ok(found)
    }

    /// Power-durable.
    pub(crate) async fn write(&self, record: WantedRecord) -> Result<(), TaskManagerError> {
        let (writer, path) = (Arc::clone(&self.writer), self.path(&record.name));
        let write = move || writer.write(path, &record, Durability::Power);
        Ok(blocking(write).await??)
    }

    /// Takes one off the record; what was set aside beside it stays.
    pub(crate) async fn remove(&self, name: &str) -> Result<(), TaskManagerError> {
        let path = self.path(name);
        let remove = move || -> Result<(), CheckpointError> {
            longshore_checkpoint::remove(&path, Durability::Power)?;
            if let Some(dir) = path.parent() {
                let _kept = std::fs::remove_dir(dir);
            }
            Ok(())
        };
        Ok(blocking(remove).await??)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.root.join(name).join(WANTED)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use longshore_checkpoint::testing::check_golden;

    use super::*;
    use crate::End;

    #[test]
    fn a_record_has_the_bytes_of_its_golden_file_and_shows_no_secret() {
        let record = WantedRecord {
            name: "web".to_owned(),
            task: b"hunter2".to_vec(),
            logs: Some(LogMode::Files),
            rule: Rule::OnFailure,
            needs: vec!["csi/nfs".to_owned(), "task/db".to_owned()],
            origin: DeclaredBy::File(PathBuf::from("/etc/longshore/tasks.d/web.toml")),
            generation: 2,
            number: 7,
            attempts: vec![Attempt {
                number: 7,
                generation: 2,
                began: Duration::from_millis(1_790_000_000_123),
                end: Some(End {
                    at: Duration::from_millis(1_790_000_000_456),
                    failed: true,
                    exit_code: 3,
                    ending: "exited".to_owned(),
                    message: "it exited with 3".to_owned(),
                }),
            }],
            stopped: false,
            leaving: false,
            due_ms: 1_790_000_001_456,
            failing: false,
            reset: 6,
        };
        let dir = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden")
            .join(WantedRecord::KIND);
        check_golden(dir, &record, 1, "0.1.0").unwrap();
        assert!(!format!("{record:?}").contains("hunter2"));
    }
}
