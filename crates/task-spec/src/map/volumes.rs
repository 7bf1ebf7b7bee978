//! Volumes, and the sandbox as the last of them.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use longshore_engine::spec::Propagation;
use longshore_engine::{ContainerSpec, Mount, MountKind};
use longshore_mesos_api::v1::container_info::DockerInfo;
use longshore_mesos_api::v1::mount_propagation::Mode as PropagationMode;
use longshore_mesos_api::v1::volume::source::sandbox_path::Type as SandboxType;
use longshore_mesos_api::v1::volume::source::{
    DockerVolume, HostPath, SandboxPath, Type as SourceType,
};
use longshore_mesos_api::v1::volume::{Mode, Source};
use longshore_mesos_api::v1::{ContainerInfo, Volume};

use crate::error::{missing, refused};
use crate::{TaskContext, TaskSpecError};

pub(super) fn map(
    info: &ContainerInfo,
    docker: &DockerInfo,
    context: &TaskContext,
    spec: &mut ContainerSpec,
) -> Result<(), TaskSpecError> {
    spec.volume_driver = driver(info, docker)?;
    for (index, volume) in info.volumes.iter().enumerate() {
        let one = One {
            field: format!("container.volumes[{index}]"),
            volume,
            context,
            driver: spec.volume_driver.as_deref(),
        };
        let mount = one.mount()?;
        spec.mounts.push(mount);
    }
    Ok(())
}

/// The sandbox is mounted last. No two mounts may have one place: an engine would say so, but not which.
pub(super) fn finish(context: &TaskContext, spec: &mut ContainerSpec) -> Result<(), TaskSpecError> {
    if let Some(sandbox) = &context.sandbox {
        let mut mount = Mount::bind(&sandbox.host, &sandbox.mapped);
        if let MountKind::Bind { create_source, .. } = &mut mount.kind {
            *create_source = false;
        }
        spec.mounts.push(mount);
    }
    let mut seen: Vec<&str> = Vec::new();
    for mount in &spec.mounts {
        let target = mount.target.trim_end_matches('/');
        if seen.contains(&target) {
            return Err(refused(
                "container.volumes",
                &mount.target,
                "two volumes have this path in the container",
            ));
        }
        seen.push(target);
    }
    Ok(())
}

/// The one driver that all volumes agree on.
#[expect(deprecated, reason = "old schedulers name the driver there")]
fn driver(info: &ContainerInfo, docker: &DockerInfo) -> Result<Option<String>, TaskSpecError> {
    let of_volumes = info
        .volumes
        .iter()
        .enumerate()
        .filter_map(|(index, volume)| {
            let source = volume.source.as_ref()?.docker_volume.as_ref()?;
            let driver = source.driver.as_ref()?;
            Some((
                format!("container.volumes[{index}].source.docker_volume.driver"),
                driver,
            ))
        });
    let old = docker.volume_driver.iter();
    let old = old.map(|driver| ("container.docker.volume_driver".to_owned(), driver));
    let mut found: Option<&String> = None;
    for (field, driver) in old.chain(of_volumes) {
        if driver.is_empty() {
            return Err(refused(
                field,
                driver,
                "it names no driver: leave it out for the engine's own",
            ));
        }
        match found {
            Some(first) if first != driver => {
                return Err(refused(
                    field,
                    driver,
                    format!(
                        "another volume has the driver {first:?}, and a task can have one only"
                    ),
                ));
            }
            _ => found = Some(driver),
        }
    }
    Ok(found.cloned())
}

struct One<'a> {
    field: String,
    volume: &'a Volume,
    context: &'a TaskContext,
    driver: Option<&'a str>,
}

