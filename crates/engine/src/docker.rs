//! The Docker Engine API over a Unix socket.

mod answers;
mod body;
mod calls;
mod config;
mod create;
pub(crate) mod events;
mod http;
mod images;
mod info;
mod lines;
pub(crate) mod logs;
mod pull;
mod verbatim;
mod wire;

use std::path::Path;
use std::sync::Arc;

pub use config::{Deadlines, DockerConfig};

use crate::pull::Pulls;
use http::Http;

/// An engine that speaks the Docker Engine API on a Unix socket: Docker from 20.10, Podman.
///
/// Each call has a connection of its own (it costs some 50 µs on a local socket): a restart of the
/// engine leaves no half-dead connection behind, and a call that is dropped is seen to be by the
/// engine. Cloning is cheap; clones share their pulls.
#[derive(Debug, Clone)]
pub struct DockerEngine {
    http: Arc<Http>,
    pulls: Arc<Pulls>,
    config: Arc<DockerConfig>,
}

impl DockerEngine {
    /// An engine at the address of `config`. Nothing is connected yet; the API version is negotiated with the first call, and
    /// again when the engine has been away.
    #[must_use]
    pub fn new(config: DockerConfig) -> Self {
        Self {
            http: Arc::new(Http::new(
                config.endpoint.socket().to_path_buf(),
                config.deadlines,
            )),
            pulls: Arc::default(),
            config: Arc::new(config),
        }
    }

    /// The socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        self.config.endpoint.socket()
    }
}
