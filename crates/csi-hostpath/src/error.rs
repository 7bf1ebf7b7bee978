//! Why the driver cannot serve, and why it cannot do a call.

use std::{io, path::PathBuf};

use longshore_checkpoint::CheckpointError;
use longshore_csi_probe::Endpoint;
use tonic::Status;

/// Why the driver cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostPathError {
    /// It listens on Unix sockets only.
    #[error("{endpoint} is no Unix socket: the driver listens on unix:///path only")]
    NotUnix {
        /// The endpoint.
        endpoint: Endpoint,
    },
    /// Something else is where the socket goes.
    #[error("{path:?} exists and is no socket: remove it or choose another endpoint")]
    InTheWay {
        /// The path.
        path: PathBuf,
    },
    /// The socket cannot be made.
    #[error("cannot listen on {path:?}")]
    Listen {
        /// The path.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The state directory cannot be used.
    #[error("cannot use the state directory {path:?}")]
    State {
        /// The directory.
        path: PathBuf,
        /// The system's answer.
        #[source]
        source: io::Error,
    },
    /// The server ended.
    #[error("serving on {path:?} ended")]
    Serve {
        /// The socket's path.
        path: PathBuf,
        /// Why.
        #[source]
        source: tonic::transport::Error,
    },
}

/// An I/O failure of a call, with what was done to which path.
pub(crate) fn io_status(what: &str, path: &std::path::Path, error: &io::Error) -> Status {
    let text = format!("cannot {what} {}: {error}", path.display());
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            Status::resource_exhausted(text)
        }
        io::ErrorKind::ResourceBusy => Status::failed_precondition(text),
        _ => Status::internal(text),
    }
}

/// A record that could not be read or written; the error names it.
pub(crate) fn record_status(error: &CheckpointError) -> Status {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    if error.is_no_space() {
        Status::resource_exhausted(text)
    } else {
        Status::internal(text)
    }
}
