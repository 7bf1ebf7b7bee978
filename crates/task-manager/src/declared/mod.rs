//! Declared tasks: what is wanted to run, and the attempts at it.
//!
//! ```text
//!   declarations (files, `task run --restart`) ──> DeclaredTasks ──> one actor a name ──> TaskManager
//!                                                                     │   machine: step(state, event, now)
//!                                                                     └── record: power-durable, before each launch
//! ```

mod actor;
mod machine;
mod needs;
mod record;
mod set;
mod status;

use std::fmt;
use std::path::PathBuf;

use longshore_mesos_api::v1::TaskInfo;
use serde::{Deserialize, Serialize};

use crate::LogMode;

pub use machine::{Action, Attempt, End, Event, Found, Moment, Rule, State, Why};
pub use needs::{CsiReadiness, Need, cycles};
pub use record::DECLARED;
pub(crate) use record::{Recorded, Store};
pub use set::{Declared, DeclaredOptions, DeclaredTasks};
pub use status::DeclaredStatus;

/// A task that is wanted.
#[derive(Clone, PartialEq)]
pub struct Declaration {
    /// Its name; attempts are called `NAME.N`. See [`check_declared_name`](crate::check_declared_name).
    pub name: String,
    /// What it is; its id and name are set for each attempt.
    pub info: TaskInfo,
    /// Where output goes; otherwise as the options say.
    pub logs: Option<LogMode>,
    /// When it is started again.
    pub rule: Rule,
    /// What has to be there before each start.
    pub needs: Vec<Need>,
    /// Who wants it.
    pub origin: DeclaredBy,
}

/// Who wants a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DeclaredBy {
    /// A file: without it the task is not wanted any more.
    File(PathBuf),
    /// An operator's command.
    Command,
}

/// No secret: neither the task nor its environment.
impl fmt::Debug for Declaration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Declaration")
            .field("name", &self.name)
            .field("rule", &self.rule)
            .field("needs", &self.needs)
            .field("origin", &self.origin)
            .finish_non_exhaustive()
    }
}

impl Declaration {
    /// Whether a running attempt of `other` is one of this, too.
    pub(crate) fn runs_as(&self, other: &Self) -> bool {
        (&self.info, self.logs) == (&other.info, other.logs)
    }
}
