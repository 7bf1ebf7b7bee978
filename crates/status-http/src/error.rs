//! What can go wrong before anybody is answered.

use std::io;
use std::net::SocketAddr;

/// Why nothing is served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StatusHttpError {
    /// The text is no address to listen on.
    #[error(
        "`{text}` is no address: {reason}; write \"9273\", \":9273\", \"127.0.0.1:9273\" or \"[::1]:9273\""
    )]
    Address {
        /// What was given.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address} for metrics and the status page")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}
