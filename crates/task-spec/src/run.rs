//! Docker's flags of `task run`, or a file, as a `mesos.v1.TaskInfo`: from a command line, and from a declaration.

mod env;

use std::path::Path;

use longshore_engine::{ContainerSpec, ImageReference};
use longshore_mesos_api::v1::container_info::DockerInfo;
use longshore_mesos_api::v1::container_info::docker_info::Network;
use longshore_mesos_api::v1::{
    AgentId, CommandInfo, ContainerInfo, DurationInfo, Environment, HealthCheck, KillPolicy, Label,
    Labels, Parameter, TaskId, TaskInfo, container_info, environment, health_check,
};
use longshore_mesos_api::{DecodeLimits, json};
use serde_json::{Value, json as document};

use crate::flags::{FlagTarget, apply, pull_policy};

pub use env::Lookup;
use env::environment_of;

/// Flags by their long names with their values, in the order in which they were given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RunFlags(Vec<(String, String)>);

impl From<Vec<(String, String)>> for RunFlags {
    fn from(flags: Vec<(String, String)>) -> Self {
        Self(flags)
    }
}

impl RunFlags {
    /// Takes out all flags of this name, in their order.
    fn take(&mut self, name: &str) -> Vec<String> {
        let all = std::mem::take(&mut self.0);
        let (taken, left): (Vec<_>, _) = all.into_iter().partition(|(known, _)| known == name);
        self.0 = left;
        taken.into_iter().map(|(_, value)| value).collect()
    }

    /// Takes out the last value of this name, which is the one that counts.
    fn take_last(&mut self, name: &str) -> Option<String> {
        self.take(name).pop()
    }
}

/// Why a task cannot be made. It shows no value of an environment variable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct RunProblem {
    /// The flag without its dashes, or the member; empty for the whole.
    pub key: String,
    /// What is wrong, with the flag and the value.
    pub message: String,
}

impl RunProblem {
    fn new(key: &str, message: impl Into<String>) -> Self {
        Self {
            key: key.to_owned(),
            message: message.into(),
        }
    }
}

type Result<T> = std::result::Result<T, RunProblem>;

fn problem(name: &str, value: &str) -> Result<()> {
    let mut nowhere = ContainerSpec::default();
    apply(&mut nowhere, FlagTarget::CommandLine, name, value)
        .map_err(|error| RunProblem::new(name, error.to_string()))
}

/// What is run, and under which name.
#[derive(Debug, Clone, PartialEq)]
pub struct Built {
    /// The task.
    pub task: TaskInfo,
    /// The container's name; otherwise one of ours.
    pub container_name: Option<String>,
}

