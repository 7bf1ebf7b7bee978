//! What the manager needs from its owner.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use longshore_agent_client::AgentClient;
use longshore_paths::{ContainerId, InstanceId, RuntimeDir, StateRoot};

use crate::host::{HostView, ProcHost};

/// Reads the last lines that a container wrote to stderr.
///
/// The embedded agent's sandboxes are on this machine, a real agent's may not be; so the owner of
/// the manager says where they are, or gives none. Called on a blocking thread.
pub trait LogReader: Send + Sync + 'static {
    /// At most `lines` last lines of the stderr of `container`, oldest first; empty when unknown.
    /// Implementations read a bounded tail, whatever the size of the file.
    fn stderr_tail(&self, container: &ContainerId, lines: usize) -> Vec<String>;

    /// `container` is about to be launched: what its stderr holds now is of an earlier run, and no
    /// longer told. Does nothing unless implemented.
    fn begins(&self, container: &ContainerId) {
        let _ = container;
    }
}

/// The surroundings of a [`CsiManager`](crate::CsiManager).
///
/// The manager locks nothing: whoever starts it holds the lock of `state`.
#[derive(Clone)]
pub struct ManagerOptions {
    /// The state directory: records, mount roots, history.
    pub state: StateRoot,
    /// Where the sockets live; only we may write there.
    pub runtime: RuntimeDir,
    /// The id of this root; part of every container id.
    pub instance: InstanceId,
    /// The agent that runs the containers.
    pub agent: AgentClient,
    /// `MESOS_AGENT_ID` of plugins with `NODE_SERVICE`; `None` asks the agent, and uses an id
    /// made from the root's instance id when the agent has none.
    pub agent_id: Option<String>,
    /// Start every configured service at once (the daemon), or only when somebody asks for an
    /// endpoint (the library).
    pub eager: bool,
    /// Where to find the last stderr lines of a container.
    pub logs: Option<Arc<dyn LogReader>>,
    /// Processes and mounts of this machine; replaced in tests.
    pub host: Arc<dyn HostView>,
}

impl ManagerOptions {
    /// Options with lazy start, no log reader and this machine's `/proc`.
    #[must_use]
    pub fn new(
        state: StateRoot,
        runtime: RuntimeDir,
        instance: InstanceId,
        agent: AgentClient,
    ) -> Self {
        Self {
            state,
            runtime,
            instance,
            agent,
            agent_id: None,
            eager: false,
            logs: None,
            host: Arc::new(ProcHost::new(PathBuf::from("/proc"))),
        }
    }
}

impl fmt::Debug for ManagerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManagerOptions")
            .field("state", &self.state)
            .field("runtime", &self.runtime)
            .field("instance", &self.instance)
            .field("eager", &self.eager)
            .finish_non_exhaustive()
    }
}
