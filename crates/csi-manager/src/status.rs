//! What the manager tells about its plugins; always answered from memory.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use longshore_csi_probe::{ApiVersion, PluginDetails};
use longshore_paths::{ContainerId, Service};

/// All plugins, and what the manager as a whole is doing.
#[derive(Clone, Debug, Default)]
pub struct ManagerStatus {
    /// Grows by one with every change of anything below.
    pub generation: u64,
    /// False until the first recovery is done; plugins are not touched before.
    pub recovered: bool,
    /// Why recovery waits (the agent does not answer, ...), and since when.
    pub waiting: Option<Waiting>,
    /// By the operator's name.
    pub plugins: BTreeMap<String, Arc<PluginStatus>>,
    /// How many damaged records this manager has set aside so far.
    pub set_aside: u64,
    /// Containers whose id is one of ours and that nothing explains: reported, never killed. Looked for
    /// all the time.
    pub strays: Vec<Stray>,
    /// Paths among the records that are none of ours, as recovery found them: left alone.
    pub foreign: Vec<Foreign>,
}

/// Something that has been waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// What is missing.
    pub reason: String,
    /// Since when.
    pub since: SystemTime,
}

/// A container that nothing explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stray {
    /// Its id at the agent.
    pub id: String,
    /// Why it is left alone.
    pub reason: String,
}

/// A path that nothing explains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Foreign {
    /// The file or directory.
    pub path: PathBuf,
    /// Why it is left alone.
    pub reason: String,
}

/// The state of a plugin: that of its least ready container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PluginState {
    /// Every wanted service answers.
    Ready,
    /// Nobody has asked for it yet (lazy start).
    #[default]
    Idle,
    /// Stopped by request.
    Stopped,
    /// Being stopped.
    Stopping,
    /// Being launched; its socket does not answer yet.
    Starting,
    /// It answered once and does not now.
    Unhealthy,
    /// It ended; the next start is at `next_retry`.
    Backoff,
    /// It failed too often or was refused; retried slowly, at `next_retry`.
    Failing,
}

impl PluginState {
    /// All states, in the order of their numbers on disk; new ones go to the end.
    const ALL: [Self; 8] = [
        Self::Idle,
        Self::Ready,
        Self::Stopped,
        Self::Stopping,
        Self::Starting,
        Self::Unhealthy,
        Self::Backoff,
        Self::Failing,
    ];

    /// Its number in records.
    pub(crate) fn number(self) -> u8 {
        let at = Self::ALL.iter().position(|state| *state == self);
        at.and_then(|at| u8::try_from(at).ok()).unwrap_or(0)
    }

    /// The state of a number; unknown ones (of a newer release) are idle.
    pub(crate) fn from_number(number: u8) -> Self {
        Self::ALL
            .get(usize::from(number))
            .copied()
            .unwrap_or_default()
    }

    /// Lower-case name, as shown to operators.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Idle => "idle",
            Self::Stopped => "stopped",
            Self::Stopping => "stopping",
            Self::Starting => "starting",
            Self::Unhealthy => "unhealthy",
            Self::Backoff => "backoff",
            Self::Failing => "failing",
        }
    }
}

/// One plugin.
#[derive(Clone, Debug)]
pub struct PluginStatus {
    /// The operator's name.
    pub name: String,
    /// `CSIPluginInfo.type`.
    pub plugin_type: String,
    /// `CSIPluginInfo.name`.
    pub plugin_name: String,
    /// Run by us, or only watched.
    pub managed: bool,
    /// The state of the least ready container.
    pub state: PluginState,
    /// Why it is in that state; empty when there is nothing to say.
    pub reason: String,
    /// In this state since.
    pub since: SystemTime,
    /// When it is tried again.
    pub next_retry: Option<SystemTime>,
    /// Grows by one with every change of this plugin.
    pub generation: u64,
    /// A change or removal that waits for a mount to go, or for `force`.
    pub kept: Option<String>,
    /// Its containers; empty for an unmanaged plugin.
    pub containers: Vec<ContainerState>,
    /// The endpoint of each wanted service.
    pub endpoints: BTreeMap<Service, EndpointState>,
    /// The CSI version that it speaks, once known; fixed within one configuration.
    pub version: Option<ApiVersion>,
    /// What it says about itself, once asked.
    pub details: Option<Arc<PluginDetails>>,
    /// Times that a container of it was started again, for whatever reason; kept across restarts of the
    /// supervisor.
    pub restarts: u64,
    /// The last 20 transitions, oldest first; kept across restarts of the supervisor.
    pub history: Vec<Transition>,
    /// Mount points below its mount root.
    pub mounts: Vec<PathBuf>,
    /// The last stderr lines, taken at the last failure.
    pub stderr: Vec<String>,
    /// Counters since this manager started.
    pub metrics: Metrics,
}

/// One container of a managed plugin.
#[derive(Clone, Debug)]
pub struct ContainerState {
    /// Its id at the agent.
    pub id: ContainerId,
    /// The services that it offers.
    pub services: Vec<Service>,
    /// Its own state.
    pub state: PluginState,
    /// Why.
    pub reason: String,
    /// The pid that the agent reported, when known.
    pub pid: Option<u32>,
    /// Its socket.
    pub socket: PathBuf,
    /// How it last ended; kept across restarts of the supervisor.
    pub last_exit: Option<LastExit>,
    /// Runs so far, those under earlier supervisors included.
    pub runs: u64,
}

/// How a container ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastExit {
    /// When that became known.
    pub at: SystemTime,
    /// Raw wait(2) status; `None` when the agent no longer knew.
    pub status: Option<i32>,
    /// In words: `exit 3`, `signal 9`, `unknown`, with the agent's reason and message.
    pub text: String,
}

/// One entry of a plugin's history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transition {
    /// When.
    pub at: SystemTime,
    /// Left.
    pub from: PluginState,
    /// Entered.
    pub to: PluginState,
    /// Why.
    pub reason: String,
    /// Raw wait(2) status, where a container ended.
    pub exit_status: Option<i32>,
    /// The last stderr lines, where something failed.
    pub stderr: Vec<String>,
}

/// What Mesos counts below `csi_plugin/` (a whole probe is one RPC, and so is one description).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// `container_terminations`.
    pub container_terminations: u64,
    /// `rpcs_pending`, a gauge.
    pub rpcs_pending: u64,
    /// `rpcs_finished`.
    pub rpcs_finished: u64,
    /// `rpcs_failed`.
    pub rpcs_failed: u64,
    /// `rpcs_cancelled`.
    pub rpcs_cancelled: u64,
}

/// An endpoint as its watchers see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndpointState {
    /// Grows by one with every change; a new generation with the same URI is a new process.
    pub generation: u64,
    /// The endpoint while it answers.
    pub ready: Option<ReadyEndpoint>,
    /// Why there is none.
    pub reason: String,
}

impl Default for EndpointState {
    fn default() -> Self {
        Self {
            generation: 0,
            ready: None,
            reason: "not asked for yet".to_owned(),
        }
    }
}

/// An endpoint that has been probed and answered.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReadyEndpoint {
    /// `unix:///...`, or what the configuration of an unmanaged plugin says.
    pub uri: String,
    /// The version it speaks.
    pub version: ApiVersion,
}
