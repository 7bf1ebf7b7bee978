//! Why a daemon cannot start or go on.

use std::io;
use std::path::PathBuf;

use longshore_checkpoint::CheckpointError;

use crate::ConfigErrors;

/// Why a daemon cannot start, or cannot be reached any more. Once it runs, only the loss of its runtime directory
/// ends it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SupervisorError {
    /// The configuration is not usable.
    #[error(transparent)]
    Config(#[from] ConfigErrors),
    /// A directory cannot be made.
    #[error("cannot create {} (set `{key}` to another place)", path.display())]
    Directory {
        /// The configuration's key for it.
        key: &'static str,
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A directory is not safe to use.
    #[error("{} {problem} (set `{key}` to another place, or repair it)", path.display())]
    NotOurs {
        /// The configuration's key for it.
        key: &'static str,
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Another supervisor has the directory, or it cannot be locked.
    #[error("{}", lock_problem(key, source))]
    Lock {
        /// The configuration's key for it.
        key: &'static str,
        /// Who, or why.
        #[source]
        source: CheckpointError,
    },
    /// The state directory's own id cannot be read or written.
    #[error("the id of this state directory cannot be kept")]
    Instance {
        /// Why.
        #[source]
        source: CheckpointError,
    },
    /// The state directory's own id is damaged: containers of it would be lost.
    #[error("{} is damaged ({damage}): restore it from a copy, or move {} away to begin anew", path.display(), path.display())]
    InstanceDamaged {
        /// The file.
        path: PathBuf,
        /// In which way.
        damage: String,
    },
    /// A path is not usable.
    #[error("a path is not usable")]
    Path {
        /// Which, and why.
        #[source]
        source: longshore_paths::PathsError,
    },
    /// The embedded agent cannot start.
    #[error("the embedded agent cannot start")]
    Agent {
        /// Why.
        #[source]
        source: longshore_agent::AgentError,
    },
    /// There can be no client for the agent.
    #[error("the agent cannot be used")]
    Client {
        /// Why.
        #[source]
        source: longshore_agent_client::AgentError,
    },
    /// The CSI manager cannot start.
    #[error("the CSI manager cannot start")]
    Manager {
        /// Why.
        #[source]
        source: longshore_csi_manager::ManagerError,
    },
    /// The tasks of this state directory cannot be taken up.
    #[error("the tasks of this state directory cannot be taken up")]
    Tasks {
        /// Why.
        #[source]
        source: longshore_task_manager::TaskManagerError,
    },
    /// The place where containers of images are on record cannot be used.
    #[error("containers of images cannot be put on record")]
    Images {
        /// Why.
        #[source]
        source: longshore_image_containers::ImageError,
    },
    /// NRI plugins cannot be served.
    #[error("NRI plugins cannot be served (see `nri`)")]
    Nri {
        /// Why.
        #[source]
        source: Box<longshore_nri_adaptation::AdaptationError>,
    },
    /// No engine can be used.
    #[error("no engine can be used for tasks: {reason} (set `tasks.engine`)")]
    Engine {
        /// Why.
        reason: String,
    },
    /// The control service cannot be served.
    #[error("cannot serve {}", path.display())]
    Control {
        /// Its socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Nothing can be told over HTTP.
    #[error("nothing can be told over HTTP (see `http.listen`)")]
    Http {
        /// Why.
        #[source]
        source: longshore_status_http::StatusHttpError,
    },
    /// A handler for a signal, or a watch, cannot be installed.
    #[error("cannot {what}")]
    System {
        /// What was attempted.
        what: &'static str,
        /// Why.
        #[source]
        source: io::Error,
    },
}

fn lock_problem(key: &str, source: &CheckpointError) -> String {
    match source {
        CheckpointError::Locked { .. } => format!("another supervisor runs on this `{key}`"),
        _ => format!("`{key}` cannot be used"),
    }
}
