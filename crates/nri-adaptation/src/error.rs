//! Why requests fail, and why an adaptation does not start.

use std::time::Duration;

use longshore_nri_api::{InvalidName, cost::CostError};
use longshore_ttrpc::{CallError, Code, Status};

use crate::fields::FieldSet;
use crate::launch::LaunchError;
use crate::merge::MergeError;
use crate::runtime::RuntimeError;
use crate::socket::SocketError;

/// Why one call to one plugin has no usable answer.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CallFailure {
    /// The plugin answered with a failure: it stays, and the request fails.
    #[error("{0}")]
    Status(Status),
    /// No answer in time: a strike.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The connection is lost, or was lost while the answer was awaited.
    #[error("{0}")]
    Connection(CallError),
    /// The answer is no message of the expected type. The plugin is closed.
    #[error("the answer cannot be used: {0}")]
    Reply(CostError),
    /// The request is larger than a message may be; nothing was sent.
    #[error("{0}")]
    Oversized(CallError),
}

impl CallFailure {
    /// Whether the answer was refused for what it would have cost.
    pub(crate) fn is_too_costly(&self) -> bool {
        matches!(
            self,
            Self::Reply(CostError::TooCostly { .. } | CostError::TooDeep { .. })
        )
    }
}

/// Why a request of the runtime failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RequestError {
    /// The request lacks what every plugin relies on.
    #[error("{operation} without a {missing}: fill it in")]
    Incomplete {
        /// The operation.
        operation: &'static str,
        /// `pod` or `container`.
        missing: &'static str,
    },
    /// A plugin answered with a failure, or its failure fails the request by its policy.
    #[error("plugin {plugin:?} failed {operation}: {failure}")]
    Plugin {
        /// Full name of the plugin.
        plugin: String,
        /// The operation.
        operation: &'static str,
        /// How.
        #[source]
        failure: CallFailure,
    },
    /// What the plugins want cannot be merged.
    #[error("{0}")]
    Merge(#[from] MergeError),
    /// A plugin adjusted or updated what its policy does not allow.
    #[error("plugin {plugin:?} set {fields}, which its policy does not allow")]
    Denied {
        /// Full name of the plugin.
        plugin: String,
        /// The fields.
        fields: FieldSet,
    },
    /// A validator refused the adjustment.
    #[error("validator {validator:?} rejected container adjustment, reason: {reason}")]
    Rejected {
        /// Full name of the validator.
        validator: String,
        /// Its reason.
        reason: String,
    },
    /// A validator could not be asked.
    #[error("validator plugin {validator:?} failed: {failure}")]
    Validator {
        /// Full name of the validator.
        validator: String,
        /// How.
        #[source]
        failure: CallFailure,
    },
    /// A required plugin, or a validator that was active before, is not there.
    #[error("plugin {plugin:?} is required and not active: start it, or remove it by name")]
    Missing {
        /// The name under which it is required.
        plugin: String,
    },
    /// The caller's own deadline passed. No plugin is closed for that.
    #[error("the deadline of {operation} passed while {waiting}")]
    Deadline {
        /// The operation.
        operation: &'static str,
        /// What was waited for.
        waiting: String,
    },
    /// More requests are under way than are accepted.
    #[error("{max} requests are under way, no more are accepted: try again later")]
    Busy {
        /// How many are accepted.
        max: usize,
    },
    /// The adaptation was shut down.
    #[error("the adaptation is shut down")]
    Shutdown,
}

impl RequestError {
    /// The status code that stands for the error, as Go's ttrpc and gRPC number them.
    #[must_use]
    pub fn code(&self) -> Code {
        let of_failure = |failure: &CallFailure| match failure {
            CallFailure::Status(status) => status.code,
            CallFailure::Timeout(_) => Code::DeadlineExceeded,
            CallFailure::Connection(_) => Code::Unavailable,
            CallFailure::Oversized(_) => Code::ResourceExhausted,
            CallFailure::Reply(_) if failure.is_too_costly() => Code::ResourceExhausted,
            CallFailure::Reply(_) => Code::Internal,
        };
        match self {
            Self::Incomplete { .. } => Code::InvalidArgument,
            Self::Plugin { failure, .. } | Self::Validator { failure, .. } => of_failure(failure),
            Self::Merge(_) => Code::Unknown,
            Self::Denied { .. } | Self::Rejected { .. } => Code::PermissionDenied,
            Self::Missing { .. } => Code::FailedPrecondition,
            Self::Deadline { .. } => Code::DeadlineExceeded,
            Self::Busy { .. } => Code::ResourceExhausted,
            Self::Shutdown => Code::Unavailable,
        }
    }
}

/// Why an adaptation does not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdaptationError {
    /// A built-in plugin has no valid name.
    #[error("built-in plugin {index:?} {name:?} has no valid name")]
    BuiltinName {
        /// The index given.
        index: String,
        /// The name given.
        name: String,
        /// What is wrong.
        #[source]
        source: InvalidName,
    },
    /// A built-in plugin did not take its configuration.
    #[error("built-in plugin {plugin:?} could not be configured: {failure}")]
    Builtin {
        /// Full name of the plugin.
        plugin: String,
        /// How.
        #[source]
        failure: CallFailure,
    },
    /// Plugins that are to be launched cannot be found.
    #[error("plugins cannot be launched: {source}")]
    Launch {
        /// What is wrong.
        #[from]
        source: LaunchError,
    },
    /// There is no socket for external plugins.
    #[error("there is no socket for external plugins: {source}")]
    Socket {
        /// What is wrong.
        #[from]
        source: SocketError,
    },
    /// The runtime has no snapshot.
    #[error("there is no snapshot of pods and containers to start with")]
    Snapshot {
        /// What the runtime says.
        #[source]
        source: RuntimeError,
    },
}

/// An error with its causes on one line; a cause that is quoted already is left out.
pub(crate) fn chain(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    // As many as an error has when it was made with reason.
    causes.take(32).fold(error.to_string(), |line, cause| {
        let text = cause.to_string();
        match line.contains(&text) {
            true => line,
            false => format!("{line}: {text}"),
        }
    })
}