impl One<'_> {
    fn mount(&self) -> Result<Mount, TaskSpecError> {
        let read_only = match Mode::try_from(self.volume.mode) {
            Ok(Mode::Rw) => false,
            Ok(Mode::Ro) => true,
            Err(_) => return Err(self.refuse("mode", self.volume.mode, "it must be RW or RO")),
        };
        let path = self.volume.container_path.as_str();
        if path.is_empty() || path.contains('\0') {
            return Err(self.refuse("container_path", path, "it is no path"));
        }
        let mut mount = match (
            &self.volume.host_path,
            &self.volume.image,
            &self.volume.source,
        ) {
            (Some(host), None, None) => self.host_path(host)?,
            (None, None, Some(source)) => self.source(source)?,
            (None, Some(image), None) => {
                let name = image.docker.as_ref().map(|docker| docker.name.as_str());
                return Err(self.refuse(
                    "image",
                    name.unwrap_or("APPC"),
                    "an image cannot be mounted as a volume",
                ));
            }
            (None, None, None) => {
                return Err(missing(&self.field, "it needs a host_path or a source"));
            }
            _ => {
                return Err(self.refuse(
                    "",
                    path,
                    "only one of host_path, image and source may be set",
                ));
            }
        };
        mount.read_only = read_only;
        Ok(mount)
    }

    fn source(&self, source: &Source) -> Result<Mount, TaskSpecError> {
        let kind = source.r#type.unwrap_or_default();
        let lacks = |name: &str| {
            missing(
                format!("{}.source.{name}", self.field),
                "source.type names it",
            )
        };
        match SourceType::try_from(kind) {
            Ok(SourceType::DockerVolume) => {
                let volume = source.docker_volume.as_ref();
                self.docker_volume(volume.ok_or_else(|| lacks("docker_volume"))?)
            }
            Ok(SourceType::HostPath) => {
                let host = source.host_path.as_ref().ok_or_else(|| lacks("host_path"))?;
                self.source_host_path(host)
            }
            Ok(SourceType::SandboxPath) => {
                let path = source.sandbox_path.as_ref();
                self.sandbox_path(path.ok_or_else(|| lacks("sandbox_path"))?)
            }
            Ok(SourceType::Secret) => Err(self.refuse(
                "source.type",
                "SECRET",
                "there is nowhere to keep its file: give it as an environment variable of type SECRET",
            )),
            Ok(SourceType::CsiVolume) => Err(self.refuse(
                "source.type",
                "CSI_VOLUME",
                "nothing publishes it for a docker container: publish it and mount its path",
            )),
            Ok(SourceType::Unknown) | Err(_) => {
                Err(self.refuse("source.type", kind, "it is none of DOCKER_VOLUME, HOST_PATH and SANDBOX_PATH"))
            }
        }
    }

    /// With a volume driver, a relative one is the name of a volume.
    fn host_path(&self, host: &str) -> Result<Mount, TaskSpecError> {
        if let Some(driver) = self.driver
            && !host.starts_with('/')
        {
            if !is_volume_name(host) {
                return Err(self.refuse(
                    "host_path",
                    host,
                    "with a volume driver it must be the name of a volume",
                ));
            }
            let mut mount = Mount::volume(host, self.target("host_path", host, true)?);
            if let MountKind::Volume { driver: of, .. } = &mut mount.kind {
                *of = Some(driver.to_owned());
            }
            return Ok(mount);
        }
        let target = self.target("host_path", host, host.starts_with('/'))?;
        Ok(Mount::bind(self.host("host_path", host)?, target))
    }

    fn source_host_path(&self, host: &HostPath) -> Result<Mount, TaskSpecError> {
        let field = "source.host_path.path";
        let target = self.target(field, &host.path, host.path.starts_with('/'))?;
        let mut mount = Mount::bind(self.host(field, &host.path)?, target);
        let mode = host
            .mount_propagation
            .as_ref()
            .and_then(|propagation| propagation.mode);
        let wanted = match mode.map(PropagationMode::try_from) {
            None | Some(Ok(PropagationMode::Unknown)) => None,
            Some(Ok(PropagationMode::HostToContainer)) => Some(Propagation::RSlave),
            Some(Ok(PropagationMode::Bidirectional)) => Some(Propagation::RShared),
            Some(Err(_)) => {
                let number = mode.unwrap_or_default();
                return Err(self.refuse(
                    "source.host_path.mount_propagation.mode",
                    number,
                    "it is unknown",
                ));
            }
        };
        if let MountKind::Bind { propagation, .. } = &mut mount.kind {
            *propagation = wanted;
        }
        Ok(mount)
    }

    fn docker_volume(&self, volume: &DockerVolume) -> Result<Mount, TaskSpecError> {
        let field = "source.docker_volume.name";
        if !is_volume_name(&volume.name) {
            return Err(self.refuse(
                field,
                &volume.name,
                "a volume has letters, digits, `_`, `.` and `-`",
            ));
        }
        let target = self.target(field, &volume.name, true)?;
        let mut options = BTreeMap::new();
        for option in volume
            .driver_options
            .iter()
            .flat_map(|options| &options.parameter)
        {
            if options
                .insert(option.key.clone(), option.value.clone())
                .is_some()
            {
                return Err(self.refuse(
                    "source.docker_volume.driver_options",
                    &option.key,
                    "it is given twice",
                ));
            }
        }
        let mut mount = Mount::volume(&volume.name, target);
        if let MountKind::Volume {
            driver,
            driver_options,
            ..
        } = &mut mount.kind
        {
            *driver = volume
                .driver
                .clone()
                .or_else(|| self.driver.map(str::to_owned));
            *driver_options = options;
        }
        Ok(mount)
    }

    fn sandbox_path(&self, path: &SandboxPath) -> Result<Mount, TaskSpecError> {
        let field = "source.sandbox_path";
        match SandboxType::try_from(path.r#type.unwrap_or_default()) {
            // Without a type it is the task's own, as in the days before there were types.
            Ok(SandboxType::Self_ | SandboxType::Unknown) => {}
            Ok(SandboxType::Parent) => {
                return Err(self.refuse(
                    &format!("{field}.type"),
                    "PARENT",
                    "a docker container has no parent",
                ));
            }
            Err(_) => {
                let number = path.r#type.unwrap_or_default();
                return Err(self.refuse(&format!("{field}.type"), number, "it is unknown"));
            }
        }
        let field = format!("{field}.path");
        if path.path.starts_with('/') {
            return Err(self.refuse(&field, &path.path, "it must be relative to the sandbox"));
        }
        let target = self.target(&field, &path.path, true)?;
        Ok(Mount::bind(self.host(&field, &path.path)?, target))
    }

    /// The path on the host; a relative one lies in the sandbox.
    fn host(&self, field: &str, host: &str) -> Result<String, TaskSpecError> {
        if host.is_empty() || host.contains('\0') {
            return Err(self.refuse(field, host, "it is no path"));
        }
        if host.starts_with('/') {
            return Ok(host.to_owned());
        }
        self.inside(field, host, |sandbox| &sandbox.host)
    }

    /// The path in the container; a relative one lies in the mapped sandbox, and then the other half must not.
    fn target(
        &self,
        field: &str,
        host: &str,
        host_is_elsewhere: bool,
    ) -> Result<String, TaskSpecError> {
        let path = self.volume.container_path.as_str();
        if path.starts_with('/') {
            return Ok(path.to_owned());
        }
        if !host_is_elsewhere {
            return Err(self.refuse(
                field,
                host,
                &format!(
                    "it is relative and so is container_path {path:?}: one of them must be absolute"
                ),
            ));
        }
        self.inside("container_path", path, |sandbox| &sandbox.mapped)
    }

    fn inside(
        &self,
        field: &str,
        path: &str,
        base: fn(&crate::Sandbox) -> &String,
    ) -> Result<String, TaskSpecError> {
        let plain = Path::new(path)
            .components()
            .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
        if !plain {
            return Err(self.refuse(field, path, "it leads out of the sandbox"));
        }
        let sandbox = self.context.sandbox.as_ref().ok_or_else(|| {
            self.refuse(
                field,
                path,
                "it is relative, and this task has no sandbox: write an absolute path",
            )
        })?;
        let base = base(sandbox).trim_end_matches('/');
        Ok(format!("{base}/{path}"))
    }

    fn refuse(&self, field: &str, value: impl std::fmt::Display, problem: &str) -> TaskSpecError {
        let dot = if field.is_empty() { "" } else { "." };
        refused(format!("{}{dot}{field}", self.field), value, problem)
    }
}

/// Docker's rule for names of volumes.
pub(crate) fn is_volume_name(name: &str) -> bool {
    name.len() >= 2
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'))
}
