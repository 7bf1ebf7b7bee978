//! What no engine could take, refused before it is sent: engines truncate at a NUL, read a colon as
//! the end of a path, or answer with a message that names no field.

use crate::EngineError;
use crate::exec::ExecSpec;
use crate::spec::{ContainerSpec, EnvVar, Mount, MountKind, Resources};

pub(crate) fn invalid(field: &'static str, value: &str, reason: &'static str) -> EngineError {
    EngineError::InvalidSpec {
        field,
        value: value.chars().take(200).collect(),
        reason,
    }
}

pub(crate) fn spec(spec: &ContainerSpec) -> Result<(), EngineError> {
    if spec.image.is_empty() {
        return Err(invalid("Image", "", "is empty"));
    }
    if let Some(name) = &spec.name
        && !(is_id(name) && name.len() > 1)
    {
        let reason = "is not two or more letters, digits, `_`, `.` and `-`, beginning with a letter or digit";
        return Err(invalid("name", name, reason));
    }
    texts("Image", [&spec.image])?;
    texts("Entrypoint", spec.entrypoint.iter().flatten())?;
    texts("Cmd", spec.cmd.iter().flatten())?;
    variables(&spec.env)?;
    let unset = spec.unset_env.iter().map(|name| EnvVar::new(name, ""));
    variables(&unset.collect::<Vec<_>>())?;
    texts(
        "Labels",
        spec.labels.iter().flat_map(|(key, value)| [key, value]),
    )?;
    if spec.labels.contains_key("") {
        return Err(invalid("Labels", "", "is an empty key"));
    }
    texts("User", &spec.user)?;
    texts("Hostname", &spec.hostname)?;
    if let Some(path) = &spec.working_dir {
        absolute("WorkingDir", path)?;
    }
    for path in spec.tmpfs.keys() {
        absolute("HostConfig.Tmpfs", path)?;
    }
    for one in &spec.mounts {
        mount(one)?;
    }
    if let Some(score) = spec.oom_score_adj
        && !(-1000..=1000).contains(&score)
    {
        let reason = "is not within -1000 and 1000";
        return Err(invalid(
            "HostConfig.OomScoreAdj",
            &score.to_string(),
            reason,
        ));
    }
    for port in spec.ports.iter().map(|port| port.container_port) {
        if port == 0 {
            return Err(invalid(
                "HostConfig.PortBindings",
                "0",
                "is no port of a container",
            ));
        }
    }
    resources(&spec.resources)
}

/// A command for a container.
pub(crate) fn exec(spec: &ExecSpec) -> Result<(), EngineError> {
    if spec.cmd.is_empty() {
        return Err(invalid("Cmd", "", "is empty"));
    }
    texts("Cmd", &spec.cmd)?;
    variables(&spec.env)
}

/// What an update takes.
pub(crate) fn update(update: &Resources) -> Result<(), EngineError> {
    let not_taken = [
        ("MemorySwappiness", update.memory_swappiness.is_some()),
        ("OomKillDisable", update.oom_kill_disable.is_some()),
        ("Ulimits", !update.ulimits.is_empty()),
        ("Devices", !update.devices.is_empty()),
        ("DeviceCgroupRules", !update.device_cgroup_rules.is_empty()),
        ("DeviceRequests", !update.device_requests.is_empty()),
    ];
    if let Some((field, _)) = not_taken.iter().find(|(_, set)| *set) {
        return Err(invalid(field, "..", "cannot be changed by an update"));
    }
    resources(update)
}

pub(crate) fn resources(resources: &Resources) -> Result<(), EngineError> {
    for device in &resources.devices {
        absolute("HostConfig.Devices.PathOnHost", &device.path_on_host)?;
        absolute(
            "HostConfig.Devices.PathInContainer",
            &device.path_in_container,
        )?;
        let permissions = &device.permissions;
        let good =
            !permissions.is_empty() && permissions.bytes().all(|byte| b"rwm".contains(&byte));
        if !good {
            let reason = "is not one or more of r, w and m";
            return Err(invalid(
                "HostConfig.Devices.CgroupPermissions",
                permissions,
                reason,
            ));
        }
    }
    for limit in &resources.ulimits {
        let unlimited = |value: i64| if value == -1 { i64::MAX } else { value };
        if limit.soft < -1 || limit.hard < -1 || unlimited(limit.soft) > unlimited(limit.hard) {
            let reason = "has a soft limit above its hard one, or one below -1";
            return Err(invalid("HostConfig.Ulimits", &limit.name, reason));
        }
    }
    Ok(())
}

pub(crate) fn variables(variables: &[EnvVar]) -> Result<(), EngineError> {
    for variable in variables {
        let name = &variable.name;
        if name.is_empty() || name.contains(['=', '\0']) {
            let reason = "is no name of a variable: it is empty, or has a `=` or NUL";
            return Err(invalid("Env", name, reason));
        }
        if variable.value.contains('\0') {
            return Err(invalid("Env", name, "has a value with a NUL"));
        }
    }
    Ok(())
}

fn mount(mount: &Mount) -> Result<(), EngineError> {
    absolute("HostConfig.Mounts.Target", &mount.target)?;
    match &mount.kind {
        MountKind::Bind { source, .. } => absolute("HostConfig.Mounts.Source", source),
        MountKind::Volume { name, .. } => {
            texts("HostConfig.Mounts.Source", name)?;
            match name {
                Some(name) if name.contains('/') => {
                    let reason = "is a path, not the name of a volume";
                    Err(invalid("HostConfig.Mounts.Source", name, reason))
                }
                _ => Ok(()),
            }
        }
        MountKind::Tmpfs { .. } | MountKind::Image { .. } => Ok(()),
    }
}

/// No text has a NUL.
pub(crate) fn texts<'a>(
    field: &'static str,
    texts: impl IntoIterator<Item = &'a String>,
) -> Result<(), EngineError> {
    for text in texts {
        if text.contains('\0') {
            return Err(invalid(field, text, "has a NUL"));
        }
    }
    Ok(())
}

fn absolute(field: &'static str, path: &str) -> Result<(), EngineError> {
    if !path.starts_with('/') {
        return Err(invalid(field, path, "is not an absolute path"));
    }
    if path.contains('\0') {
        return Err(invalid(field, path, "has a NUL"));
    }
    Ok(())
}

/// What may stand in the path of a request as an id or a name.
pub(crate) fn is_id(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric();
    text.len() <= 256
        && text.bytes().next().is_some_and(plain)
        && text
            .bytes()
            .all(|byte| plain(byte) || b"_.-".contains(&byte))
}
