//! What can go wrong on the way, as data: no failure ends the daemon.

/// A hook, a call or the agent failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What happened, with the causes: one line.
    pub message: String,
    /// Trying again soon is useless (refused, not allowed, wrong configuration): the daemon goes
    /// to *failing* at once and retries slowly.
    pub permanent: bool,
    /// Only of a post-start hook: the container must not be stopped for it; the hook is run again
    /// after a backoff.
    pub keep: bool,
}

impl Failure {
    /// Something that may heal by itself: retried with backoff.
    #[must_use]
    pub fn new(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            permanent: false,
            keep: false,
        }
    }

    /// Something that needs somebody to act: retried slowly.
    #[must_use]
    pub fn permanent(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            permanent: true,
            keep: false,
        }
    }

    /// A failed post-start hook whose container is to be left running.
    #[must_use]
    pub fn keep(message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            permanent: false,
            keep: true,
        }
    }

    /// An error with its causes, in one line.
    #[must_use]
    pub fn from_error(error: &dyn std::error::Error) -> Self {
        Self::new(error_line(error))
    }
}

/// `error: cause: cause`, line ends replaced.
pub(crate) fn error_line(error: &dyn std::error::Error) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !line.ends_with(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        cause = error.source();
    }
    line.replace(['\n', '\r'], " ")
}

/// A LAUNCH that did not succeed: what matters is whether the container can be there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LaunchFailure {
    /// The agent never had the request, or is not ready (503): nothing new about the container.
    NotSent(Failure),
    /// The agent refused: the container is not there.
    Refused(Failure),
    /// No (understandable) answer: it may be there.
    Unknown(Failure),
}
