//! What does not change in a task's life.

use std::time::Duration;

/// How a task is to be run and ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// From the signal to KILL, where a kill says nothing else.
    pub grace: Duration,
    /// The signal that asks it to end; otherwise the container's own, otherwise TERM.
    pub signal: Option<String>,
    /// How long it may run, from now on.
    pub completion: Option<Duration>,
    /// Whether KILLING is told.
    pub tell_killing: bool,
    /// Whether it has a health check or a check.
    pub checks: bool,
    /// Whether it has a check: each status then carries what that last found.
    pub check: Option<longshore_health::CheckStatus>,
    /// Whether its output is read.
    pub logs: bool,
    /// Whether its container is removed once it has ended.
    pub remove: bool,
    /// How long an engine that cannot be reached is asked again for a launch.
    pub patience: Duration,
}

impl Default for Plan {
    /// Mesos' grace of 5 s; nothing checked, output read, container removed, a minute's patience.
    fn default() -> Self {
        Self {
            grace: Duration::from_secs(5),
            signal: None,
            completion: None,
            tell_killing: false,
            checks: false,
            check: None,
            logs: true,
            remove: true,
            patience: Duration::from_secs(60),
        }
    }
}
