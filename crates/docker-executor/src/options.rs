//! What holds for all tasks of an executor, and what is asked for one.

use std::path::PathBuf;
use std::time::Duration;

use longshore_engine::PullAuth;
use longshore_mesos_api::v1::TaskInfo;
use longshore_sandbox::Rotation;
use longshore_task_spec::{DefaultDns, Sandbox};
use serde::{Deserialize, Serialize};

/// What holds for all tasks of an [`Executor`](crate::Executor).
#[derive(Clone, Debug)]
pub struct ExecutorOptions {
    /// Where the tasks are on record; absolute, of mode 0700, and nobody else's.
    pub state_dir: PathBuf,
    /// Who we are, in the containers' labels.
    pub owner: String,
    /// Only one task at a time: a second one is refused while one runs.
    pub single: bool,
    /// From the signal to KILL, for tasks that do not say it themselves. Default 5 s.
    pub grace: Duration,
    /// How long an engine that cannot be reached is asked again for a launch. Default 60 s.
    pub patience: Duration,
    /// A pull is given up when the engine reports nothing for so long. Default 2 minutes.
    pub pull_inactivity: Duration,
    /// Credentials of registries.
    pub pull_auth: PullAuth,
    /// Where output goes, for tasks that do not say it themselves.
    pub logs: LogMode,
    /// When output files are put aside.
    pub rotation: Rotation,
    /// The size of one file of the engine's own log, in bytes, and how many there are: what is kept while nobody reads.
    /// Default 64 MiB, 4 files. `None`: the engine's own settings.
    pub engine_log: Option<(u64, u32)>,
    /// Whether a container is removed once its task has ended. With [`LogMode::Engine`] it is kept in any case, since it
    /// holds the output.
    pub remove: bool,
    /// Resolvers of tasks that name none.
    pub default_dns: DefaultDns,
    /// Whether a request of processors without a limit is a limit too.
    pub enable_cfs: bool,
    /// Whether an agent has fetched URIs and mounted persistent volumes.
    pub prepared_by_agent: bool,
    /// The memory of this host, in bytes.
    pub host_memory: u64,
}

impl ExecutorOptions {
    /// The defaults, with the records in `state_dir`.
    pub fn new(state_dir: impl Into<PathBuf>, owner: impl Into<String>) -> Self {
        Self {
            state_dir: state_dir.into(),
            owner: owner.into(),
            single: false,
            grace: Duration::from_secs(5),
            patience: Duration::from_secs(60),
            pull_inactivity: Duration::from_secs(120),
            pull_auth: PullAuth::Config,
            logs: LogMode::Files,
            rotation: Rotation {
                max_bytes: 64 << 20,
                keep: 4,
            },
            engine_log: Some((64 << 20, 4)),
            remove: true,
            default_dns: DefaultDns::default(),
            enable_cfs: false,
            prepared_by_agent: false,
            host_memory: host_memory(),
        }
    }
}

/// `MemTotal` of proc(5); 0 where it cannot be read.
fn host_memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib = line.and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or_default().saturating_mul(1024)
}

/// Where a task's output goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum LogMode {
    /// Into `stdout` and `stderr` of its sandbox.
    #[default]
    Files,
    /// It stays in the engine.
    Engine,
    /// Nowhere.
    None,
}

/// Who says that a status has arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Acknowledge {
    /// It has arrived when it is in the task's record.
    #[default]
    WhenRecorded,
    /// The caller: [`Task::acknowledge`](crate::Task::acknowledge). Until then it is kept in the record.
    ByCaller,
}

/// A task to be launched.
#[derive(Clone, Debug)]
pub struct Launch {
    /// What it is.
    pub task: TaskInfo,
    /// The id of its framework, or what stands for one.
    pub framework: String,
    /// The container's name; otherwise one of ours, which never begins with `mesos-`.
    pub container_name: Option<String>,
    /// Its sandbox, which exists.
    pub sandbox: Option<Sandbox>,
    /// Who the output files belong to: uid and gid.
    pub log_owner: Option<(u32, u32)>,
    /// Variables that win over those of the command.
    pub task_environment: Vec<(String, String)>,
    /// Whether its framework knows `TASK_KILLING`.
    pub tell_killing: bool,
    /// The signal that asks it to end; otherwise the container's own.
    pub stop_signal: Option<String>,
    /// Where its output goes; otherwise as the executor says.
    pub logs: Option<LogMode>,
    /// Whether its container is removed once it has ended; otherwise as the executor says.
    pub remove: Option<bool>,
    /// Who says that a status has arrived.
    pub acknowledge: Acknowledge,
}

impl Launch {
    /// `task`, with nothing said beside it.
    #[must_use]
    pub const fn new(task: TaskInfo) -> Self {
        Self {
            task,
            framework: String::new(),
            container_name: None,
            sandbox: None,
            log_owner: None,
            task_environment: Vec::new(),
            tell_killing: false,
            stop_signal: None,
            logs: None,
            remove: None,
            acknowledge: Acknowledge::WhenRecorded,
        }
    }
}
