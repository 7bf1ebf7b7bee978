//! How a command gets into the container: the one thing that this crate cannot do by itself.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::CommandProbe;

/// What [`CommandRunner::run`] returns.
pub type Running = Pin<Box<dyn Future<Output = Result<CommandExit, CommandFailure>> + Send>>;

/// Runs commands inside one container.
///
/// An implementation
/// - takes the command in exec form, with its environment added to the container's, *inside* the container;
/// - kills it inside the container, with all that it started, when `limit` is over, and only then answers
///   [`CommandExit::TimedOut`];
/// - does the same when the future is dropped.
///
/// A runner that does not come back within [`KILL_MARGIN`] after the limit is given up on.
pub trait CommandRunner: Send + Sync + std::fmt::Debug {
    /// Runs it; `None` is no limit.
    fn run(&self, command: &CommandProbe, limit: Option<Duration>) -> Running;
}

/// How long after its limit a runner may take to kill the command.
pub const KILL_MARGIN: Duration = Duration::from_secs(10);

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CommandExit {
    /// It exited with this status.
    Exited(i32),
    /// It was killed by this signal, by somebody else.
    Signaled(i32),
    /// The limit was over, and it was killed.
    TimedOut,
}

/// Why a command could not be run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandFailure {
    /// It cannot be run in this container: counts as a failure of the check.
    #[error("{0}")]
    Refused(String),
    /// Whoever runs it cannot be reached, which says nothing about the container.
    #[error("{0}")]
    Unavailable(String),
}
