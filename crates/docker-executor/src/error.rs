//! What can be wrong around tasks; what is wrong with one is a status of it.

use std::path::PathBuf;

use longshore_checkpoint::CheckpointError;
use longshore_engine::EngineError;
use longshore_task_spec::hooks::HookError;

/// Why an executor cannot do what it was asked. Each text is a fragment that fits after "failed to …:".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExecutorError {
    /// The state directory is no absolute path.
    #[error("the state directory {} is not absolute", path.display())]
    RelativeStateDir {
        /// The path.
        path: PathBuf,
    },
    /// A directory cannot be read.
    #[error("cannot read the directory {}", path.display())]
    ReadDir {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// A record cannot be read, written or removed.
    #[error("the record of a task")]
    Record(#[from] CheckpointError),
    /// The engine does not do it.
    #[error("the engine")]
    Engine(#[from] EngineError),
    /// A hook does not want it, or does not answer.
    #[error("a hook")]
    Hook(#[from] HookError),
    /// The task has no container that runs.
    #[error("task {id:?} does not run")]
    NotRunning {
        /// Its id.
        id: String,
    },
    /// A task is removed when it has ended.
    #[error("task {id:?} has not ended: stop it first")]
    NotOver {
        /// Its id.
        id: String,
    },
}
