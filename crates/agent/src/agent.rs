//! The agent as a whole: containers behind an HTTP front.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::containers::Containers;
use crate::error::AgentError;
use crate::http::{HttpServer, Listeners};
use crate::options::AgentOptions;

/// A running agent. Dropping it ends its tasks and connections at once, [`shutdown`](Self::shutdown)
/// in good order; the containers live on in both cases and are taken over by the next start.
#[derive(Debug)]
pub struct Agent {
    containers: Containers,
    server: HttpServer,
}

impl Agent {
    /// Takes over the containers in `options.run_dir`, then serves the API. Needs a tokio runtime
    /// with time and I/O; cancelling it leaves nothing running.
    ///
    /// # Errors
    /// When a listener would be unsafe or cannot be bound, a directory cannot be made, or another
    /// agent uses the run directory.
    pub async fn start(options: AgentOptions) -> Result<Self, AgentError> {
        // Bound first: clients wait in the queue for the recovery instead of being refused.
        let listeners = Listeners::bind(&options.socket, options.tcp.as_ref()).await?;
        let containers = Containers::start(&options).await?;
        let service = Arc::new(containers.clone());
        let server = HttpServer::start(listeners, service, options.agent_id, options.http);
        Ok(Self { containers, server })
    }

    /// The containers themselves, without HTTP.
    #[must_use]
    pub fn containers(&self) -> &Containers {
        &self.containers
    }

    /// The address of the TCP listener, if there is one, with the port that was chosen for port 0.
    #[must_use]
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        self.server.tcp_address()
    }

    /// Stops serving and watching; leaves the containers running.
    pub async fn shutdown(self) {
        self.server.shutdown().await;
        self.containers.shutdown().await;
    }
}
