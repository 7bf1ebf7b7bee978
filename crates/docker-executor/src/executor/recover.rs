//! What a predecessor has left: its records are taken up.

use std::path::Path;
use std::time::Duration;

use longshore_checkpoint::Recovered;
use longshore_mesos_api::v1::TaskInfo;
use longshore_task_spec::hooks::{Draft, FoundContainer};
use prost::Message as _;

use super::{Executor, is_key};
use crate::prepare::prepare;
use crate::record::{StateRecord, TaskRecord};
use crate::{ExecutorError, Plan, Recorded, Stage, State, Task, status};

/// The most tasks that are read from a state directory.
const MAX_RECORDS: usize = 100_000;

/// What was found on record.
#[derive(Debug, Default)]
pub struct Recovery {
    /// Tasks that go on, also those that have ended and are on record still.
    pub tasks: Vec<Task>,
    /// Records that cannot be read: their directory's name, and why. Their containers are left alone.
    pub damaged: Vec<(String, String)>,
}

impl Executor {
    /// Takes up all tasks that are on record: each is what it was, and is looked at.
    ///
    /// # Errors
    /// [`ExecutorError::ReadDir`]; a record that cannot be read is no error, but [`Recovery::damaged`].
    pub fn recover(&self) -> Result<Recovery, ExecutorError> {
        let mut recovery = Recovery::default();
        let records = &self.core.records;
        for key in keys(records.root())? {
            if self.core.entries().contains_key(&key) {
                continue;
            }
            let (task, state) = match records.read(&key) {
                Ok((Recovered::Record(task), state)) => (task, state),
                Ok((Recovered::Nothing, _)) => {
                    recovery.damaged.push((key, "it has no task".to_owned()));
                    continue;
                }
                Ok((Recovered::Quarantined { damage, .. } | Recovered::Newer { damage }, _)) => {
                    recovery.damaged.push((key, damage.to_string()));
                    continue;
                }
                Err(error) => {
                    recovery
                        .damaged
                        .push((key, crate::publisher::chain(&error)));
                    continue;
                }
            };
            match self.take_up(&key, task, state) {
                Ok(task) => recovery.tasks.push(task),
                Err(problem) => recovery.damaged.push((key, problem)),
            }
        }
        Ok(recovery)
    }

    fn take_up(&self, key: &str, record: TaskRecord, state: StateRecord) -> Result<Task, String> {
        let info = TaskInfo::decode(record.task.as_slice()).map_err(|error| error.to_string())?;
        let passed = status::now_ms().saturating_sub(record.launched_ms);
        let passed = Duration::from_millis(passed);
        let prepared = prepare(
            key,
            &record,
            &info,
            &self.core.options,
            &self.core.root,
            passed,
        )?;
        let boot_id = if state.boot_id.is_empty() {
            &record.boot_id
        } else {
            &state.boot_id
        };
        let rebooted = *boot_id != self.core.boot_id;
        let recorded = Recorded {
            stage: state.stage,
            rebooted,
            container: state.container.clone(),
            run: state.run,
            started_by: state.started_by,
            pid: state.process.map(|(pid, _)| pid),
            told_running: state.told_running,
            healthy: state.healthy,
            kill: state.kill.as_ref().map(|kill| kill.left(status::now_ms())),
        };
        let cleaned = state.cleaned;
        if !cleaned {
            let pid = state.process.and_then(|(pid, _)| u32::try_from(pid).ok());
            let found = FoundContainer {
                draft: Draft::Engine(Box::new(prepared.spec.clone())),
                running: !matches!(state.stage, Stage::Intended | Stage::Over),
                ended: state.stage == Stage::Over,
                pid: pid.filter(|_| !rebooted && state.stage != Stage::Over),
            };
            self.core.hooks.found(&prepared.hook, found);
        }
        let start = |mut plan: Plan, actions: &mut Vec<_>| {
            if cleaned {
                // Nothing is left of it but its record.
                plan.remove = false;
            }
            State::attach(plan, recorded, Duration::ZERO, actions)
        };
        let mut entries = self.core.entries();
        Ok(self.start(
            &mut entries,
            key.to_owned(),
            record,
            info,
            state,
            prepared,
            start,
        ))
    }
}

fn keys(root: &Path) -> Result<Vec<String>, ExecutorError> {
    let failed = |source| ExecutorError::ReadDir {
        path: root.to_owned(),
        source,
    };
    let entries = match std::fs::read_dir(root) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut keys = Vec::new();
    for entry in entries.take(MAX_RECORDS) {
        let name = entry.map_err(failed)?.file_name();
        if let Some(key) = name.to_str().filter(|name| is_key(name)) {
            keys.push(key.to_owned());
        }
    }
    keys.sort();
    Ok(keys)
}
