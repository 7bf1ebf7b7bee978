//! A `[[plugins.NAME.containers]]` table in Mesos' own message.

use std::path::Path;

use longshore_mesos_api::v1 as mesos;
use mesos::csi_plugin_container_info::Service as MesosService;

use super::{Refusal, Refusals, refuse};
use crate::config::raw::{RawContainer, RawMode, RawPropagation, RawService};

/// The container as it is asked for; what is wrong with it goes to `refusals`.
pub(super) fn container_info(
    raw: &RawContainer,
    refusals: &mut Refusals,
) -> mesos::CsiPluginContainerInfo {
    let mut services: Vec<i32> = Vec::new();
    for service in &raw.services {
        let number: i32 = match service {
            RawService::Controller => MesosService::ControllerService,
            RawService::Node => MesosService::NodeService,
        }
        .into();
        if services.contains(&number) {
            refusals.note("services", "names a service twice");
        } else {
            services.push(number);
        }
    }
    mesos::CsiPluginContainerInfo {
        services,
        command: Some(command_info(raw, refusals)),
        resources: refusals.keep(resources(raw)).unwrap_or_default(),
        container: refusals.keep(container(raw)).flatten(),
    }
}

fn command_info(raw: &RawContainer, refusals: &mut Refusals) -> mesos::CommandInfo {
    if raw.command.is_some() && raw.shell.is_some() {
        refusals.note("shell", "both `command` and `shell`; keep one");
    }
    let mut command = match (&raw.command, &raw.shell) {
        (None, Some(line)) => mesos::CommandInfo {
            shell: Some(true),
            value: Some(line.clone()),
            ..Default::default()
        },
        (Some(argv), _) => mesos::CommandInfo {
            shell: Some(false),
            value: argv.first().cloned(),
            arguments: argv.clone(),
            ..Default::default()
        },
        // The image's own.
        (None, None) if raw.image.is_some() => mesos::CommandInfo {
            shell: Some(false),
            ..Default::default()
        },
        (None, None) => mesos::CommandInfo::default(),
    };
    let program = raw.command.as_ref().and_then(|argv| argv.first());
    if let Some(program) = program
        && raw.image.is_none()
        && !program.is_empty()
        && !Path::new(program).is_absolute()
    {
        refusals.note(
            "command",
            format!(
                "`{program}` is not an absolute path; write it like \"/usr/bin/driver\", or use `shell`"
            ),
        );
    }
    command.user.clone_from(&raw.user);
    let mut variables = Vec::with_capacity(raw.env.len());
    for (name, value) in &raw.env {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            refusals.note(
                format!("env.\"{name}\""),
                "not a name and value that an environment can hold",
            );
            continue;
        }
        variables.push(mesos::environment::Variable {
            name: name.clone(),
            value: Some(value.clone()),
            ..Default::default()
        });
    }
    if !variables.is_empty() {
        command.environment = Some(mesos::Environment { variables });
    }
    command
}

fn resources(raw: &RawContainer) -> Result<Vec<mesos::Resource>, Refusal> {
    let scalar = |name: &str, value: f64| mesos::Resource {
        name: name.to_owned(),
        r#type: mesos::value::Type::Scalar.into(),
        scalar: Some(mesos::value::Scalar { value }),
        ..Default::default()
    };
    let mut found = Vec::new();
    if let Some(cpus) = raw.resources.cpus {
        if !(cpus.is_finite() && cpus > 0.0) {
            return refuse(
                "resources.cpus",
                format!("{cpus} is not a number of CPUs above 0"),
            );
        }
        found.push(scalar("cpus", cpus));
    }
    if let Some(mem) = raw.resources.mem {
        // Mesos counts memory in MiB.
        let mib = u32::try_from(mem.0 >> 20).unwrap_or(u32::MAX);
        if mib == 0 {
            return refuse("resources.mem", "less than 1MiB; write it like \"64MiB\"");
        }
        found.push(scalar("mem", f64::from(mib)));
    }
    Ok(found)
}

fn container(raw: &RawContainer) -> Result<Option<mesos::ContainerInfo>, Refusal> {
    if raw.volumes.is_empty() && raw.image.is_none() {
        return Ok(None);
    }
    let mut volumes = Vec::with_capacity(raw.volumes.len());
    for (index, volume) in raw.volumes.iter().enumerate() {
        let inside = volume.container.as_ref().unwrap_or(&volume.host);
        for (key, path) in [("host", &volume.host), ("container", inside)] {
            if !Path::new(path).is_absolute() {
                return refuse(
                    format!("volumes[{index}].{key}"),
                    format!("`{path}` is not an absolute path"),
                );
            }
        }
        let propagation = match volume.propagation {
            RawPropagation::Private => None,
            RawPropagation::Slave => Some(mesos::mount_propagation::Mode::HostToContainer),
            RawPropagation::Bidirectional => Some(mesos::mount_propagation::Mode::Bidirectional),
        };
        volumes.push(mesos::Volume {
            container_path: inside.clone(),
            mode: match volume.mode {
                RawMode::Rw => mesos::volume::Mode::Rw,
                RawMode::Ro => mesos::volume::Mode::Ro,
            }
            .into(),
            source: Some(mesos::volume::Source {
                r#type: Some(mesos::volume::source::Type::HostPath.into()),
                host_path: Some(mesos::volume::source::HostPath {
                    path: volume.host.clone(),
                    mount_propagation: propagation.map(|mode| mesos::MountPropagation {
                        mode: Some(mode.into()),
                    }),
                }),
                ..Default::default()
            }),
            ..Default::default()
        });
    }
    let mesos_info = raw
        .image
        .as_ref()
        .map(|image| mesos::container_info::MesosInfo {
            image: Some(mesos::Image {
                r#type: mesos::image::Type::Docker.into(),
                docker: Some(mesos::image::Docker {
                    name: image.clone(),
                    ..Default::default()
                }),
                ..Default::default()
            }),
        });
    Ok(Some(mesos::ContainerInfo {
        r#type: mesos::container_info::Type::Mesos.into(),
        volumes,
        mesos: mesos_info,
        ..Default::default()
    }))
}
