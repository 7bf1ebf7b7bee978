//! A supervisor within this process, for `demo` and `csi run`: everything below one temporary
//! root, and nothing left of it in the end: no process, no mount, no file. Of one that is killed no
//! process is left either: its shims end with it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use longshore_agent::{Agent, AgentOptions};
use longshore_agent_client::{AgentClient, AgentClientConfig, AgentEndpoint};
use longshore_csi_manager::{CsiManager, ManagerOptions, PluginConfig};
use longshore_paths::{InstanceId, RuntimeDir, StateRoot};

use crate::signals::Interrupts;
use crate::temp_root::{TempRoot, unmount_below};
use crate::verbs::daemon::program;
use crate::verbs::runtime;

/// How long stopping may take before processes are killed, then until they are gone, and then until
/// nothing works in the root any more.
const STOP: Duration = Duration::from_secs(5);

/// Runs `work` with a root of its own, which it must leave without a process, and with the signals that
/// are to end it. In the end the root is removed, whatever `work` says.
pub(crate) fn in_temp_root<T>(
    work: impl AsyncFnOnce(PathBuf, Interrupts) -> Result<T>,
) -> Result<T> {
    let runtime = runtime()?;
    let (root, outcome) = {
        let _within = runtime.enter();
        // The signals first: from here on there is something to clean up.
        let interrupts = Interrupts::new().context("cannot handle signals")?;
        let root = TempRoot::new("longshore-")?;
        let work = Box::pin(work(root.path().to_owned(), interrupts));
        (root, runtime.block_on(work))
    };
    // What was just being written on another thread is written first, or the root would come back.
    runtime.shutdown_timeout(STOP);
    let removed = root.remove().context("cleaning up failed");
    let outcome = outcome?;
    removed?;
    Ok(outcome)
}

/// A running supervisor with its own root.
#[derive(Debug)]
pub(crate) struct Local {
    root: PathBuf,
    agent: Agent,
    pub(crate) manager: CsiManager,
    pub(crate) state: StateRoot,
}

impl Local {
    /// Starts an agent and a manager below `root`, with every service of `plugins` started.
    pub(crate) async fn start(root: &Path, plugins: Vec<PluginConfig>) -> Result<Self> {
        let state = StateRoot::new(root.join("s"));
        let runtime = RuntimeDir::new(root.join("r"));
        for dir in [state.path(), runtime.path()] {
            private_dir(dir)?;
        }
        let mut options = AgentOptions::new(
            state.agent_dir(),
            runtime.agent_dir(),
            runtime.agent_socket(),
            program()?.shim,
        );
        // A person's own limits hold; there is nothing here to limit.
        options.cgroups = false;
        options.leash = true;
        let agent = Agent::start(options)
            .await
            .context("the embedded agent cannot start")?;
        let client = AgentClient::new(AgentClientConfig::new(AgentEndpoint::unix(
            runtime.agent_socket(),
        )))?;
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).context("cannot draw random bytes")?;
        let mut options = ManagerOptions::new(
            state.clone(),
            runtime,
            InstanceId::from_bytes(bytes),
            client,
        );
        options.eager = true;
        match CsiManager::spawn(options, plugins) {
            Ok(manager) => Ok(Self {
                root: root.to_owned(),
                agent,
                manager,
                state,
            }),
            Err(error) => {
                agent.shutdown().await;
                Err(error.into())
            }
        }
    }

    /// Stops everything.
    ///
    /// # Errors
    /// Something could not be stopped; it is named, and the rest is gone.
    pub(crate) async fn end(self) -> Result<()> {
        // What does not stop by itself is killed below.
        let stopped = tokio::time::timeout(STOP, self.manager.stop_all()).await;
        tracing::debug!(?stopped, "stopped");
        let left = self.agent.end_all(STOP).await;
        unmount_below(&self.root)?;
        if let Some(id) = left.first() {
            bail!("the container {id} does not end");
        }
        Ok(())
    }
}

pub(crate) fn private_dir(path: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    std::fs::DirBuilder::new()
        .mode(0o700)
        .create(path)
        .with_context(|| format!("cannot create {}", path.display()))
}
