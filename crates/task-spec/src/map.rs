//! A task to a container: every row of Mesos' mapping.

mod command;
mod environment;
mod linux;
mod network;
mod resources;
mod volumes;

use longshore_engine::{ContainerSpec, ImageReference, PullPolicy};
use longshore_mesos_api::v1::container_info::{DockerInfo, Type as ContainerType};
use longshore_mesos_api::v1::{ContainerInfo, TaskInfo};

use crate::error::{clip, missing, refused};
use crate::flags::{self, FlagTarget};
use crate::{TaskContext, TaskSpecError};

pub use environment::{MAX_ARGUMENT, MAX_ENVIRONMENT};
pub(crate) use volumes::is_volume_name;

/// What a task became.
#[derive(Clone, Debug, PartialEq)]
pub struct MappedTask {
    /// The container.
    pub container: ContainerSpec,
    /// When the image is pulled: as `force_pull_image` says, or the parameter `pull`, the last one.
    pub pull: PullPolicy,
}

/// The container of a task, with the resources of the task and, where it has one, of its executor.
///
/// # Errors
/// The first field that cannot be served, with its value.
pub fn map_task(task: &TaskInfo, context: &TaskContext) -> Result<MappedTask, TaskSpecError> {
    let (info, docker) = docker_of(task)?;
    let command = task.command.as_ref().ok_or_else(|| {
        missing(
            "command",
            "a task needs one, if only with shell = false for the command of the image",
        )
    })?;
    let reference = image(docker)?;
    let mut spec = ContainerSpec {
        name: Some(context.container_name.clone()),
        image: reference.to_string(),
        privileged: docker.privileged(),
        no_healthcheck: true,
        ..ContainerSpec::default()
    };
    resources::map(task, context, &mut spec)?;
    command::map(command, context, &mut spec)?;
    environment::command(command, context, &mut spec)?;
    volumes::map(info, docker, context, &mut spec)?;
    network::map(info, docker, task, &mut spec)?;
    linux::map(info, &mut spec)?;
    let pull = parameters(docker, &mut spec)?;
    network::finish(info, docker, context, &mut spec)?;
    volumes::finish(context, &mut spec)?;
    environment::finish(task, context, &mut spec)?;
    Ok(MappedTask {
        container: spec,
        pull,
    })
}

fn docker_of(task: &TaskInfo) -> Result<(&ContainerInfo, &DockerInfo), TaskSpecError> {
    let info = task
        .container
        .as_ref()
        .ok_or_else(|| missing("container", "only tasks in containers can be run"))?;
    match ContainerType::try_from(info.r#type) {
        Ok(ContainerType::Docker) => {}
        Ok(ContainerType::Mesos) => {
            return Err(refused(
                "container.type",
                "MESOS",
                "only DOCKER can be run here",
            ));
        }
        Err(_) => {
            return Err(refused(
                "container.type",
                info.r#type,
                "only DOCKER can be run here",
            ));
        }
    }
    let docker = info
        .docker
        .as_ref()
        .ok_or_else(|| missing("container.docker", "container.type is DOCKER"))?;
    if info.mesos.is_some() {
        return Err(refused(
            "container.mesos",
            "",
            "container.type is DOCKER: leave it out",
        ));
    }
    Ok((info, docker))
}

fn image(docker: &DockerInfo) -> Result<ImageReference, TaskSpecError> {
    if docker.image.is_empty() {
        return Err(missing("container.docker.image", "name the image to run"));
    }
    ImageReference::parse(&docker.image)
        .map_err(|error| refused("container.docker.image", &docker.image, error.to_string()))
}

/// Docker's own flags, in their order, after all that the task says otherwise: the last one of a kind counts.
/// Gives when the image is pulled, the one flag that is not about the container.
fn parameters(docker: &DockerInfo, spec: &mut ContainerSpec) -> Result<PullPolicy, TaskSpecError> {
    let mut network_given = false;
    let mut pull = match docker.force_pull_image() {
        true => PullPolicy::Always,
        false => PullPolicy::Missing,
    };
    for (index, parameter) in docker.parameters.iter().enumerate() {
        let field = || format!("container.docker.parameters[{index}]");
        // The first one replaces the network of the task; a second one would join another network too.
        if matches!(parameter.key.as_str(), "net" | "network")
            && std::mem::replace(&mut network_given, true)
        {
            return Err(refused(
                field(),
                clip(&parameter.key),
                "it is given twice: name one network",
            ));
        }
        if parameter.key == "pull" {
            pull = flags::pull_policy(&parameter.value)
                .map_err(|problem| refused(field(), "pull", problem.to_string()))?;
            continue;
        }
        flags::apply(spec, FlagTarget::Task, &parameter.key, &parameter.value)
            .map_err(|problem| refused(field(), clip(&parameter.key), problem.to_string()))?;
    }
    Ok(pull)
}

#[cfg(test)]
mod tests;
