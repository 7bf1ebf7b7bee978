//! One test a row of the mapping, named by the row.

mod accepted;
mod refused;

use longshore_mesos_api::v1::{Resource, value};
use longshore_mesos_api::{DecodeLimits, json};

use super::*;
use crate::Sandbox;

const MIB: u64 = 1024 * 1024;
const GIB: u64 = 1024 * MIB;

fn context() -> TaskContext {
    TaskContext {
        container_name: "longshore-1".to_owned(),
        sandbox: Some(Sandbox {
            host: "/var/lib/x/sandbox".to_owned(),
            mapped: "/mnt/mesos/sandbox".to_owned(),
        }),
        task_environment: Vec::new(),
        default_dns: crate::DefaultDns::default(),
        enable_cfs: false,
        host_memory: 16 * GIB,
        prepared_by_agent: true,
    }
}

/// A task with these members of `container.docker`, `container` and the task itself, in JSON, each with its comma.
fn task(docker: &str, container: &str, rest: &str) -> TaskInfo {
    let command = if rest.contains("\"command\"") {
        ""
    } else {
        r#""command":{"shell":false},"#
    };
    let text = format!(
        r#"{{{command}{rest}"name":"t","task_id":{{"value":"t"}},"agent_id":{{"value":"a"}},
            "container":{{"type":"DOCKER",{container}"docker":{{{docker}"image":"busybox"}}}}}}"#
    );
    json::from_slice(text.as_bytes(), &DecodeLimits::default())
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn map(docker: &str, container: &str, rest: &str) -> ContainerSpec {
    map_with(&context(), docker, container, rest)
}

fn map_with(context: &TaskContext, docker: &str, container: &str, rest: &str) -> ContainerSpec {
    map_task(&task(docker, container, rest), context)
        .unwrap()
        .container
}

/// The error, which must hold every one of these texts.
fn refuse(context: &TaskContext, task: &TaskInfo, texts: &[&str]) {
    let error = match map_task(task, context) {
        Ok(mapped) => panic!("{texts:?}: not refused: {mapped:?}"),
        Err(error) => error.to_string(),
    };
    for text in texts {
        assert!(error.contains(text), "{text:?} is not in {error:?}");
    }
}

fn scalar(name: &str, value: f64) -> Resource {
    Resource {
        name: name.to_owned(),
        r#type: value::Type::Scalar.into(),
        scalar: Some(value::Scalar { value }),
        ..Resource::default()
    }
}

/// Resources and limits by number, since JSON has no infinity.
fn with_resources(resources: &[(&str, f64)], limits: &[(&str, f64)]) -> TaskInfo {
    let mut task = task("", "", "");
    task.resources = resources
        .iter()
        .map(|(name, value)| scalar(name, *value))
        .collect();
    task.limits = limits
        .iter()
        .map(|(name, value)| ((*name).to_owned(), value::Scalar { value: *value }))
        .collect();
    task
}
