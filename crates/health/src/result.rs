//! What one run of a probe came to.

use std::time::Duration;

/// The most characters of a reason.
const MAX_REASON: usize = 256;

/// What one run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ProbeResult {
    /// The command exited with this status.
    Exited(i32),
    /// The command was killed by this signal, by somebody else.
    Signaled(i32),
    /// The answer, after redirects, has this HTTP status.
    Status(u16),
    /// The connection was accepted.
    Connected,
    /// The connection was refused, or the host says that it is unreachable: an answer, too.
    Refused(String),
    /// There was no answer that can be understood; one line.
    Failed(String),
    /// There was no answer within the limit, and the run was killed.
    TimedOut(Duration),
    /// The run could not be made, through no fault of the container: the engine is away, no descriptor is left. It
    /// says nothing, so nothing comes of it.
    Transient(String),
}

impl ProbeResult {
    /// One line about what is wrong, in which nothing of the command or its environment appears.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Exited(status) => format!("the command exited with {status}"),
            Self::Signaled(signal) => format!("the command was killed by signal {signal}"),
            Self::Status(status) => format!("the answer has status {status}"),
            Self::Connected => "connected".to_owned(),
            Self::Refused(reason) | Self::Failed(reason) | Self::Transient(reason) => clip(reason),
            Self::TimedOut(limit) => format!("no answer within {limit:?}"),
        }
    }
}

/// One line of at most 256 characters.
pub(crate) fn clip(text: &str) -> String {
    let mut line: String = text
        .chars()
        .take(MAX_REASON)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().nth(MAX_REASON).is_some() {
        line.push('…');
    }
    line
}
