//! What is written about a container, all of it process-durable: none of it outlives a reboot, so
//! none of it is synced, and each record carries the boot it belongs to.
//!
//! ```text
//!  <run_dir>/containers/<name>@<launch>/
//!      container      ContainerRecord: the intent, written by the agent before the shim exists
//!      run/           a directory whose flock(2) the shim holds as long as it lives
//!          pid        PidRecord: written by the shim before the command is executed
//!          exit       ExitRecord: written by the shim once the whole tree is down
//! ```
//!
//! What the files and the lock say together:
//!
//! | lock | `pid` | `exit` | the container |
//! |---|---|---|---|
//! | held | no | no | is being started |
//! | held | yes | no | runs |
//! | any | any | yes | has ended |
//! | free | yes | no | lost its shim |
//! | free | no | no | never started |

use std::path::PathBuf;

use longshore_checkpoint::{CodecError, Record};
use serde::{Deserialize, Serialize};

use crate::process::ProcessId;
use crate::service::{ExitInfo, ExitReason};

#[cfg(test)]
mod tests;

/// The file of the [`ContainerRecord`].
pub(crate) const CONTAINER: &str = "container";
/// The directory of the shim's records.
pub(crate) const RUN: &str = "run";
/// The file of the [`PidRecord`].
pub(crate) const PID: &str = "pid";
/// The file of the [`ExitRecord`].
pub(crate) const EXIT: &str = "exit";

/// The file of the [`AgentIdRecord`], in the state directory.
pub(crate) const AGENT_ID: &str = "agent.id";

/// The agent's own id, drawn once. Unlike the others it is power-durable: a changed id is another
/// agent to whoever asks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AgentIdRecord {
    pub id: String,
}

/// The intent: everything that the shim needs, and everything that the agent must know again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct ContainerRecord {
    /// The container id, parents first.
    pub id: Vec<String>,
    /// The boot in which it was launched.
    pub boot_id: String,
    /// When it was launched, in milliseconds since the epoch.
    pub launched_ms: u64,
    /// What the shim does.
    pub spec: Spec,
    /// What the agent answers about it.
    pub facts: Facts,
}

/// What the agent tells about a container.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Facts {
    pub cpus: Option<f64>,
    pub cpus_limit: Option<f64>,
    pub mem_bytes: Option<u64>,
    pub mem_limit_bytes: Option<u64>,
    pub unenforced: Vec<String>,
}

/// What the shim does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// A directory that only we can write to, and the way from it to the sandbox.
    pub sandbox_base: PathBuf,
    pub sandbox: PathBuf,
    pub program: Program,
    /// The whole environment, in order.
    pub environment: Vec<(String, String)>,
    /// `None`: the agent's own user.
    pub user: Option<User>,
    pub rlimits: Vec<Rlimit>,
    pub oom_score_adj: i32,
    pub mounts: Mounts,
    pub cgroups: Cgroups,
    pub logs: Logs,
}

/// What is executed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Program {
    /// `/bin/sh -c <command>`
    Shell(String),
    /// A program, looked up in the container's PATH when it has no slash, and all of its arguments.
    Exec {
        file: String,
        arguments: Vec<String>,
    },
    /// Nothing was given: says this on stderr and exits with 1.
    Missing(String),
}

/// Who the container runs as.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct User {
    pub uid: u32,
    pub gid: u32,
    /// All supplementary groups.
    pub groups: Vec<u32>,
}

/// A resource limit; `u64::MAX` is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Rlimit {
    /// The number of `RLIMIT_*`.
    pub resource: u32,
    pub soft: u64,
    pub hard: u64,
}

/// What is mounted, in a mount namespace of the container's own.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Mounts {
    /// Without one the container stays in the host's namespace and `list` is empty.
    pub namespace: bool,
    pub list: Vec<MountSpec>,
}

/// A bind mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MountSpec {
    /// An absolute path on the host.
    pub source: PathBuf,
    /// An absolute path, or a relative one below the sandbox.
    pub target: PathBuf,
    pub read_only: bool,
    /// Mounts made below it in the container appear on the host.
    pub shared: bool,
}

/// Where the container and its shim belong.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Cgroups {
    /// The container's own directory in each hierarchy in use.
    pub container: Vec<PathBuf>,
    /// The directory of all shims in each hierarchy in use.
    pub shims: Vec<PathBuf>,
    /// How a passed memory limit is noticed.
    pub memory: Option<MemoryWatch>,
}

/// How a passed memory limit is noticed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MemoryWatch {
    /// The container's directory in the memory hierarchy.
    pub dir: PathBuf,
    /// The files are those of cgroup v2.
    pub v2: bool,
    pub limit_bytes: u64,
}

/// How output is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Logs {
    pub max_bytes: u64,
    pub keep: u32,
}

/// The processes of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PidRecord {
    pub shim: ProcessId,
    pub init: ProcessId,
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ExitRecord {
    pub status: Option<i32>,
    pub reason: Option<Reason>,
    pub message: Option<String>,
    /// In milliseconds since the epoch.
    pub ended_ms: u64,
}

/// [`ExitReason`] as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reason {
    MemoryLimit { limit_bytes: u64 },
    ShimLost,
    Rebooted,
}

impl From<ExitRecord> for ExitInfo {
    fn from(record: ExitRecord) -> Self {
        Self {
            status: record.status,
            reason: record.reason.map(|reason| match reason {
                Reason::MemoryLimit { limit_bytes } => ExitReason::MemoryLimit { limit_bytes },
                Reason::ShimLost => ExitReason::ShimLost,
                Reason::Rebooted => ExitReason::Rebooted,
            }),
            message: record.message,
        }
    }
}

macro_rules! record {
    ($type:ty, $kind:literal, $max:expr) => {
        impl Record for $type {
            const KIND: &'static str = $kind;
            const VERSION: u16 = 1;
            const MAX_BODY: usize = $max;

            fn encode(&self) -> Result<Vec<u8>, CodecError> {
                longshore_checkpoint::bincode_encode(self)
            }

            fn decode(_version: u16, body: &[u8]) -> Result<Self, CodecError> {
                longshore_checkpoint::bincode_decode(body)
            }
        }
    };
}

// A request is at most 4 MiB long.
record!(ContainerRecord, "agent.container", 8 << 20);
record!(AgentIdRecord, "agent.id", 1024);
record!(PidRecord, "agent.pid", 4096);
record!(ExitRecord, "agent.exit", 64 << 10);