/// What a command line asks for.
///
/// # Errors
/// The flag and its value, or what is missing.
pub fn from_flags(
    mut flags: RunFlags,
    words: &[String],
    here: &Path,
    lookup: Lookup<'_>,
) -> Result<Built> {
    let Some((image, command)) = words.split_first() else {
        return Err(RunProblem::new(
            "image",
            "no image is named: `longshore task run [FLAGS] IMAGE [COMMAND ..]`",
        ));
    };
    ImageReference::parse(image)
        .map_err(|error| RunProblem::new("image", format!("image {image:?}: {error}")))?;
    let name = flags.take_last("name");
    if let Some(name) = &name {
        check_name(name)?;
    }
    let files = flags.take("env-file");
    let variables = environment_of(&files, &flags.take("env"), here, lookup)?;
    let grace = flags.take_last("stop-timeout").map(|text| {
        let seconds = text.parse::<u32>();
        seconds.map_err(|_| {
            let message = format!("--stop-timeout {text:?}: it must be a number of seconds");
            RunProblem::new("stop-timeout", message)
        })
    });
    let grace = grace.transpose()?.map(|seconds| KillPolicy {
        grace_period: Some(nanoseconds(
            u64::from(seconds).saturating_mul(1_000_000_000),
        )),
    });
    let pull = flags.take_last("pull");
    if let Some(pull) = &pull {
        pull_policy(pull).map_err(|error| RunProblem::new("pull", error.to_string()))?;
    }
    let health_check = health(&mut flags)?;
    let labels = flags.take("label");
    let mut parameters = Vec::new();
    parameters.extend(pull.map(|value| parameter("pull", value)));
    for (name, value) in flags.0 {
        let value = match name.as_str() {
            "volume" => absolute_source(&value, here),
            _ => value,
        };
        problem(&name, &value)?;
        parameters.push(parameter(&name, value));
    }
    for label in &labels {
        problem("label", label)?;
        parameters.push(parameter("label", label.clone()));
    }
    let task = TaskInfo {
        name: name.clone().unwrap_or_else(|| image.clone()),
        task_id: TaskId {
            value: name.clone().unwrap_or_default(),
        },
        agent_id: AgentId {
            value: AGENT.to_owned(),
        },
        command: Some(CommandInfo {
            shell: Some(false),
            arguments: command.to_vec(),
            environment: (!variables.is_empty()).then_some(Environment { variables }),
            ..CommandInfo::default()
        }),
        container: Some(ContainerInfo {
            r#type: container_info::Type::Docker.into(),
            docker: Some(DockerInfo {
                image: image.clone(),
                network: Some(Network::Bridge.into()),
                parameters,
                ..DockerInfo::default()
            }),
            ..ContainerInfo::default()
        }),
        health_check,
        labels: (!labels.is_empty()).then(|| Labels {
            labels: labels.iter().map(|label| as_label(label)).collect(),
        }),
        kill_policy: grace,
        ..TaskInfo::default()
    };
    Ok(Built {
        task,
        container_name: name,
    })
}

fn parameter(key: &str, value: String) -> Parameter {
    Parameter {
        key: key.to_owned(),
        value,
    }
}

/// What stands for the agent of a task that none runs.
const AGENT: &str = "local";

/// Docker's rule for names; `mesos-` is what an agent takes for its own, and kills.
fn check_name(name: &str) -> Result<()> {
    let mut letters = name.chars();
    let first = letters.next().is_some_and(|c| c.is_ascii_alphanumeric());
    let rest = letters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'));
    if !first || !rest || name.len() < 2 || name.len() > 128 {
        return Err(RunProblem::new(
            "name",
            format!(
                "--name {name:?}: it must be 2 to 128 letters, digits, `_`, `.` and `-`, and begin with a letter or digit"
            ),
        ));
    }
    if name.starts_with("mesos-") {
        return Err(RunProblem::new(
            "name",
            format!(
                "--name {name:?}: a Mesos agent kills containers whose names begin with `mesos-`"
            ),
        ));
    }
    Ok(())
}

fn as_label(text: &str) -> Label {
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    Label {
        key: key.to_owned(),
        value: Some(value.to_owned()),
    }
}

fn nanoseconds(count: u64) -> DurationInfo {
    DurationInfo {
        nanoseconds: i64::try_from(count).unwrap_or(i64::MAX),
    }
}

/// `./data:/data` is meant from here, as with docker.
fn absolute_source(volume: &str, here: &Path) -> String {
    match volume.split_once(':') {
        Some((source, rest))
            if source == "." || source.starts_with("./") || source.starts_with("../") =>
        {
            format!("{}:{rest}", here.join(source).display())
        }
        _ => volume.to_owned(),
    }
}

