//! Labels: those of our containers in the engine, and that of a last status.

use std::collections::BTreeMap;

use longshore_engine::{EngineError, Missing};

/// Who made the container: [`ExecutorOptions::owner`](crate::ExecutorOptions::owner).
pub const OWNER: &str = "dev.longshore.owner";
/// The state directory of whoever made it: two supervisors on one engine never take each other's.
pub const ROOT: &str = "dev.longshore.root";
/// Our own id of the task, under which it is on record.
pub const KEY: &str = "dev.longshore.key";
/// The task's id.
pub const TASK: &str = "dev.longshore.task";
/// On a last status: the [`word`](crate::Ending::word) for how the task has ended.
pub const ENDING: &str = "dev.longshore.ending";
/// On a last status: [what a command line exits with](crate::Ending::exit_code) that ran the task.
pub const EXIT_CODE: &str = "dev.longshore.exit-code";

/// The labels of all containers of an executor, as a filter takes them.
pub(crate) fn filter(owner: &str, root: &str) -> Vec<String> {
    vec![format!("{OWNER}={owner}"), format!("{ROOT}={root}")]
}

/// The labels of one container.
pub(crate) fn of_task(owner: &str, root: &str, key: &str, task: &str) -> BTreeMap<String, String> {
    [(OWNER, owner), (ROOT, root), (KEY, key), (TASK, task)]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
}

const STRANGER: &str = "there is one of this name that is not ours";

/// A container that is not ours is as good as none.
pub(crate) fn stranger(name: &str) -> EngineError {
    EngineError::NotFound {
        call: "inspect",
        subject: name.to_owned(),
        what: Missing::Container,
        message: STRANGER.to_owned(),
    }
}

/// Whether an error tells of such a one; otherwise there is none at all.
pub(crate) fn is_stranger(error: &EngineError) -> bool {
    matches!(error, EngineError::NotFound { message, .. } if message == STRANGER)
}
