//! What a trunk is made of, and its bounds.

use std::time::Duration;

/// How a stream is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Layout {
    /// Plain ttrpc; this end asks, the other end answers.
    Client,
    /// Plain ttrpc; the other end asks, this end answers.
    Server,
    /// Two connections of the multiplexer, one in each direction. Frames of other connections
    /// are dropped and counted.
    Mux {
        /// The connection on which this end asks.
        client: u32,
        /// The connection on which this end answers.
        server: u32,
    },
}

/// Bounds of one trunk. The defaults suit NRI.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// The most calls of this end without an answer; further ones wait. 1 or more, 64 by default:
    /// peers written in Go reset the trunk when 256 frames wait unread.
    pub calls_in_flight: usize,
    /// The most requests of the peer that are handled at once; further ones are answered with
    /// status 8. 1 or more, 64 by default.
    pub requests_in_flight: usize,
    /// Calls wait while more than this many bytes wait to be written, and nothing is read while
    /// more than this many bytes of answers do. 8 MiB by default.
    pub queued_bytes: usize,
    /// The largest request that is accepted, in bytes; at most [`crate::MAX_DATA`], which is the
    /// default. Can be changed later: [`crate::Client::set_request_limit`]. While it is lower, a
    /// frame of the multiplexer may hold four times as much (at least 64 KiB), and a larger one
    /// closes the trunk.
    pub request_limit: usize,
    /// The trunk is closed when the peer has read nothing for this long although there is
    /// something to write. 10 s by default.
    pub write_stall: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            calls_in_flight: 64,
            requests_in_flight: 64,
            queued_bytes: 8 << 20,
            request_limit: crate::MAX_DATA,
            write_stall: Duration::from_secs(10),
        }
    }
}