/// Docker's health check as the task's own: docker's defaults, and a task that is unhealthy is ended.
fn health(flags: &mut RunFlags) -> Result<Option<HealthCheck>> {
    let command = flags.take_last("health-cmd");
    let mut seconds = |name: &str, default: f64| -> Result<f64> {
        let Some(text) = flags.take_last(name) else {
            return Ok(default);
        };
        if command.is_none() {
            return Err(RunProblem::new(
                name,
                format!("--{name} {text:?}: there is nothing to do so without --health-cmd"),
            ));
        }
        docker_duration(&text).ok_or_else(|| {
            let message = format!("--{name} {text:?}: it must be a time, as 30s or 1m30s");
            RunProblem::new(name, message)
        })
    };
    let interval_seconds = seconds("health-interval", 30.0)?;
    let timeout_seconds = seconds("health-timeout", 30.0)?;
    let grace_period_seconds = seconds("health-start-period", 0.0)?;
    let retries = flags.take_last("health-retries");
    let Some(command) = command else {
        if let Some(text) = retries {
            return Err(RunProblem::new(
                "health-retries",
                format!(
                    "--health-retries {text:?}: there is nothing to retry without --health-cmd"
                ),
            ));
        }
        return Ok(None);
    };
    let retries = retries.map_or(Ok(3), |text| {
        let count = text.parse::<u32>().ok().filter(|count| *count > 0);
        count.ok_or_else(|| {
            let message = format!("--health-retries {text:?}: it must be a number from 1 on");
            RunProblem::new("health-retries", message)
        })
    })?;
    Ok(Some(HealthCheck {
        r#type: Some(health_check::Type::Command.into()),
        command: Some(CommandInfo {
            shell: Some(true),
            value: Some(command),
            ..CommandInfo::default()
        }),
        delay_seconds: Some(0.0),
        interval_seconds: Some(interval_seconds),
        timeout_seconds: Some(timeout_seconds),
        consecutive_failures: Some(retries),
        grace_period_seconds: Some(grace_period_seconds),
        ..HealthCheck::default()
    }))
}

/// Go's form of a length of time, in seconds: `1m30s`, `500ms`, `1.5h`.
fn docker_duration(text: &str) -> Option<f64> {
    let mut rest = text;
    let mut total = 0.0;
    if rest == "0" {
        return Some(0.0);
    }
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(end);
        let number: f64 = number.parse().ok()?;
        let end = tail
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(end);
        total += number
            * match unit {
                "ns" => 1e-9,
                "us" | "µs" => 1e-6,
                "ms" => 1e-3,
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                _ => return None,
            };
        rest = tail;
    }
    Some(total)
}

/// The most that a file with a task may hold, in bytes.
const MAX_FILE: usize = 2 * 1024 * 1024;

/// A `TaskInfo` in Mesos' JSON form. Members that only matter to an agent may be left out. Gives the paths of
/// unknown members too, which are most likely misspelt.
///
/// # Errors
/// It is not readable, too large, no JSON, or no `TaskInfo`.
pub fn from_file(text: &[u8], path: &Path) -> Result<(Built, Vec<String>)> {
    let at = path.display();
    if text.len() > MAX_FILE {
        return Err(RunProblem::new(
            "",
            format!("{at} has more than {MAX_FILE} bytes, the most that a task may have"),
        ));
    }
    let mut value: Value = serde_json::from_slice(text)
        .map_err(|error| RunProblem::new("", format!("{at} is no JSON: {error}")))?;
    let Some(members) = value.as_object_mut() else {
        let message = format!("{at} is no task: it must be a JSON object, a TaskInfo of Mesos");
        return Err(RunProblem::new("", message));
    };
    let agent = document!({ "value": AGENT });
    members.entry("agent_id").or_insert(agent);
    members
        .entry("task_id")
        .or_insert(document!({ "value": "" }));
    let id = members["task_id"]["value"].as_str().unwrap_or_default();
    let name = if id.is_empty() { "task" } else { id }.to_owned();
    members.entry("name").or_insert(Value::String(name));
    let limits = DecodeLimits {
        max_bytes: 2 * MAX_FILE,
        ..DecodeLimits::default()
    };
    let no_task = |error: &dyn std::error::Error| {
        let cause = error
            .source()
            .map_or_else(String::new, |it| format!(": {it}"));
        RunProblem::new("", format!("{at} is no task: {error}{cause}"))
    };
    let bytes = serde_json::to_vec(&value).map_err(|error| no_task(&error))?;
    let read =
        json::from_slice_reporting::<TaskInfo>(&bytes, &limits).map_err(|error| no_task(&error))?;
    let built = Built {
        task: read.message,
        container_name: None,
    };
    Ok((built, read.unknown))
}

/// One variable with its value.
fn variable(name: &str, value: String) -> environment::Variable {
    environment::Variable {
        name: name.to_owned(),
        value: Some(value),
        ..environment::Variable::default()
    }
}

#[cfg(test)]
mod tests;
