//! A task, made ready to be run: what it asks for is checked here, in one place, before anything exists.

use std::collections::BTreeMap;
use std::time::Duration;

use longshore_engine::spec::LogDriver;
use longshore_engine::{ContainerSpec, PullRequest};
use longshore_health::{CheckStatus, HealthPolicy, Probe, Timing, mesos};
use longshore_mesos_api::v1::TaskInfo;
use longshore_task_spec::hooks::HookContainer;
use longshore_task_spec::{Sandbox, TaskContext, map_task, schedule};

use crate::record::TaskRecord;
use crate::{Acknowledge, ExecutorOptions, LogMode, Plan, labels};

/// A task that can be run.
#[derive(Clone, Debug)]
pub(crate) struct Prepared {
    pub(crate) plan: Plan,
    pub(crate) spec: ContainerSpec,
    pub(crate) pull: PullRequest,
    pub(crate) health: Option<(Probe, HealthPolicy)>,
    pub(crate) check: Option<(Probe, Timing)>,
    pub(crate) hook: HookContainer,
}

/// The task of a record. `passed`: how long ago it was launched.
///
/// The error is what is wrong with it, with the field and the value.
pub(crate) fn prepare(
    key: &str,
    record: &TaskRecord,
    task: &TaskInfo,
    options: &ExecutorOptions,
    root: &str,
    passed: Duration,
) -> Result<Prepared, String> {
    let context = TaskContext {
        container_name: record.name.clone(),
        sandbox: record
            .sandbox
            .clone()
            .map(|(host, mapped)| Sandbox { host, mapped }),
        task_environment: record.task_environment.clone(),
        default_dns: options.default_dns.clone(),
        enable_cfs: options.enable_cfs,
        host_memory: options.host_memory,
        prepared_by_agent: options.prepared_by_agent,
    };
    if task.task_id.value.is_empty() {
        return Err("task_id.value is missing: a task has an id".to_owned());
    }
    let mapped = map_task(task, &context).map_err(|error| error.to_string())?;
    let schedule = schedule(task).map_err(|error| error.to_string())?;
    let health = task.health_check.as_ref().map(mesos::health_check);
    let health = health.transpose().map_err(|error| error.to_string())?;
    let check = task.check.as_ref().map(mesos::check);
    let check = check.transpose().map_err(|error| error.to_string())?;
    let mut spec = mapped.container;
    let ours = labels::of_task(&options.owner, root, key, &task.task_id.value);
    let taken = spec.labels.keys().find(|name| ours.contains_key(*name));
    if let Some(taken) = taken {
        return Err(format!("the label {taken:?} is ours: leave it out"));
    }
    spec.labels.extend(ours);
    log_driver(&mut spec, record.logs, options);
    let plan = Plan {
        grace: schedule.grace.unwrap_or(options.grace),
        signal: record.stop_signal.clone(),
        completion: schedule
            .max_completion
            .map(|limit| limit.saturating_sub(passed)),
        tell_killing: record.tell_killing,
        checks: health.is_some() || check.is_some(),
        check: check.as_ref().map(|(probe, _)| CheckStatus::empty(probe)),
        logs: record.logs == LogMode::Files && record.sandbox.is_some(),
        remove: record.remove,
        patience: options.patience,
    };
    let pull = PullRequest {
        policy: mapped.pull,
        platform: spec.platform.clone(),
        auth: options.pull_auth.clone(),
        inactivity: options.pull_inactivity,
        ..PullRequest::new(spec.image.clone())
    };
    let hook = HookContainer {
        id: key.to_owned(),
        name: task.task_id.value.clone(),
        pod: if task.name.is_empty() {
            task.task_id.value.clone()
        } else {
            task.name.clone()
        },
        labels: hook_labels(task, &spec.labels),
    };
    Ok(Prepared {
        plan,
        spec,
        pull,
        health,
        check,
        hook,
    })
}

/// The container's labels, and those of the task that it has not got.
fn hook_labels(task: &TaskInfo, container: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let of_task = task.labels.iter().flat_map(|labels| &labels.labels);
    let mut all: BTreeMap<_, _> = of_task
        .map(|label| (label.key.clone(), label.value.clone().unwrap_or_default()))
        .collect();
    all.extend(container.clone());
    all
}

/// The engine's own log, unless the task says what it is to be: `local` takes two thirds of the place and of the time to read of
/// `json-file`, and as it is not compressed no rotation waits for a compressor.
fn log_driver(spec: &mut ContainerSpec, mode: LogMode, options: &ExecutorOptions) {
    if spec.log.is_some() {
        return;
    }
    spec.log = match (mode, options.engine_log) {
        (LogMode::None, _) => Some(LogDriver {
            driver: "none".to_owned(),
            options: BTreeMap::new(),
        }),
        (_, None) => None,
        (_, Some((bytes, files))) => Some(LogDriver {
            driver: LOCAL.to_owned(),
            options: [
                ("max-size".to_owned(), bytes.to_string()),
                ("max-file".to_owned(), files.to_string()),
                (COMPRESS.to_owned(), "false".to_owned()),
            ]
            .into(),
        }),
    };
}

const LOCAL: &str = "local";
const COMPRESS: &str = "compress";

/// Podman has no `local`.
pub(crate) fn log_driver_of_podman(spec: &mut ContainerSpec) {
    if let Some(log) = &mut spec.log
        && log.driver == LOCAL
        && log.options.remove(COMPRESS).is_some()
    {
        log.driver = "json-file".to_owned();
    }
}

/// Whether a task could be launched, as far as that can be told without an engine.
///
/// # Errors
/// The field and its value, as its last status would tell them.
pub fn judge(task: &TaskInfo) -> Result<(), String> {
    let options = ExecutorOptions::new("/", "");
    let record = TaskRecord {
        id: task.task_id.value.clone(),
        name: "x".to_owned(),
        framework: String::new(),
        task: Vec::new(),
        sandbox: Some(("/x".to_owned(), "/x".to_owned())),
        log_owner: None,
        task_environment: Vec::new(),
        tell_killing: false,
        stop_signal: None,
        logs: LogMode::Files,
        remove: true,
        acknowledge: Acknowledge::WhenRecorded,
        launched_ms: 0,
        boot_id: String::new(),
    };
    prepare("", &record, task, &options, "/", Duration::ZERO).map(drop)
}

/// A name of ours for the container of a task: `longshore-ID-KEY`, of what engines take.
pub(crate) fn container_name(task: &str, key: &str) -> String {
    let safe: String = task
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || "_.-".contains(c) {
                c
            } else {
                '_'
            }
        })
        .take(40)
        .collect();
    let key: String = key.chars().take(8).collect();
    format!("longshore-{safe}-{key}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_names_never_begin_as_those_that_an_agent_kills() {
        for task in ["mesos-1", "", "a b/c:d", &"x".repeat(300), "\u{e9}"] {
            let name = container_name(task, "0123456789abcdef");
            assert!(name.starts_with("longshore-"), "{name}");
            assert!(name.is_ascii() && name.len() < 64 && name.ends_with("-01234567"));
        }
    }
}
