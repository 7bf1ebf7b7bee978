use std::error::Error as StdError;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use longshore_mesos_api::DecodeError;
use longshore_mesos_api::json::JsonError;
use longshore_mesos_api::record_io::RecordIoError;

/// Why a call failed. `call` is the name of its type (`LAUNCH_CONTAINER`), `container` the id as
/// `parent.child`, where the call names one.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AgentError {
    /// The text is not the address of an agent.
    #[error("`{given}` is not the address of an agent: {reason}")]
    Endpoint {
        /// The text.
        given: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A variable of the executor's environment is missing or cannot be used.
    #[error("the variable {name}{} cannot be used: {reason}", Given(given.as_deref()))]
    Variable {
        /// Its name.
        name: &'static str,
        /// Its value, unless it is absent or may be a secret.
        given: Option<String>,
        /// What is wrong.
        reason: String,
    },
    /// A status update that no agent would accept.
    #[error("a status of task {task} cannot be sent: {reason}")]
    BadUpdate {
        /// The task.
        task: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The agent has ended the executor's stream of events, between two of them.
    #[error("the agent has ended the stream of events")]
    StreamEnded,
    /// The executor's connection has ended for good, or is about to.
    #[error("the executor's connection has ended: nothing is sent any more")]
    ExecutorEnded,
    /// `https://` in a build without the feature `tls`.
    #[error("{endpoint} needs TLS, which this build does not have (feature `tls`)")]
    NoTls {
        /// The address.
        endpoint: String,
    },
    /// The certificates to verify the agent with cannot be used.
    #[error("cannot use the CA certificates in {}", path.display())]
    CaFile {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The file with the token or password cannot be read.
    #[error("cannot read the credentials in {}", path.display())]
    Credentials {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The token, user or password is not usable. Its text is never part of the error.
    #[error("the credentials {} cannot be used: {reason}", path.display())]
    BadCredentials {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: &'static str,
    },
    /// No connection: refused, no such socket, no such host, handshake failed.
    #[error("cannot connect to {endpoint}")]
    Connect {
        /// The address.
        endpoint: String,
        /// Why.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The call's deadline passed.
    #[error("{} not answered within {deadline:?}", Subject(call, container.as_deref()))]
    Timeout {
        /// The call.
        call: &'static str,
        /// The container, if any.
        container: Option<String>,
        /// The deadline.
        deadline: Duration,
        /// What the last attempt before had failed with.
        #[source]
        source: Option<Box<Self>>,
    },
    /// The connection ended before the whole answer was there, or the answer was not HTTP. The
    /// agent may or may not have done what it was asked.
    #[error("{}: the connection ended before the answer did", Subject(call, container.as_deref()))]
    Closed {
        /// The call.
        call: &'static str,
        /// The container, if any.
        container: Option<String>,
        /// What HTTP says.
        #[source]
        source: hyper::Error,
    },
    /// The agent answered, but not with what the call may answer.
    #[error("{} answered {status}{}", Subject(call, container.as_deref()), Shown(body))]
    Status {
        /// The call.
        call: &'static str,
        /// The container, if any.
        container: Option<String>,
        /// HTTP status.
        status: u16,
        /// The agent's explanation, at most [`MAX_ERROR_BODY`] bytes of it.
        body: String,
    },
    /// The answer is longer than [`crate::AgentClientConfig::answer`] allows.
    #[error("{} answered with more than {limit} bytes", Subject(call, container.as_deref()))]
    TooLarge {
        /// The call.
        call: &'static str,
        /// The container, if any.
        container: Option<String>,
        /// The limit in bytes.
        limit: usize,
        /// The length that the agent announced; nothing was read then.
        announced: Option<u64>,
    },
    /// The answer cannot be understood.
    #[error("{}: the answer cannot be understood", Subject(call, container.as_deref()))]
    Decode {
        /// The call.
        call: &'static str,
        /// The container, if any.
        container: Option<String>,
        /// What is wrong with it.
        #[source]
        source: AnswerError,
    },
    /// The request has no JSON form. Only with [`crate::Codec::Json`].
    #[error("{} cannot be written as JSON", Subject(call, container.as_deref()))]
    Encode {
        /// The call.
        call: &'static str,
        /// The container, if any.
        container: Option<String>,
        /// Why.
        #[source]
        source: JsonError,
    },
    /// REMOVE of a top-level container was not sent: a Mesos agent aborts on it.
    #[error(
        "container {container} was not removed: the agent (version {version}) is not Longshore's \
         and would abort; set remove_top_level to send it all the same"
    )]
    RemoveRefused {
        /// The container.
        container: String,
        /// What GET_VERSION said.
        version: String,
    },
    /// A `nested_*` call with an id that has no parent.
    #[error("{call}: container {container} has no parent; use the call without `nested`")]
    NotNested {
        /// The call.
        call: &'static str,
        /// The container.
        container: String,
    },
}

/// Most bytes that are kept of an error's body.
pub const MAX_ERROR_BODY: usize = 4096;

/// What is wrong with an answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AnswerError {
    /// Not protobuf, or over a limit.
    #[error(transparent)]
    Protobuf(#[from] DecodeError),
    /// Not JSON, or over a limit.
    #[error(transparent)]
    Json(#[from] JsonError),
    /// The stream of events has lost its frame.
    #[error(transparent)]
    Record(#[from] RecordIoError),
    /// Neither protobuf nor JSON.
    #[error("unexpected content type `{0}`")]
    ContentType(String),
    /// The member that belongs to the call is absent.
    #[error("`{0}` is missing")]
    Missing(&'static str),
}

impl AgentError {
    /// True when the same call may succeed later without anything being changed: the agent was
    /// not there, was starting, did not answer, or broke off.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Timeout { .. } | Self::Closed { .. } => true,
            Self::Status { status, body, .. } => *status == 503 || is_agent_starting(*status, body),
            _ => false,
        }
    }

    /// The HTTP status, when the agent answered with one that is an error.
    #[must_use]
    pub fn status(&self) -> Option<u16> {
        match self {
            Self::Status { status, .. } => Some(*status),
            _ => None,
        }
    }

    /// The container that the call was about, as `parent.child`.
    #[must_use]
    pub fn container(&self) -> Option<&str> {
        match self {
            Self::Timeout { container, .. }
            | Self::Closed { container, .. }
            | Self::Status { container, .. }
            | Self::TooLarge { container, .. }
            | Self::Decode { container, .. }
            | Self::Encode { container, .. } => container.as_deref(),
            Self::RemoveRefused { container, .. } | Self::NotNested { container, .. } => {
                Some(container)
            }
            _ => None,
        }
    }
}

/// For some 40 ms after its port is open a Mesos agent answers this 404 to everything; it must
/// not be taken for a container that is not found.
pub(crate) fn is_agent_starting(status: u16, body: &str) -> bool {
    status == 404 && body.trim_end() == "404 Not Found."
}

/// The 404 of a container that the agent does not know.
pub(crate) fn is_container_unknown(status: u16, body: &str) -> bool {
    status == 404 && body.contains("cannot be found")
}

/// ` (VALUE)`, or nothing.
struct Given<'a>(Option<&'a str>);

impl std::fmt::Display for Given<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(given) => write!(f, " ({given:?})"),
            None => Ok(()),
        }
    }
}

