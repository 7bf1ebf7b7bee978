//! What a call has to look like before it reaches the containers, as pure functions.
//!
//! A [`Call`] becomes an [`Order`], or the 400 that a Mesos agent's validation answers (section 5.2 of the survey:
//! identifiers, resources, environment, volumes, container type, the rules of nesting). What only the containers can
//! tell (an unknown user, a missing parent, what this host cannot do) is not asked here.

mod container;
mod resources;

use std::collections::BTreeMap;

use longshore_mesos_api::v1;
use longshore_mesos_api::v1::agent::call::Type as CallType;
use longshore_mesos_api::v1::agent::call::attach_container_input::Type as InputType;
use longshore_mesos_api::v1::agent::{Call, call};
use longshore_paths::ContainerId;

use super::refusal::Refusal;
use crate::service::LaunchRequest;

/// What a valid call asks for.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Order {
    GetHealth,
    GetVersion,
    GetAgent,
    GetContainers {
        nested: bool,
        standalone: bool,
    },
    /// Of an output file; every other path is none that there is.
    Read {
        path: String,
        offset: u64,
        length: u64,
    },
    Launch(Box<LaunchRequest>),
    Wait {
        id: ContainerId,
        /// The deprecated WAIT_NESTED_CONTAINER, whose answer has another name.
        twin: bool,
    },
    Kill {
        id: ContainerId,
        signal: i32,
    },
    Remove {
        id: ContainerId,
    },
    /// Well formed, but not served here.
    NotServed,
}

/// A rule that a call breaks, in words.
pub(crate) type Broken = String;

/// Most parents of a container, so 32 levels in all, as in Mesos and in [`ContainerId`].
const DEPTH_MAX: usize = 31;

const SIGKILL: i32 = 9;

/// The call's type; absent, or a number that no version of Mesos knows, is a 400.
pub(crate) fn call_type(call: &Call) -> Result<CallType, Refusal> {
    call.r#type
        .and_then(|number| CallType::try_from(number).ok())
        .ok_or_else(|| missing("type"))
}

/// Validates the call and takes it apart.
#[expect(deprecated, reason = "the deprecated nested twins are still served")]
pub(crate) fn order(kind: CallType, call: Call) -> Result<Order, Refusal> {
    match kind {
        CallType::GetHealth => Ok(Order::GetHealth),
        CallType::GetVersion => Ok(Order::GetVersion),
        CallType::GetAgent => Ok(Order::GetAgent),
        CallType::GetContainers => {
            let show = call.get_containers.unwrap_or_default();
            Ok(Order::GetContainers {
                nested: show.show_nested(),
                standalone: show.show_standalone(),
            })
        }
        CallType::ReadFile => {
            let call::ReadFile {
                path,
                offset,
                length,
            } = present("read_file", call.read_file)?;
            Ok(Order::Read {
                path,
                offset,
                length: length.unwrap_or(u64::MAX),
            })
        }
        CallType::LaunchContainer => launch(present("launch_container", call.launch_container)?),
        CallType::LaunchNestedContainer => launch_twin(present(
            "launch_nested_container",
            call.launch_nested_container,
        )?),
        CallType::WaitContainer => {
            let wait = present("wait_container", call.wait_container)?;
            Ok(Order::Wait {
                id: id("wait_container", &wait.container_id)?,
                twin: false,
            })
        }
        CallType::WaitNestedContainer => {
            let wait = present("wait_nested_container", call.wait_nested_container)?;
            Ok(Order::Wait {
                id: nested_id("wait_nested_container", &wait.container_id)?,
                twin: true,
            })
        }
        CallType::KillContainer => {
            let kill = present("kill_container", call.kill_container)?;
            let signal = kill.signal.unwrap_or(SIGKILL);
            Ok(Order::Kill {
                id: id("kill_container", &kill.container_id)?,
                signal,
            })
        }
        CallType::KillNestedContainer => {
            let kill = present("kill_nested_container", call.kill_nested_container)?;
            let signal = kill.signal.unwrap_or(SIGKILL);
            Ok(Order::Kill {
                id: nested_id("kill_nested_container", &kill.container_id)?,
                signal,
            })
        }
        CallType::RemoveContainer => {
            let remove = present("remove_container", call.remove_container)?;
            Ok(Order::Remove {
                id: id("remove_container", &remove.container_id)?,
            })
        }
        CallType::RemoveNestedContainer => {
            let remove = present("remove_nested_container", call.remove_nested_container)?;
            Ok(Order::Remove {
                id: nested_id("remove_nested_container", &remove.container_id)?,
            })
        }
        CallType::LaunchNestedContainerSession => {
            let name = "launch_nested_container_session";
            let session = present(name, call.launch_nested_container_session)?;
            nested_id(name, &session.container_id).map(|_| Order::NotServed)
        }
        CallType::AttachContainerOutput => {
            let name = "attach_container_output";
            let attach = present(name, call.attach_container_output)?;
            id(name, &attach.container_id).map(|_| Order::NotServed)
        }
        CallType::AttachContainerInput => attach_input(&present(
            "attach_container_input",
            call.attach_container_input,
        )?),
        _ => Ok(Order::NotServed),
    }
}

