//! What can go wrong between us and a plugin, in one enum.

use std::{error::Error, fmt, io, path::PathBuf, time::Duration};

use tokio::time::Instant;

use crate::{ApiVersion, Endpoint};

/// Why an endpoint could not be used. Each text is a fragment that fits after "failed to …:".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProbeError {
    /// The endpoint's text has no form that we know.
    #[error("endpoint {given:?}: {problem}{}", hint(.did_you_mean.as_deref()))]
    InvalidEndpoint {
        /// The text as given.
        given: String,
        /// What is wrong with it.
        problem: &'static str,
        /// A form that would have been accepted.
        did_you_mean: Option<String>,
    },
    /// The kernel takes at most [`SUN_PATH_MAX`](crate::SUN_PATH_MAX) bytes as a socket's path.
    #[error(
        "socket path {path:?} has {length} bytes and the kernel takes {max}: choose a shorter directory",
        max = crate::SUN_PATH_MAX
    )]
    PathTooLong {
        /// The path.
        path: PathBuf,
        /// Its length in bytes.
        length: usize,
    },
    /// There is nothing at the path, and the caller did not want to wait for it.
    #[error("no socket at {path:?}: is the plugin running, and does it listen there?")]
    SocketMissing {
        /// The path.
        path: PathBuf,
    },
    /// There is something at the path that is no socket (or a link, where links are refused).
    #[error("{path:?} is {found}, not a socket: remove it or correct the endpoint")]
    NotASocket {
        /// The path.
        path: PathBuf,
        /// What is there.
        found: &'static str,
    },
    /// The connection was refused for good (for example by the file's mode).
    #[error("cannot connect to {endpoint}")]
    Connect {
        /// The endpoint.
        endpoint: Endpoint,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// Something answers, but it does not speak HTTP/2, so no gRPC either.
    #[error("{endpoint} does not speak gRPC: {detail}")]
    NotGrpc {
        /// The endpoint.
        endpoint: Endpoint,
        /// What the HTTP/2 layer said.
        detail: String,
    },
    /// Neither `csi.v1` nor `csi.v0` is implemented there.
    #[error(
        "{endpoint} implements neither CSI v1 nor v0 (both probes were answered with UNIMPLEMENTED)"
    )]
    UnknownVersion {
        /// The endpoint.
        endpoint: Endpoint,
    },
    /// The plugin speaks another version than before.
    #[error(
        "{endpoint} speaks CSI {found}, expected {expected}: the version may only change with the configuration"
    )]
    VersionChanged {
        /// The endpoint.
        endpoint: Endpoint,
        /// What it spoke before.
        expected: ApiVersion,
        /// What it speaks now.
        found: ApiVersion,
    },
    /// A call was answered with a gRPC status that is not worth another try.
    #[error("{endpoint} answered {call} ({version}) with {code:?}: {message}", code = .status.code(), message = clip(.status.message()))]
    Rpc {
        /// The endpoint.
        endpoint: Endpoint,
        /// The API version of the call.
        version: ApiVersion,
        /// The call, for example `Probe`.
        call: &'static str,
        /// The plugin's answer.
        status: Box<tonic::Status>,
    },
    /// The answer is larger than a sane plugin's.
    #[error("{endpoint} answered {call} ({version}) with more than {limit} bytes")]
    AnswerTooLarge {
        /// The endpoint.
        endpoint: Endpoint,
        /// The API version of the call.
        version: ApiVersion,
        /// The call.
        call: &'static str,
        /// The limit in bytes.
        limit: usize,
    },
    /// The answer lacks something that the specification requires.
    #[error("{endpoint} answered {call} ({version}) {problem}")]
    BadAnswer {
        /// The endpoint.
        endpoint: Endpoint,
        /// The API version of the call.
        version: ApiVersion,
        /// The call.
        call: &'static str,
        /// What is wrong.
        problem: &'static str,
    },
    /// The deadline passed; `waiting` says for what.
    #[error("{endpoint}: gave up after {}: {waiting}", span(*after))]
    TimedOut {
        /// The endpoint.
        endpoint: Endpoint,
        /// How long it was tried.
        after: Duration,
        /// What was missing last.
        waiting: Waiting,
    },
}

/// What a probe is waiting for at a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Waiting {
    /// The socket file does not exist.
    Socket,
    /// The address exists and nobody listens there (yet, or any more).
    Listener,
    /// Connected, and the call has no answer yet.
    Answer,
    /// The connection ended without an answer.
    Disconnected {
        /// What the transport said.
        detail: String,
    },
    /// The plugin answered `ready = false`.
    Ready,
    /// The plugin answered UNAVAILABLE.
    Unavailable {
        /// The status' message.
        message: String,
    },
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket => f.write_str("the socket did not appear"),
            Self::Listener => f.write_str("the connection is refused, nobody listens there"),
            Self::Answer => f.write_str("connected, but the plugin does not answer"),
            Self::Disconnected { detail } => write!(
                f,
                "the plugin ends the connection without an answer ({detail})"
            ),
            Self::Ready => f.write_str("the plugin says that it is not ready"),
            Self::Unavailable { message } if message.is_empty() => {
                f.write_str("the plugin answers UNAVAILABLE")
            }
            Self::Unavailable { message } => write!(f, "the plugin answers UNAVAILABLE: {message}"),
        }
    }
}

fn hint(did_you_mean: Option<&str>) -> String {
    did_you_mean.map_or_else(String::new, |form| format!("; did you mean {form}?"))
}

/// A length of time for people: nobody waits for nanoseconds.
fn span(time: Duration) -> String {
    if time < Duration::from_secs(1) {
        format!("{}ms", time.as_millis())
    } else {
        format!("{:.1}s", time.as_secs_f64())
    }
}

/// A plugin's text for a log line: one line, at most 256 characters.
pub(crate) fn clip(text: &str) -> String {
    let mut line: String = text
        .chars()
        .take(256)
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if text.chars().nth(256).is_some() {
        line.push('…');
    }
    line
}

pub(crate) fn timed_out(endpoint: &Endpoint, started: Instant, waiting: Waiting) -> ProbeError {
    ProbeError::TimedOut {
        endpoint: endpoint.clone(),
        after: started.elapsed(),
        waiting,
    }
}

/// An error and its causes on one line, none twice.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        next = cause.source();
    }
    clip(&line)
}