/// `CALL of container ID`, or just `CALL`.
struct Subject<'a>(&'a str, Option<&'a str>);

impl std::fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.1 {
            Some(container) => write!(f, "{} of container {container}", self.0),
            None => f.write_str(self.0),
        }
    }
}

/// A body on one line, without control characters, cut at a length that fits a log line.
struct Shown<'a>(&'a str);

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        const LONGEST: usize = 400;
        let text = self.0.trim();
        if text.is_empty() {
            return Ok(());
        }
        f.write_str(": ")?;
        for (index, c) in text.chars().enumerate() {
            if index == LONGEST {
                return f.write_str("...");
            }
            std::fmt::Write::write_char(f, if c.is_control() { ' ' } else { c })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(status: u16, body: &str) -> AgentError {
        AgentError::Status {
            call: "WAIT_CONTAINER",
            container: Some("a.b".into()),
            status,
            body: body.into(),
        }
    }

    #[test]
    fn an_error_is_one_line_with_call_container_status_and_body() {
        assert_eq!(
            status(500, "Unable to\nsend\u{1b} signal \n").to_string(),
            "WAIT_CONTAINER of container a.b answered 500: Unable to send  signal"
        );
        assert_eq!(
            status(403, "").to_string(),
            "WAIT_CONTAINER of container a.b answered 403"
        );
        let long = status(500, &"x".repeat(4000)).to_string();
        assert!(long.len() < 500 && long.ends_with("..."));
        assert_eq!(status(500, "").container(), Some("a.b"));
    }

    #[test]
    fn a_starting_agent_is_told_from_an_unknown_container() {
        assert!(is_agent_starting(404, "404 Not Found."));
        assert!(!is_agent_starting(404, "Container c3 cannot be found"));
        assert!(is_container_unknown(404, "Container c3 cannot be found"));
        assert!(is_container_unknown(
            404,
            "Container 'c' cannot be found (or is already killed)"
        ));
        assert!(!is_container_unknown(404, "404 Not Found."));
        assert!(!is_container_unknown(404, "<html>nginx</html>"));
        assert!(status(503, "").is_retryable());
        assert!(status(404, "404 Not Found.").is_retryable());
        assert!(!status(404, "nginx").is_retryable());
        assert!(!status(400, "").is_retryable());
    }
}
