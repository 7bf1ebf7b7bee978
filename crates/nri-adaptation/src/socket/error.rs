//! What can go wrong with the socket.

use std::io;
use std::path::PathBuf;

/// Why there is no socket, or no longer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SocketError {
    /// The path cannot name a socket.
    #[error("{path:?} cannot be the path of a socket: {problem}")]
    Path {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// The path does not fit a socket address.
    #[error("the socket path {path:?} has {length} bytes, at most {max} fit; choose a shorter one")]
    PathLength {
        /// The path.
        path: PathBuf,
        /// Its length in bytes.
        length: usize,
        /// The most that fit.
        max: usize,
    },
    /// The mode has bits beside the permissions.
    #[error("{mode:#o} is no mode for the socket {path:?}, at most 0o777 is")]
    Mode {
        /// The path of the socket.
        path: PathBuf,
        /// The mode.
        mode: u32,
    },
    /// The directory cannot be made or opened.
    #[error("cannot use the socket directory {path:?}")]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// Somebody else could plant a socket in the directory.
    #[error(
        "the socket directory {path:?} {problem}; use one that only the runtime's user can write"
    )]
    DirectoryOpen {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Another runtime holds the lock or answers at the socket.
    #[error(
        "another runtime serves {path:?}; stop it or choose another path, it is not taken away"
    )]
    InUse {
        /// The path of the socket.
        path: PathBuf,
    },
    /// Something that is no socket lies at the path.
    #[error("{path:?} is a {kind}, not a socket; it is left alone, remove it yourself")]
    NotASocket {
        /// The path of the socket or of its lock.
        path: PathBuf,
        /// What it is.
        kind: &'static str,
    },
    /// The system refuses to bind or to listen.
    #[error("cannot {doing} the socket {path:?}")]
    Bind {
        /// The path.
        path: PathBuf,
        /// What was tried.
        doing: &'static str,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The system refuses to accept connections, for good.
    #[error("cannot accept connections at {path:?}")]
    Accept {
        /// The path.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}
