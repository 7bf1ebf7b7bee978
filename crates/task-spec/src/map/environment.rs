//! Environment variables: those of the command, those of the agent's hooks, those that every task gets.

use longshore_engine::{ContainerSpec, EnvVar};
use longshore_mesos_api::v1::{CommandInfo, TaskInfo};
use longshore_mesos_api::variables;

use crate::error::refused;
use crate::{TaskContext, TaskSpecError};

/// The kernel takes less than this in one word or variable, its NUL included (`MAX_ARG_STRLEN`): 128 KiB.
pub const MAX_ARGUMENT: usize = 128 * 1024;
/// What the variables of one task may be together, in bytes: half of what the kernel leaves for arguments and
/// environment under the usual stack limit.
pub const MAX_ENVIRONMENT: usize = 1024 * 1024;

/// The command's own, under those of the agent's hooks.
pub(super) fn command(
    command: &CommandInfo,
    context: &TaskContext,
    spec: &mut ContainerSpec,
) -> Result<(), TaskSpecError> {
    let own = variables(command.environment.as_ref())
        .map_err(|error| refused("command.environment", &error.name, error.problem))?;
    for (name, value) in own
        .into_iter()
        .chain(context.task_environment.iter().cloned())
    {
        set(&mut spec.env, &name, value);
    }
    Ok(())
}

/// What every task gets, over whatever it says itself; then the sorting, and the bounds.
pub(super) fn finish(
    task: &TaskInfo,
    context: &TaskContext,
    spec: &mut ContainerSpec,
) -> Result<(), TaskSpecError> {
    // A parameter may have added one a second time.
    let given = std::mem::take(&mut spec.env);
    for variable in given {
        set(&mut spec.env, &variable.name, variable.value);
    }
    if let Some(sandbox) = &context.sandbox {
        set(&mut spec.env, "MESOS_SANDBOX", sandbox.mapped.clone());
    }
    set(
        &mut spec.env,
        "MESOS_CONTAINER_NAME",
        context.container_name.clone(),
    );
    let role = task.resources.iter().find_map(|resource| {
        resource
            .allocation_info
            .as_ref()
            .and_then(|allocation| allocation.role.clone())
    });
    if let Some(role) = role {
        set(&mut spec.env, "MESOS_ALLOCATION_ROLE", role);
    }
    spec.env.sort_by(|a, b| a.name.cmp(&b.name));
    bound(&spec.env)
}

fn bound(all: &[EnvVar]) -> Result<(), TaskSpecError> {
    let mut total = 0usize;
    for variable in all {
        // `=` and NUL.
        let size = variable.name.len() + variable.value.len() + 2;
        if size > MAX_ARGUMENT {
            return Err(refused(
                "command.environment",
                &variable.name,
                format!(
                    "it has {size} bytes, and the kernel takes {MAX_ARGUMENT} in one variable: mount a file"
                ),
            ));
        }
        total = total.saturating_add(size);
    }
    if total > MAX_ENVIRONMENT {
        return Err(refused(
            "command.environment",
            format!("{} variables", all.len()),
            format!("they have {total} bytes together, more than {MAX_ENVIRONMENT}: mount a file"),
        ));
    }
    Ok(())
}

fn set(all: &mut Vec<EnvVar>, name: &str, value: String) {
    match all.iter_mut().find(|known| known.name == name) {
        Some(known) => known.value = value,
        None => all.push(EnvVar::new(name, value)),
    }
}