/// The first record names the container; the others belong to a stream that is never begun here.
fn attach_input(attach: &call::AttachContainerInput) -> Result<Order, Refusal> {
    let name = "attach_container_input";
    match (attach.r#type(), &attach.container_id, &attach.process_io) {
        (InputType::ContainerId, Some(container_id), _) => id(name, container_id).map(drop)?,
        (InputType::ContainerId, None, _) => return Err(missing(&format!("{name}.container_id"))),
        (InputType::ProcessIo, _, Some(_)) => {}
        (InputType::ProcessIo, _, None) => return Err(missing(&format!("{name}.process_io"))),
        (InputType::Unknown, _, _) => return Err(missing(&format!("{name}.type"))),
    }
    Ok(Order::NotServed)
}

fn launch(launch: call::LaunchContainer) -> Result<Order, Refusal> {
    let name = "launch_container";
    let call::LaunchContainer {
        container_id,
        command,
        resources,
        container,
        limits,
    } = launch;
    let id = id(name, &container_id)?;
    let depth = depth(&container_id);
    resources::check(&resources, depth == 0)
        .map_err(|broken| Refusal::invalid_call(format!("Invalid resources: {broken}")))?;
    resources::check_limits(&limits).map_err(|broken| invalid(name, "limits", broken))?;
    check_command(name, command.as_ref())?;
    check_container(name, container.as_ref())?;
    check_nesting(
        name,
        depth,
        !resources.is_empty(),
        !limits.is_empty(),
        container.as_ref(),
    )?;
    Ok(Order::Launch(Box::new(LaunchRequest {
        id,
        command,
        container,
        resources,
        limits,
    })))
}

/// LAUNCH_NESTED_CONTAINER: a parent is required, and there are no resources to give.
fn launch_twin(launch: call::LaunchNestedContainer) -> Result<Order, Refusal> {
    let name = "launch_nested_container";
    let call::LaunchNestedContainer {
        container_id,
        command,
        container,
    } = launch;
    let id = nested_id(name, &container_id)?;
    check_command(name, command.as_ref())?;
    check_container(name, container.as_ref())?;
    check_nesting(name, depth(&container_id), false, false, container.as_ref())?;
    let (resources, limits) = (Vec::new(), BTreeMap::new());
    Ok(Order::Launch(Box::new(LaunchRequest {
        id,
        command,
        container,
        resources,
        limits,
    })))
}

fn check_command(name: &str, command: Option<&v1::CommandInfo>) -> Result<(), Refusal> {
    let Some(command) = command else {
        return Ok(());
    };
    container::check_command(command).map_err(|broken| invalid(name, "command", broken))
}

fn check_container(name: &str, info: Option<&v1::ContainerInfo>) -> Result<(), Refusal> {
    let Some(info) = info else { return Ok(()) };
    container::check_container(info).map_err(|broken| invalid(name, "container", broken))
}

/// Who shares whose cgroups: a top-level container has none to share, and a container nested twice always shares.
fn check_nesting(
    name: &str,
    depth: usize,
    has_resources: bool,
    has_limits: bool,
    container: Option<&v1::ContainerInfo>,
) -> Result<(), Refusal> {
    let share_cgroups = container
        .and_then(|info| info.linux_info.as_ref())
        .and_then(|linux| linux.share_cgroups);
    match depth {
        0 if share_cgroups == Some(true) => Err(invalid(
            name,
            "container.linux_info",
            "'share_cgroups' cannot be set on a container without a parent",
        )),
        0 | 1 => Ok(()),
        _ if has_resources => Err(Refusal::invalid_call(format!(
            "'{name}.resources' cannot be set on a container nested below another nested one"
        ))),
        _ if has_limits => Err(Refusal::invalid_call(format!(
            "'{name}.limits' cannot be set on a container nested below another nested one"
        ))),
        _ if share_cgroups == Some(false) => Err(invalid(
            name,
            "container.linux_info",
            "'share_cgroups' must be true on a container nested below another nested one",
        )),
        _ => Ok(()),
    }
}

fn present<T>(name: &str, message: Option<T>) -> Result<T, Refusal> {
    message.ok_or_else(|| missing(name))
}

fn missing(name: &str) -> Refusal {
    Refusal::invalid_call(format!("Expecting '{name}' to be present"))
}

fn invalid(call: &str, field: &str, broken: impl std::fmt::Display) -> Refusal {
    Refusal::invalid_call(format!("'{call}.{field}' is invalid: {broken}"))
}

/// How many parents a container has; the walk is bounded as `id` is.
fn depth(id: &v1::ContainerId) -> usize {
    std::iter::successors(id.parent.as_deref(), |parent| parent.parent.as_deref())
        .take(DEPTH_MAX + 1)
        .count()
}

fn nested_id(call: &str, id_message: &v1::ContainerId) -> Result<ContainerId, Refusal> {
    if id_message.parent.is_none() {
        return Err(missing(&format!("{call}.container_id.parent")));
    }
    id(call, id_message)
}

/// Validates the id and its parents, the root first.
fn id(call: &str, id: &v1::ContainerId) -> Result<ContainerId, Refusal> {
    if depth(id) > DEPTH_MAX {
        let broken = format!("it is nested more than {DEPTH_MAX} levels deep");
        return Err(invalid(call, "container_id", broken));
    }
    let mut chain: Vec<&str> = std::iter::successors(Some(id), |id| id.parent.as_deref())
        .map(|id| id.value.as_str())
        .collect();
    chain.reverse();
    let mut built: Option<ContainerId> = None;
    for value in chain {
        let next = match &built {
            None => ContainerId::new(value),
            Some(parent) => ContainerId::nested(parent, value),
        };
        built = Some(next.map_err(|error| invalid(call, "container_id", error))?);
    }
    built.ok_or_else(|| missing(&format!("{call}.container_id")))
}

#[cfg(test)]
mod tests;
