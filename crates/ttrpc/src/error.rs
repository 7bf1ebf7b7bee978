//! Why a call or a trunk ended.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::status::Status;

/// Why a call has no answer.
///
/// A caller can tell apart what says something about the peer ([`Self::Closed`],
/// [`Self::Timeout`], [`Self::Protocol`]) from what the peer's handler said ([`Self::Remote`]) and
/// from what never left this process ([`Self::Oversized`]).
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The trunk is closed, or closed while the answer was awaited.
    #[error("the connection is closed: {0}")]
    Closed(CloseReason),
    /// No answer within the deadline. The connection is unharmed; an answer that comes later is
    /// dropped.
    #[error("no answer within {0:?}")]
    Timeout(Duration),
    /// The request is larger than a message may be. Nothing was sent.
    #[error("a request of {length} bytes, at most {max} may be sent")]
    Oversized {
        /// Length of the encoded request, in bytes.
        length: usize,
        /// The limit, in bytes.
        max: usize,
    },
    /// The peer broke the protocol in its answer to this call.
    #[error("a malformed answer: {0}")]
    Protocol(String),
    /// The peer answered with a failure.
    #[error("{0}")]
    Remote(Status),
}

/// Why a trunk was closed; the first reason stays.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CloseReason {
    /// The peer closed its end.
    #[error("the peer closed the connection")]
    PeerClosed,
    /// This end closed it.
    #[error("closed by this end: {0}")]
    Local(Arc<str>),
    /// Reading or writing failed.
    #[error("{operation} failed: {source}")]
    Io {
        /// `reading` or `writing`.
        operation: &'static str,
        /// The error of the system.
        #[source]
        source: Arc<io::Error>,
    },
    /// A frame of the multiplexer announces more than one may hold.
    #[error("a frame of {length} bytes on connection {connection}, at most {max} are allowed")]
    FrameTooLarge {
        /// The connection within the trunk.
        connection: u32,
        /// What the header says, in bytes.
        length: usize,
        /// The limit, in bytes.
        max: usize,
    },
    /// The peer ended in the middle of a frame.
    #[error("the peer closed the connection in the middle of a frame")]
    HalfFrame,
    /// The peer does not read: nothing could be written for this long.
    #[error("the peer has not read anything for {0:?}")]
    WriteStalled(Duration),
}

impl From<CloseReason> for CallError {
    fn from(reason: CloseReason) -> Self {
        Self::Closed(reason)
    }
}
