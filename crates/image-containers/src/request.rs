//! A launch as a task, and back: pure.

use std::collections::BTreeMap;

use longshore_agent::service::{LaunchError, LaunchErrorKind, LaunchRequest};
use longshore_mesos_api::v1::container_info::docker_info::Network;
use longshore_mesos_api::v1::container_info::{DockerInfo, Type};
use longshore_mesos_api::v1::{
    AgentId, CommandInfo, ContainerInfo, Image, TaskId, TaskInfo, image,
};
use longshore_paths::ContainerId;
use longshore_task_spec::{DefaultDns, Sandbox, TaskContext, map_task};

use crate::SANDBOX;

/// Judges a request by what it says.
///
/// # Errors
/// With the text of the answer.
pub(crate) fn check(request: &LaunchRequest) -> Result<(), LaunchError> {
    let bad = |message: String| LaunchError {
        kind: LaunchErrorKind::BadRequest,
        message,
    };
    if let Some(image) = image_of(request.container.as_ref()) {
        check_image(image).map_err(bad)?;
    }
    let context = TaskContext {
        container_name: "container".to_owned(),
        // No rule is about where it is.
        sandbox: Some(Sandbox {
            host: "/".to_owned(),
            mapped: SANDBOX.to_owned(),
        }),
        task_environment: Vec::new(),
        default_dns: DefaultDns::default(),
        enable_cfs: false,
        host_memory: 0,
        prepared_by_agent: false,
    };
    map_task(&to_task(request), &context)
        .map(drop)
        .map_err(|error| bad(error.to_string()))
}

fn image_of(container: Option<&ContainerInfo>) -> Option<&Image> {
    container?.mesos.as_ref()?.image.as_ref()
}

/// What the Mesos containerizer can do with an image and an engine cannot.
fn check_image(image: &Image) -> Result<(), String> {
    let Some(docker) = image
        .docker
        .as_ref()
        .filter(|_| image.r#type() == image::Type::Docker)
    else {
        let kind = image.r#type().as_str_name();
        return Err(format!(
            "container.mesos.image.type {kind}: only images of type DOCKER can be run, with 'docker' set"
        ));
    };
    if docker.config.is_some() {
        return Err(
            "container.mesos.image.docker.config: credentials are those of docker's own \
                    configuration file; leave it out"
                .to_owned(),
        );
    }
    Ok(())
}

/// The task of a request; whether it can be is for [`check`] to say.
pub(crate) fn to_task(request: &LaunchRequest) -> TaskInfo {
    let id = request.id.to_string();
    TaskInfo {
        name: id.clone(),
        task_id: TaskId { value: id },
        // A status names it; nobody reads it here.
        agent_id: AgentId::default(),
        command: Some(command_of(request)),
        container: request.container.clone().map(as_docker),
        resources: request.resources.clone(),
        limits: request.limits.clone().into_iter().collect(),
        ..TaskInfo::default()
    }
}

/// The command as the docker executor reads it; without one the image's own is run.
///
/// For type MESOS the arguments begin with the program's own name, as for a process; for type DOCKER they follow
/// the program.
fn command_of(request: &LaunchRequest) -> CommandInfo {
    let Some(mut command) = request.command.clone() else {
        return CommandInfo {
            shell: Some(false),
            ..CommandInfo::default()
        };
    };
    let is_process_form = image_of(request.container.as_ref()).is_some();
    if is_process_form
        && !command.shell()
        && command.value.is_some()
        && !command.arguments.is_empty()
    {
        command.arguments.remove(0);
    }
    command
}

/// Type MESOS with an image as type DOCKER: on the network of the host, as the Mesos containerizer has it where no
/// network is named.
fn as_docker(mut container: ContainerInfo) -> ContainerInfo {
    let Some(image) = container.mesos.take().and_then(|mesos| mesos.image) else {
        return container;
    };
    if container.r#type() != Type::Mesos {
        return container;
    }
    container.r#type = Type::Docker.into();
    let network = if container.network_infos.is_empty() {
        Network::Host
    } else {
        Network::User
    };
    container.docker = Some(DockerInfo {
        image: image.docker.map(|docker| docker.name).unwrap_or_default(),
        network: Some(network.into()),
        force_pull_image: image.cached.map(|cached| !cached),
        ..DockerInfo::default()
    });
    container
}

/// The request that a task was made of, as far as the agent asks for it again.
pub(crate) fn of_task(task: &TaskInfo) -> Option<LaunchRequest> {
    let id: ContainerId = task.task_id.value.parse().ok()?;
    Some(LaunchRequest {
        id,
        command: task.command.clone(),
        container: task.container.clone(),
        resources: task.resources.clone(),
        limits: task.limits.clone().into_iter().collect::<BTreeMap<_, _>>(),
    })
}

#[cfg(test)]
mod tests;
