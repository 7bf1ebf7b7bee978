//! What can be wrong with a check before it runs, in one enum.

use std::io;
use std::path::PathBuf;

/// Why a check was refused. Each text is a fragment that fits after "failed to …:".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HealthError {
    /// There is nothing to run.
    #[error("the command of the check is empty: name a program or a line for the shell")]
    NoCommand,
    /// The kernel takes no NUL byte in an argument or a variable.
    #[error("the command of the check has a NUL byte in an argument or a variable")]
    Nul,
    /// Ports are 1 to 65535.
    #[error("port {port} of the check is not one of 1 to 65535")]
    Port {
        /// The value.
        port: u32,
    },
    /// The path cannot be asked for.
    #[error("path {path:?} of the HTTP check: {problem}")]
    Path {
        /// The value, at most 256 characters of it.
        path: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// A status has three digits.
    #[error("status {status} of the HTTP check is none of 100 to 999")]
    Status {
        /// The value.
        status: u32,
    },
    /// Seconds are finite and not negative.
    #[error("{field} {value} must be a number of seconds from 0 to 9223372036")]
    Seconds {
        /// The field, for example `delay_seconds`.
        field: &'static str,
        /// The value.
        value: f64,
    },
    /// The namespace cannot be opened.
    #[error("cannot open the network namespace {path:?}: does its container still run?")]
    OpenNamespace {
        /// Its path.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// There is something else at the path.
    #[error(
        "{path:?} is no namespace: name a file such as /proc/PID/ns/net or the engine's sandbox key"
    )]
    NotANamespace {
        /// The path.
        path: PathBuf,
    },
    /// The namespace cannot be entered.
    #[error(
        "cannot enter the network namespace {path:?}: probing inside a container needs CAP_SYS_ADMIN, \
         so run as root or use a command check"
    )]
    EnterNamespace {
        /// Its path.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The crate was built without the feature `tls`.
    #[error("https checks need the feature `tls` of longshore-health, which is not compiled in")]
    NoTls,
    /// A command check without anything to run it with.
    #[error("a command check needs a command runner, and there is none for this container")]
    NoRunner,
    /// A `mesos.v1` message lacks a field or has one too many.
    #[cfg(feature = "mesos")]
    #[error("{message}: {problem}")]
    Message {
        /// The message, for example `HealthCheck`.
        message: &'static str,
        /// What is wrong, with the field and the value.
        problem: String,
    },
}
