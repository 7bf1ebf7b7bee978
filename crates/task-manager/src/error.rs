//! What can be wrong around tasks; what is wrong with one is its last status.

use std::io;
use std::path::PathBuf;

use longshore_docker_executor::ExecutorError;
use longshore_engine::EngineError;

/// Why something is not done. Each text is a fragment.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskManagerError {
    /// An id that can be none.
    #[error("the task id {id:?} cannot be used: {problem}")]
    Id {
        /// The id, cut.
        id: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A name that a container cannot have.
    #[error("the container name {name:?} cannot be used: {problem}")]
    ContainerName {
        /// The name, cut.
        name: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A name that a declared task cannot have.
    #[error(
        "the name {name:?} of a declared task cannot be used: it has 1 to 100 letters, digits, `_`, `.` and `-`, and begins with a letter or digit"
    )]
    DeclaredName {
        /// The name, cut.
        name: String,
    },
    /// What an operator wants of a declared task is done, and is not on record.
    #[error("task {name:?}: it holds for this daemon, and is not on record: {problem}")]
    NotKept {
        /// Its name.
        name: String,
        /// Why.
        problem: String,
    },
    /// A task of a file is not removed by a command.
    #[error("task {name:?} is declared by {}: remove that file, or stop the task (`longshore task stop {name}`)", path.display())]
    OfFile {
        /// Its name.
        name: String,
        /// The file.
        path: PathBuf,
    },
    /// The last attempt of a declared task is kept.
    #[error(
        "task {id:?} is the last attempt of the declared task {name:?}, whose state it tells: it is forgotten after the next ones"
    )]
    Kept {
        /// The attempt.
        id: String,
        /// The declared task.
        name: String,
    },
    /// A declared task has nothing to be looked at yet.
    #[error("task {name:?} has no attempt: it is {reason}")]
    NoAttempt {
        /// Its name.
        name: String,
        /// What it is instead.
        reason: String,
    },
    /// There is a task of that id.
    #[error("task {id:?} is there already, {how}: {advice}")]
    Taken {
        /// The id.
        id: String,
        /// Whether it runs or has ended.
        how: &'static str,
        /// What to do.
        advice: &'static str,
    },
    /// It is not launched; nothing of it exists.
    #[error("{problem}")]
    Refused {
        /// Its id.
        id: String,
        /// The field and the value, or why it could not be put on record.
        problem: String,
    },
    /// There are as many tasks as there may be.
    #[error("{limit} tasks run already, and no more may")]
    TooMany {
        /// How many.
        limit: usize,
    },
    /// There is no such task.
    #[error("no task has the id {id:?}; `longshore task ls -a` lists them")]
    Unknown {
        /// The id.
        id: String,
    },
    /// A task that has not ended is not removed.
    #[error("task {id:?} has not ended: stop it first, or remove it by force (`task rm -f`)")]
    Running {
        /// The id.
        id: String,
    },
    /// A task that has ended gets no signal.
    #[error("task {id:?} has ended already")]
    Ended {
        /// The id.
        id: String,
    },
    /// It was killed, and has not ended in time.
    #[error("task {id:?} was killed and has not ended within {}s; it is removed once it has, if you ask again", within.as_secs())]
    StillRunning {
        /// The id.
        id: String,
        /// How long was waited.
        within: std::time::Duration,
    },
    /// No signal has that name.
    #[error("{signal:?} is no signal: write it as SIGHUP, HUP or 1")]
    Signal {
        /// What was given.
        signal: String,
    },
    /// A directory of ours cannot be made or used.
    #[error("cannot use {}", path.display())]
    Directory {
        /// The path.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A record cannot be written or removed.
    #[error("the record of a declared task")]
    Record(#[from] longshore_checkpoint::CheckpointError),
    /// The executor cannot do it.
    #[error(transparent)]
    Executor(#[from] ExecutorError),
    /// The engine does not do it.
    #[error("the engine")]
    Engine(#[from] EngineError),
    /// The system gives no random bytes.
    #[error("no random bytes: {0}")]
    Random(String),
    /// The tasks are just being left alone.
    #[error("this supervisor is stopping; its tasks go on")]
    Stopping,
}
