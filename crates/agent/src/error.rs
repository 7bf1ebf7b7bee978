//! The one error of this crate.

use std::io;
use std::path::PathBuf;

/// Why the agent could not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// A directory or file of the agent could not be made or read.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was being done, such as `create`.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// Another agent works on the same run directory.
    #[error("another agent is using {}; stop it or choose another run directory", path.display())]
    Locked {
        /// The run directory.
        path: PathBuf,
    },
    /// A setting is out of its range.
    #[error("agent setting {name} {problem}")]
    Setting {
        /// Its name, as in [`AgentOptions`](crate::AgentOptions).
        name: &'static str,
        /// What is wrong and what to do.
        problem: String,
    },
    /// The API cannot be served.
    #[error(transparent)]
    Http(#[from] crate::http::HttpError),
}
