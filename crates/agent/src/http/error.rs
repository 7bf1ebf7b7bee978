//! What can keep the HTTP front from starting.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Why the agent API is not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The socket's directory cannot be made or opened.
    #[error("cannot use {} as the directory of the agent socket", path.display())]
    SocketDirectory {
        /// The directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Somebody else owns, or may enter, the socket's directory.
    #[error("the directory of the agent socket, {}, {problem}; it must be a directory of this user with mode 0700", path.display())]
    SocketDirectoryOpen {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The path of the socket cannot be bound at all (empty, no file name, too long).
    #[error("{} cannot be a socket path: {problem}", path.display())]
    SocketPath {
        /// The path.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// Something that is not a socket lies where the socket goes; it is left alone.
    #[error("{} is in the way: it is a {kind}, not a socket; move it away", path.display())]
    NotASocket {
        /// The path of the socket.
        path: PathBuf,
        /// What lies there.
        kind: &'static str,
    },
    /// Another server answers on the socket.
    #[error("another server is listening on {}; stop it first", path.display())]
    SocketInUse {
        /// The path of the socket.
        path: PathBuf,
    },
    /// Another server is starting in the same directory, or somebody holds its lock.
    #[error("another server is starting on {}, or a process holds the lock of its directory", path.display())]
    SocketStarting {
        /// The path of the socket.
        path: PathBuf,
    },
    /// The Unix socket cannot be bound.
    #[error("cannot listen on {}", path.display())]
    BindUnix {
        /// The path of the socket.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The TCP address cannot be bound.
    #[error("cannot listen on {address}")]
    BindTcp {
        /// The address.
        address: SocketAddr,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The token file cannot be read.
    #[error("cannot read the token file {}", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The token file is readable by others, or does not hold a token that is long enough.
    #[error("the token file {} {problem}", path.display())]
    Token {
        /// The file.
        path: PathBuf,
        /// What is wrong with it and how to make a good one. Never the token.
        problem: String,
    },
    /// A TCP listener that others can reach was asked for without TLS.
    #[error(
        "{address} can be reached from other machines: set a certificate and a key, or listen on 127.0.0.1"
    )]
    TlsRequired {
        /// The address.
        address: SocketAddr,
    },
    /// TLS was configured in a build that has none.
    #[error("TLS for {address} is not in this build: build with the feature `tls`")]
    TlsNotBuilt {
        /// The address.
        address: SocketAddr,
    },
    /// The certificate or the key cannot be used.
    #[error("cannot use {} for TLS: {problem}", path.display())]
    TlsFile {
        /// The certificate or key file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}
