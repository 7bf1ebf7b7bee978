//! The rules for commands and containers.

use longshore_mesos_api::v1::container_info::Type as ContainerType;
use longshore_mesos_api::v1::environment::variable::Type as VariableType;
use longshore_mesos_api::v1::volume::source::Type as SourceType;
use longshore_mesos_api::v1::{
    CommandInfo, ContainerInfo, Environment, RLimitInfo, Secret, Volume, r_limit_info, secret,
    volume,
};

use super::Broken;

/// The environment is consistent, and nothing that goes into `execve` has a NUL byte.
pub(super) fn check_command(command: &CommandInfo) -> Result<(), Broken> {
    if let Some(environment) = &command.environment {
        check_environment(environment)?;
    }
    let strings = command
        .value
        .iter()
        .chain(&command.arguments)
        .chain(&command.user);
    for string in strings {
        if string.contains('\0') {
            return Err("a command cannot have a NUL byte".into());
        }
    }
    Ok(())
}

/// The type has what it needs and each volume is one thing.
pub(super) fn check_container(container: &ContainerInfo) -> Result<(), Broken> {
    for volume in &container.volumes {
        check_volume(volume)
            .map_err(|broken| format!("Volume at '{}': {broken}", volume.container_path))?;
    }
    if let Some(rlimits) = &container.rlimit_info {
        check_rlimits(rlimits)?;
    }
    match ContainerType::try_from(container.r#type) {
        Ok(ContainerType::Mesos) => Ok(()),
        Ok(ContainerType::Docker) => check_docker(container),
        Err(_) => Err("'type' must be MESOS or DOCKER".into()),
    }
}

fn check_docker(container: &ContainerInfo) -> Result<(), Broken> {
    let Some(docker) = &container.docker else {
        return Err("'docker' must be set for a container of type DOCKER".into());
    };
    if docker
        .parameters
        .iter()
        .any(|parameter| parameter.key == "name")
    {
        return Err(
            "a parameter in 'docker' must not be 'name': the agent names containers".into(),
        );
    }
    Ok(())
}

fn check_environment(environment: &Environment) -> Result<(), Broken> {
    for variable in &environment.variables {
        let name = &variable.name;
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(format!(
                "Environment variable {name:?} has a name that cannot be set"
            ));
        }
        let of_type = |kind: &str, must: &str| {
            Err(format!(
                "Environment variable '{name}' of type '{kind}' must {must}"
            ))
        };
        match VariableType::try_from(variable.r#type.unwrap_or(VariableType::Value.into())) {
            Ok(VariableType::Value) => match (&variable.value, &variable.secret) {
                (None, _) => return of_type("VALUE", "have a value set"),
                (_, Some(_)) => return of_type("VALUE", "not have a secret set"),
                (Some(value), None) if value.contains('\0') => {
                    return of_type("VALUE", "not have a NUL byte in its value");
                }
                (Some(_), None) => {}
            },
            Ok(VariableType::Secret) => match (&variable.value, &variable.secret) {
                (_, None) => return of_type("SECRET", "have a secret set"),
                (Some(_), _) => return of_type("SECRET", "not have a value set"),
                (None, Some(secret)) => {
                    check_secret(secret)
                        .map_err(|broken| format!("Environment variable '{name}': {broken}"))?;
                    if secret
                        .value
                        .as_ref()
                        .is_some_and(|value| value.data.contains(&0))
                    {
                        return of_type("SECRET", "not have a NUL byte in its secret");
                    }
                }
            },
            Ok(VariableType::Unknown) | Err(_) => {
                return Err(format!("Environment variable '{name}' has an unknown type"));
            }
        }
    }
    Ok(())
}

fn check_secret(secret: &Secret) -> Result<(), Broken> {
    match (
        secret::Type::try_from(secret.r#type.unwrap_or_default()),
        &secret.reference,
        &secret.value,
    ) {
        (Ok(secret::Type::Reference), Some(_), None) | (Ok(secret::Type::Value), None, Some(_)) => {
            Ok(())
        }
        (Ok(secret::Type::Reference), _, _) => {
            Err("a secret of type REFERENCE has a reference and no value".into())
        }
        (Ok(secret::Type::Value), _, _) => {
            Err("a secret of type VALUE has a value and no reference".into())
        }
        (Ok(secret::Type::Unknown) | Err(_), _, _) => Err("a secret of an unknown type".into()),
    }
}

fn check_volume(volume: &Volume) -> Result<(), Broken> {
    if volume.container_path.is_empty() || volume.container_path.contains('\0') {
        return Err("'container_path' must be a path".into());
    }
    if volume::Mode::try_from(volume.mode).is_err() {
        return Err("'mode' must be RW or RO".into());
    }
    match (&volume.host_path, &volume.image, &volume.source) {
        (Some(path), None, None) if path.is_empty() || path.contains('\0') => {
            Err("'host_path' must be a path".into())
        }
        (Some(_), None, None) | (None, Some(_), None) => Ok(()),
        (None, None, Some(source)) => check_source(source),
        _ => Err("exactly one of 'host_path', 'image' and 'source' must be set".into()),
    }
}

fn check_source(source: &volume::Source) -> Result<(), Broken> {
    let (payload, set) = match SourceType::try_from(source.r#type.unwrap_or_default()) {
        Ok(SourceType::DockerVolume) => ("docker_volume", source.docker_volume.is_some()),
        Ok(SourceType::HostPath) => {
            let path = source.host_path.as_ref();
            if path.is_some_and(|host| host.path.is_empty() || host.path.contains('\0')) {
                return Err("'source.host_path.path' must be a path".into());
            }
            ("host_path", path.is_some())
        }
        Ok(SourceType::SandboxPath) => ("sandbox_path", source.sandbox_path.is_some()),
        Ok(SourceType::Secret) => {
            if let Some(secret) = &source.secret {
                check_secret(secret)?;
            }
            ("secret", source.secret.is_some())
        }
        Ok(SourceType::CsiVolume) => {
            let csi = source.csi_volume.as_ref();
            if csi.is_some_and(|csi| csi.static_provisioning.is_none()) {
                return Err("'source.csi_volume.static_provisioning' must be set".into());
            }
            ("csi_volume", csi.is_some())
        }
        Ok(SourceType::Unknown) | Err(_) => return Err("'source.type' is unknown".into()),
    };
    if set {
        Ok(())
    } else {
        Err(format!(
            "'source.{payload}' must be set, as 'source.type' says"
        ))
    }
}

fn check_rlimits(rlimits: &RLimitInfo) -> Result<(), Broken> {
    use r_limit_info::r_limit::Type;
    let mut seen = Vec::new();
    for rlimit in &rlimits.rlimits {
        let kind = match Type::try_from(rlimit.r#type.unwrap_or_default()) {
            Ok(Type::Unknown) | Err(_) => return Err("a resource limit has an unknown type".into()),
            Ok(kind) => kind,
        };
        let name = kind.as_str_name();
        if seen.contains(&kind) {
            return Err(format!("the resource limit {name} is given twice"));
        }
        seen.push(kind);
        match (rlimit.soft, rlimit.hard) {
            (Some(soft), Some(hard)) if soft > hard => {
                return Err(format!(
                    "the resource limit {name} has a soft limit over the hard one"
                ));
            }
            (Some(_), Some(_)) | (None, None) => {}
            _ => {
                return Err(format!(
                    "the resource limit {name} must have both limits or none"
                ));
            }
        }
    }
    Ok(())
}
