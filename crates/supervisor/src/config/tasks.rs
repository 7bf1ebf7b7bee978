//! Docker tasks: `[tasks]`.

use std::time::Duration;

use longshore_backoff::RestartPolicy;
use longshore_engine::{EngineEndpoint, EngineError};
use longshore_task_manager::{LogMode, ManagerOptions, Retention};

use super::problems::Problems;
use super::raw::{RawRestart, RawTaskLogs, RawTasks};

/// What holds for tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct TaskSettings {
    /// The engine; `None`: the one that docker's client would use.
    pub engine: Option<EngineEndpoint>,
    /// Where output goes.
    pub logs: LogMode,
    /// From the stop signal to KILL.
    pub grace: Duration,
    /// The size at which an output file is put aside, in bytes.
    pub log_max_bytes: u64,
    /// How many of them are kept beside the newest.
    pub log_files: u32,
    /// How long a finished task is kept.
    pub max_age: Duration,
    /// What all finished tasks may take on disk, in bytes.
    pub max_bytes: u64,
    /// How many may be unfinished at a time.
    pub max_tasks: usize,
    /// How declared tasks are started again.
    pub restart: RestartPolicy,
}

/// As many older files as the sandbox keeps track of.
const LOG_FILES_MAX: u32 = 99;
/// As many starts of a declared task as are kept on record.
const STARTS_MAX: u32 = 32;

/// The settings, as far as they are acceptable; what is not is noted.
pub(super) fn settings(raw: &RawTasks, problems: &mut Problems<'_>) -> TaskSettings {
    let engine =
        raw.engine
            .as_deref()
            .and_then(|text| match EngineEndpoint::parse(text, "tasks.engine") {
                Ok(endpoint) => Some(endpoint),
                Err(error) => {
                    problems.note("tasks.engine", error.to_string());
                    None
                }
            });
    if raw.max_tasks == 0 {
        problems.note("tasks.max_tasks", "0 is not allowed");
    }
    if raw.log_max_bytes.0 < 4096 {
        problems.note("tasks.log_max_bytes", "less than 4KiB is not allowed");
    }
    if raw.log_files == 0 || raw.log_files > LOG_FILES_MAX {
        problems.note(
            "tasks.log_files",
            format!("it must be from 1 to {LOG_FILES_MAX}"),
        );
    }
    // As many starts as are on record.
    if raw.restart.start_limit_burst.unwrap_or_default() > STARTS_MAX {
        problems.note(
            "tasks.restart.start_limit_burst",
            format!("it must be at most {STARTS_MAX}"),
        );
    }
    let restart = super::plugin::restart(&RawRestart::default(), &raw.restart);
    let restart = restart.unwrap_or_else(|refusal| {
        problems.note(format!("tasks.{}", refusal.key), refusal.message);
        RestartPolicy::default()
    });
    TaskSettings {
        engine,
        restart,
        logs: match raw.logs {
            RawTaskLogs::Files => LogMode::Files,
            RawTaskLogs::Engine => LogMode::Engine,
            RawTaskLogs::None => LogMode::None,
        },
        grace: raw.grace.0,
        log_max_bytes: raw.log_max_bytes.0,
        log_files: raw.log_files,
        max_age: raw.max_age.0,
        max_bytes: raw.max_bytes.0,
        max_tasks: usize::try_from(raw.max_tasks).unwrap_or(usize::MAX),
    }
}

impl TaskSettings {
    /// The engine of tasks, and of containers of images.
    ///
    /// # Errors
    /// When docker's client would use one that is not on this machine, or its configuration cannot be read.
    pub fn endpoint(&self) -> Result<EngineEndpoint, EngineError> {
        match &self.engine {
            Some(endpoint) => Ok(endpoint.clone()),
            None => EngineEndpoint::from_environment(),
        }
    }

    /// As the manager of a root is told.
    pub(crate) fn options(&self, state_dir: &std::path::Path) -> ManagerOptions {
        let mut options = ManagerOptions::new(state_dir);
        options.grace = self.grace;
        options.logs = self.logs;
        // The engine keeps as much while nobody reads.
        options.log_files = (self.log_max_bytes, self.log_files.saturating_sub(1));
        options.engine_log = (self.log_max_bytes, self.log_files);
        options.retention = Retention {
            max_age: self.max_age,
            max_bytes: self.max_bytes,
        };
        options.max_tasks = self.max_tasks;
        options
    }
}
