//! What the daemon tells about its container.

use tokio::time::Instant;

use crate::core::Phase;
use crate::exit::Exit;

/// The state of one daemon, published through a watch channel.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DaemonStatus {
    /// Grows by one with every publication.
    pub generation: u64,
    /// What it is doing.
    pub phase: Phase,
    /// In this phase since.
    pub since: Instant,
    /// Somebody wants the container to run.
    pub wanted: bool,
    /// It failed too often or was refused: retried slowly. Cleared by a stable run or a reset.
    pub failing: bool,
    /// Failures since the last stable run.
    pub failures: u32,
    /// The last failure or exit that led here; empty while all is well.
    pub reason: String,
    /// When the next start (or the next run of the post-start hook) is due.
    pub next_retry: Option<Instant>,
    /// Launches that the agent confirmed.
    pub runs: u64,
    /// How the last run ended, and when that became known.
    pub last_exit: Option<(Instant, Exit)>,
}
