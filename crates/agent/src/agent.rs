//! The agent as a whole: containers behind an HTTP front.

use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use longshore_checkpoint::{CheckpointError, Durability, Recovered, Writer};
use longshore_paths::ContainerId;

use crate::containers::{Containers, take_lock};
use crate::error::AgentError;
use crate::http::{HttpServer, Listeners};
use crate::options::AgentOptions;
use crate::record::{AGENT_ID, AgentIdRecord};

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
        let lock = take_lock(&options.run_dir).await?;
        // Bound first: clients wait in the queue for the recovery instead of being refused.
        let (socket, tcp) = (&options.socket, options.tcp.as_ref());
        let listeners = Listeners::bind_under(socket, tcp, Some(Arc::clone(&lock))).await?;
        let containers = Containers::start_under(&options, lock).await?;
        let agent_id = match options.agent_id {
            Some(id) => id,
            None => kept_id(options.state_dir).await?,
        };
        let service = Arc::new(containers.clone());
        let server = HttpServer::start(listeners, service, agent_id, options.http);
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

    /// Looks whether the run directory and the socket are where they were, and makes again what is gone. For a
    /// program that looks now and then: somebody may remove what should have been left alone.
    ///
    /// # Errors
    /// What is gone cannot be made again safely: it is not ours, or another agent has it. Another look may do.
    pub async fn look(&self) -> Result<(), AgentError> {
        let lock = self.containers.look().await?;
        Ok(self.server.look(lock).await?)
    }

    /// The directories from which something may be removed that [`Agent::look`] makes again, for a program that has
    /// them watched.
    #[must_use]
    pub fn watched_dirs(&self) -> Vec<PathBuf> {
        self.containers.watched_dirs()
    }

    /// Stops serving, and kills what runs. Waits at most `patience` for its end, and gives the ids of the
    /// containers that live then.
    pub async fn end_all(self, patience: Duration) -> Vec<ContainerId> {
        self.server.shutdown().await;
        let left = self.containers.end_all(patience).await;
        self.containers.shutdown().await;
        left
    }

    /// Stops serving and watching; leaves the containers running.
    pub async fn shutdown(self) {
        self.server.shutdown().await;
        self.containers.shutdown().await;
    }
}

/// The id in the state directory; one is drawn and written when there is none.
async fn kept_id(state_dir: PathBuf) -> Result<String, AgentError> {
    let path = state_dir.join(AGENT_ID);
    let file = path.clone();
    let read_or_drawn = tokio::task::spawn_blocking(move || read_or_draw_id(&file));
    read_or_drawn
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)))
        .map_err(|source| AgentError::Io {
            action: "read or make the agent's id in",
            path,
            source,
        })
}

fn read_or_draw_id(path: &Path) -> io::Result<String> {
    let failed = |error: CheckpointError| io::Error::other(error);
    let damaged = match longshore_checkpoint::recover::<AgentIdRecord>(path).map_err(failed)? {
        Recovered::Record(record) => return Ok(record.id),
        Recovered::Nothing => None,
        Recovered::Quarantined { damage, .. } => Some(damage),
        Recovered::Newer { damage } => return Err(io::Error::other(damage)),
    };
    if let Some(damage) = damaged {
        tracing::warn!(path = %path.display(), %damage, "the agent's id was damaged; it gets another one");
    }
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    let id = format!("longshore-{:016x}", u64::from_ne_bytes(random));
    let record = AgentIdRecord { id: id.clone() };
    Writer::new()
        .write(path, &record, Durability::Power)
        .map_err(failed)?;
    Ok(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_random_and_kept_and_a_damaged_one_set_aside() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(AGENT_ID);
        let id = read_or_draw_id(&path).unwrap();
        assert_eq!(read_or_draw_id(&path).unwrap(), id);
        let elsewhere = dir.path().join("elsewhere").join(AGENT_ID);
        assert_ne!(read_or_draw_id(&elsewhere).unwrap(), id);
        std::fs::write(&path, "garbage").unwrap();
        assert_ne!(read_or_draw_id(&path).unwrap(), id);
        let aside = path.with_extension("id.corrupt-1");
        assert_eq!(std::fs::read(aside).unwrap(), b"garbage");
    }
}
