//! A command line of `task run`, or a file, as a `mesos.v1.TaskInfo`.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use longshore_engine::ImageReference;
use longshore_mesos_api::v1::container_info::DockerInfo;
use longshore_mesos_api::v1::container_info::docker_info::Network;
use longshore_mesos_api::v1::{
    AgentId, CommandInfo, ContainerInfo, DurationInfo, Environment, HealthCheck, KillPolicy, Label,
    Labels, Parameter, TaskId, TaskInfo, container_info, environment, health_check,
};
use longshore_mesos_api::{DecodeLimits, json};
use longshore_task_spec::flags::pull_policy;
use serde_json::{Value, json as document};

use super::env::{Lookup, environment_of};
use super::flags::{DockerFlags, problem};

/// What is run, and under which name.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Built {
    pub(super) task: TaskInfo,
    /// The container's name; otherwise one of ours.
    pub(super) container_name: Option<String>,
}

/// What a command line asks for.
///
/// # Errors
/// The flag and its value, or what is missing.
pub(super) fn from_command_line(
    mut flags: DockerFlags,
    words: &[String],
    here: &Path,
    lookup: Lookup<'_>,
) -> Result<Built> {
    let Some((image, command)) = words.split_first() else {
        bail!("no image is named: `longshore task run [FLAGS] IMAGE [COMMAND ..]`");
    };
    ImageReference::parse(image).with_context(|| format!("image {image:?}"))?;
    let name = flags.take_last("name");
    if let Some(name) = &name {
        check_name(name)?;
    }
    let files = flags.take("env-file");
    let variables = environment_of(&files, &flags.take("env"), here, lookup)?;
    let grace = flags.take_last("stop-timeout").map(|text| {
        let seconds = text.parse::<u32>();
        seconds.with_context(|| format!("--stop-timeout {text:?}: it must be a number of seconds"))
    });
    let grace = grace.transpose()?.map(|seconds| KillPolicy {
        grace_period: Some(nanoseconds(
            u64::from(seconds).saturating_mul(1_000_000_000),
        )),
    });
    let pull = flags.take_last("pull");
    if let Some(pull) = &pull {
        pull_policy(pull)?;
    }
    let health_check = health(&mut flags)?;
    let labels = flags.take("label");
    let mut parameters = Vec::new();
    parameters.extend(pull.map(|value| parameter("pull", value)));
    for (name, value) in flags.into_rest() {
        let value = match name.as_str() {
            "volume" => absolute_source(&value, here),
            _ => value,
        };
        if let Some(problem) = problem(&name, &value) {
            bail!(problem);
        }
        parameters.push(parameter(&name, value));
    }
    for label in &labels {
        if let Some(problem) = problem("label", label) {
            bail!(problem);
        }
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
        bail!(
            "--name {name:?}: it must be 2 to 128 letters, digits, `_`, `.` and `-`, and begin with a letter or digit"
        );
    }
    if name.starts_with("mesos-") {
        bail!("--name {name:?}: a Mesos agent kills containers whose names begin with `mesos-`");
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
fn health(flags: &mut DockerFlags) -> Result<Option<HealthCheck>> {
    let command = flags.take_last("health-cmd");
    let mut seconds = |name: &str, default: f64| -> Result<f64> {
        let Some(text) = flags.take_last(name) else {
            return Ok(default);
        };
        if command.is_none() {
            bail!("--{name} {text:?}: there is nothing to do so without --health-cmd");
        }
        let span = docker_duration(&text)
            .with_context(|| format!("--{name} {text:?}: it must be a time, as 30s or 1m30s"))?;
        Ok(span)
    };
    let interval_seconds = seconds("health-interval", 30.0)?;
    let timeout_seconds = seconds("health-timeout", 30.0)?;
    let grace_period_seconds = seconds("health-start-period", 0.0)?;
    let retries = flags.take_last("health-retries");
    let Some(command) = command else {
        if let Some(text) = retries {
            bail!("--health-retries {text:?}: there is nothing to retry without --health-cmd");
        }
        return Ok(None);
    };
    let retries = retries.map_or(Ok(3), |text| {
        let count = text.parse::<u32>().ok().filter(|count| *count > 0);
        count.with_context(|| format!("--health-retries {text:?}: it must be a number from 1 on"))
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
pub(super) fn from_file(text: &[u8], path: &Path) -> Result<(Built, Vec<String>)> {
    let at = path.display();
    if text.len() > MAX_FILE {
        bail!("{at} has more than {MAX_FILE} bytes, the most that a task may have");
    }
    let mut value: Value =
        serde_json::from_slice(text).with_context(|| format!("{at} is no JSON"))?;
    let Some(members) = value.as_object_mut() else {
        bail!("{at} is no task: it must be a JSON object, a TaskInfo of Mesos");
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
    let read = json::from_slice_reporting::<TaskInfo>(&serde_json::to_vec(&value)?, &limits)
        .with_context(|| format!("{at} is no task"))?;
    let built = Built {
        task: read.message,
        container_name: None,
    };
    Ok((built, read.unknown))
}

/// One variable with its value.
pub(super) fn variable(name: &str, value: String) -> environment::Variable {
    environment::Variable {
        name: name.to_owned(),
        value: Some(value),
        ..environment::Variable::default()
    }
}

#[cfg(test)]
mod tests;
