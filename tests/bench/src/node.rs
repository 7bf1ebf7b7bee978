//! The embedded agent with its client, in this process, below one directory.

use std::env;
use std::path::{Path, PathBuf};

use longshore_agent::{Agent, AgentOptions, ShimCommand};
use longshore_agent_client::{AgentClient, AgentClientConfig, AgentEndpoint};

use crate::Failure;

/// A running agent.
#[derive(Debug)]
pub struct Node {
    agent: Agent,
    socket: PathBuf,
}

impl Node {
    /// Starts an agent below `root`, with the shim that the `longshore` binary would use.
    ///
    /// # Errors
    /// What the agent says; a binary that is not there.
    pub async fn start(root: &Path) -> Result<Self, Failure> {
        let socket = socket(root);
        let shim = ShimCommand::new(shim()?, ["shim"]);
        let options = AgentOptions::new(root.join("agent"), root.join("run"), &socket, shim);
        Ok(Self {
            agent: Agent::start(options).await?,
            socket,
        })
    }

    /// A client of it.
    ///
    /// # Errors
    /// What the client says.
    pub fn client(&self) -> Result<AgentClient, Failure> {
        client(&self.socket)
    }

    /// Stops serving; containers live on.
    pub async fn stop(self) {
        self.agent.shutdown().await;
    }
}

/// Where an agent below `root` listens.
#[must_use]
pub fn socket(root: &Path) -> PathBuf {
    root.join("a/agent.sock")
}

/// A client of the agent that listens on `socket`.
///
/// # Errors
/// What the client says.
pub fn client(socket: &Path) -> Result<AgentClient, Failure> {
    Ok(AgentClient::new(AgentClientConfig::new(
        AgentEndpoint::unix(socket),
    ))?)
}

/// The release binary: `LONGSHORE_BIN`, else beside this program.
///
/// # Errors
/// When there is none; says how to build it.
pub fn longshore() -> Result<PathBuf, Failure> {
    let path = match env::var_os("LONGSHORE_BIN") {
        Some(path) => PathBuf::from(path),
        None => env::current_exe()?.with_file_name("longshore"),
    };
    if path.is_file() {
        return Ok(path);
    }
    Err(format!(
        "{}: not there; run `cargo xtask bench`, which builds it",
        path.display()
    )
    .into())
}

/// The parent of containers: the small one, where it lies beside the release binary.
///
/// # Errors
/// As [`longshore`].
pub fn shim() -> Result<PathBuf, Failure> {
    let longshore = longshore()?;
    let small = longshore.with_file_name("longshore-shim");
    Ok(if small.is_file() { small } else { longshore })
}
