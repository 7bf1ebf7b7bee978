//! An agent's API, for the `container` verbs.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use longshore_agent_client::{
    AgentClient, AgentClientConfig, AgentEndpoint, AgentError, Credentials, RetryPolicy,
};

use crate::control::DaemonArgs;
use crate::fault::{Exit, Fault};

/// Which agent is meant.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct AgentArgs {
    /// The agent: http://HOST:PORT/api/v1, https://... or unix:///PATH [default: the daemon's
    /// embedded agent].
    #[arg(long, value_name = "URL")]
    agent: Option<String>,
    /// A file with the bearer token for the agent.
    #[arg(long, value_name = "FILE", requires = "agent")]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    daemon: DaemonArgs,
}

impl AgentArgs {
    /// A client that tells a failure at once instead of trying again.
    pub(crate) fn client(&self) -> Result<AgentClient> {
        let endpoint = match &self.agent {
            Some(url) => url.parse::<AgentEndpoint>().context("--agent")?,
            None => {
                let socket = self.daemon.runtime()?.agent_socket();
                if !socket.exists() {
                    let at = socket.display();
                    return Err(
                        Fault::new(Exit::NoDaemon, format!("no agent answers at {at}"))
                            .hint("start `longshore daemon`, name its configuration with --config FILE, or an agent with --agent")
                            .into(),
                    );
                }
                AgentEndpoint::unix(socket)
            }
        };
        let mut config = AgentClientConfig::new(endpoint);
        config.retry = RetryPolicy::never();
        if let Some(file) = &self.token_file {
            config.credentials = Credentials::BearerFile(file.clone());
        }
        Ok(AgentClient::new(config)?)
    }

    /// What a failed call means; nobody listening on the default socket is "no daemon".
    pub(crate) fn failed(&self, error: AgentError) -> anyhow::Error {
        if self.agent.is_none() && matches!(error, AgentError::Connect { .. }) {
            let text = crate::fault::chain(&error.into());
            return Fault::new(Exit::NoDaemon, text)
                .hint("start `longshore daemon`, name its configuration with --config FILE, or an agent with --agent")
                .into();
        }
        error.into()
    }
}
