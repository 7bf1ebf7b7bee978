//! What holds for all tasks of one state root.

use std::path::PathBuf;
use std::time::Duration;

use longshore_docker_executor::LogMode;
use longshore_engine::PullAuth;
use longshore_mesos_api::v1::TaskInfo;

use crate::Retention;

/// What holds for all tasks.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ManagerOptions {
    /// Below it are the records and the sandboxes; absolute, of mode 0700, and nobody else's. Its path is in the labels of all
    /// containers: two managers on one engine never take each other's.
    pub state_dir: PathBuf,
    /// From the stop signal to KILL, for tasks that do not say it. Default 10 s, as docker's.
    pub grace: Duration,
    /// Where output goes, for tasks that do not say it.
    pub logs: LogMode,
    /// The size at which an output file is put aside, in bytes, and how many older ones are kept. Default 64 MiB, 4.
    pub log_files: (u64, u32),
    /// The size of one file of the engine's own log, in bytes, and how many there are: what is kept while nobody reads. Default
    /// 64 MiB, 4 files.
    pub engine_log: (u64, u32),
    /// When finished tasks are forgotten.
    pub retention: Retention,
    /// How many tasks may be unfinished at a time. Default 1000.
    pub max_tasks: usize,
    /// Credentials of registries.
    pub pull_auth: PullAuth,
    /// How long a container with our labels that no record names is left alone. Default 1 minute.
    pub stray_grace: Duration,
}

impl ManagerOptions {
    /// The defaults, with everything below `state_dir`.
    pub fn new(state_dir: impl Into<PathBuf>) -> Self {
        Self {
            state_dir: state_dir.into(),
            grace: Duration::from_secs(10),
            logs: LogMode::Files,
            log_files: (64 << 20, 4),
            engine_log: (64 << 20, 4),
            retention: Retention::default(),
            max_tasks: 1000,
            pull_auth: PullAuth::Config,
            stray_grace: Duration::from_secs(60),
        }
    }
}

/// A task to be run.
#[derive(Clone, Debug, Default)]
pub struct NewTask {
    /// What it is. Without an id it gets one.
    pub info: TaskInfo,
    /// The container's name; otherwise one of ours.
    pub container_name: Option<String>,
    /// Where output goes; otherwise as the options say.
    pub logs: Option<LogMode>,
}
