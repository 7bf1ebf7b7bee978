//! A plugin as configured: checked, with the defaults filled in, in Mesos' own message.

use std::collections::BTreeMap;
use std::path::Path;

use longshore_csi_manager::{OnUnhealthy, PluginConfig};
use longshore_csi_probe::Endpoint;
use longshore_mesos_api::v1 as mesos;
use longshore_paths::{PluginName, PluginType, Service, csi_container_id};
use mesos::csi_plugin_container_info::Service as MesosService;

use super::error::Origin;
use super::raw::{RawCsi, RawLiveness, RawOnUnhealthy, RawPlugin, RawRestart, RawService};
use super::units::Span;

mod container;
mod policy;

use container::container_info;
use policy::{liveness, positive, restart};

/// One plugin of the configuration, valid and complete.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginSpec {
    /// What the manager is given.
    pub config: PluginConfig,
    /// Where it was declared.
    pub origin: Origin,
}

/// A value that is not acceptable: its key below the plugin, and what is wrong.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) key: String,
    pub(crate) message: String,
}

fn refuse<T>(key: impl Into<String>, message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal {
        key: key.into(),
        message: message.into(),
    })
}

/// A `[plugins.NAME]` table.
pub(crate) fn from_table(
    name: &str,
    raw: &RawPlugin,
    defaults: &RawCsi,
    origin: Origin,
) -> Result<PluginSpec, Refusal> {
    let Some(plugin_type) = raw.type_.clone() else {
        return refuse(
            "type",
            "missing; write the plugin's type, like \"org.example.driver\"",
        );
    };
    let mut containers = Vec::with_capacity(raw.containers.len());
    for (index, container) in raw.containers.iter().enumerate() {
        let container = container_info(container).map_err(|refusal| Refusal {
            key: format!("containers[{index}].{}", refusal.key),
            ..refusal
        })?;
        containers.push(container);
    }
    let endpoint = |service: MesosService, endpoint: &Option<String>| {
        endpoint.clone().map(|endpoint| mesos::CsiPluginEndpoint {
            csi_service: service.into(),
            endpoint,
        })
    };
    let info = mesos::CsiPluginInfo {
        r#type: plugin_type,
        name: raw.name.clone(),
        containers,
        endpoints: [
            endpoint(MesosService::ControllerService, &raw.endpoints.controller),
            endpoint(MesosService::NodeService, &raw.endpoints.node),
        ]
        .into_iter()
        .flatten()
        .collect(),
        target_path_root: raw.target_path_root.clone(),
        target_path_exists: raw.target_path_exists,
    };
    let wanted = raw.services.as_ref().map(|wanted| {
        wanted
            .iter()
            .map(|service| service_of(*service))
            .collect::<Vec<_>>()
    });
    build(name, info, wanted, raw, defaults, origin)
}

/// A file of the plugin directory.
pub(crate) fn from_info(
    name: &str,
    info: mesos::CsiPluginInfo,
    defaults: &RawCsi,
    origin: Origin,
) -> Result<PluginSpec, Refusal> {
    build(name, info, None, &RawPlugin::default(), defaults, origin)
}

fn build(
    name: &str,
    info: mesos::CsiPluginInfo,
    wanted: Option<Vec<Service>>,
    own: &RawPlugin,
    defaults: &RawCsi,
    origin: Origin,
) -> Result<PluginSpec, Refusal> {
    // The operator's name obeys the rules of a plugin's name: it is typed and printed.
    if let Err(error) = PluginName::new(name) {
        return refuse("", error.to_string());
    }
    check_info(&info)?;
    let offered = offered(&info)?;
    let services = match wanted {
        None => offered.clone(),
        Some(wanted) if wanted.is_empty() => {
            return refuse(
                "services",
                "empty; name \"controller\", \"node\" or leave it out",
            );
        }
        Some(mut wanted) => {
            wanted.sort();
            wanted.dedup();
            wanted
        }
    };
    for service in &services {
        if !offered.contains(service) {
            let what = if info.containers.is_empty() {
                "endpoint"
            } else {
                "container"
            };
            return refuse(
                "services",
                format!(
                    "no {what} offers the service \"{}\"; add it to one or leave it out here",
                    service.short()
                ),
            );
        }
    }
    let span = |own: Option<Span>, default: Span| own.unwrap_or(default).0;
    let mut config = PluginConfig::new(name, info);
    config.services = services.into_iter().collect();
    config.on_unhealthy = match own.on_unhealthy.unwrap_or(defaults.on_unhealthy) {
        RawOnUnhealthy::Restart => OnUnhealthy::Restart,
        RawOnUnhealthy::Report => OnUnhealthy::Report,
    };
    config.startup_timeout = positive(
        "startup_timeout",
        span(own.startup_timeout, defaults.startup_timeout),
    )?;
    config.kill_grace = span(own.kill_grace, defaults.kill_grace);
    config.liveness = liveness(&own.liveness, &defaults.liveness)?;
    config.restart = restart(&own.restart, &defaults.restart)?;
    Ok(PluginSpec { config, origin })
}

/// The defaults of `[csi]` alone.
pub(crate) fn check_defaults(defaults: &RawCsi) -> Result<(), Refusal> {
    positive("startup_timeout", defaults.startup_timeout.0)?;
    liveness(&RawLiveness::default(), &defaults.liveness)?;
    restart(&RawRestart::default(), &defaults.restart)?;
    Ok(())
}

fn check_info(info: &mesos::CsiPluginInfo) -> Result<(), Refusal> {
    if let Err(error) = PluginType::new(&info.r#type) {
        return refuse("type", error.to_string());
    }
    if let Err(error) = PluginName::new(info.name()) {
        return refuse("name", error.to_string());
    }
    match (info.containers.is_empty(), info.endpoints.is_empty()) {
        (true, true) => {
            return refuse(
                "containers",
                "neither containers nor endpoints; add one or the other",
            );
        }
        (false, false) => {
            return refuse(
                "endpoints",
                "both containers and endpoints; keep one or the other",
            );
        }
        _ => {}
    }
    for (index, endpoint) in info.endpoints.iter().enumerate() {
        if let Err(error) = endpoint.endpoint.parse::<Endpoint>() {
            let key = match service_of_number(endpoint.csi_service) {
                Some(service) => format!("endpoints.{}", service.short()),
                None => format!("endpoints[{index}]"),
            };
            return refuse(key, error.to_string());
        }
    }
    for (index, container) in info.containers.iter().enumerate() {
        let key = |key: &str| format!("containers[{index}].{key}");
        if container.services.is_empty() {
            return refuse(
                key("services"),
                "empty; name \"controller\", \"node\" or both",
            );
        }
        let command = container.command.as_ref();
        let image = container.container.as_ref().is_some_and(|container| {
            container.docker.is_some()
                || container
                    .mesos
                    .as_ref()
                    .is_some_and(|mesos| mesos.image.is_some())
        });
        let empty = command.is_none_or(|c| c.value.as_deref().is_none_or(str::is_empty));
        if empty && !image {
            return refuse(
                key("command"),
                "missing or empty; write the program and its arguments",
            );
        }
    }
    if let Some(root) = &info.target_path_root
        && !Path::new(root).is_absolute()
    {
        return refuse(
            "target_path_root",
            format!("`{root}` is not an absolute path"),
        );
    }
    Ok(())
}

/// The services that containers or endpoints offer, in order, each once.
fn offered(info: &mesos::CsiPluginInfo) -> Result<Vec<Service>, Refusal> {
    let mut services = Vec::new();
    let containers = info
        .containers
        .iter()
        .enumerate()
        .flat_map(|(index, container)| {
            container
                .services
                .iter()
                .map(move |service| (format!("containers[{index}].services"), *service))
        });
    let endpoints = info.endpoints.iter().enumerate().map(|(index, endpoint)| {
        (
            format!("endpoints[{index}].csi_service"),
            endpoint.csi_service,
        )
    });
    for (key, number) in containers.chain(endpoints) {
        match service_of_number(number) {
            Some(service) => services.push(service),
            None => {
                return refuse(
                    key,
                    "not a CSI service; write CONTROLLER_SERVICE or NODE_SERVICE",
                );
            }
        }
    }
    services.sort();
    services.dedup();
    Ok(services)
}

/// Plugins whose containers would carry the same id: the pairs (later, earlier, id).
pub(crate) fn first_collision<'a>(
    plugins: impl IntoIterator<Item = &'a PluginSpec>,
) -> Option<(&'a PluginSpec, &'a PluginSpec, String)> {
    let mut seen: BTreeMap<String, &PluginSpec> = BTreeMap::new();
    for plugin in plugins {
        for id in plugin.ids() {
            if let Some(earlier) = seen.insert(id.clone(), plugin) {
                return Some((plugin, earlier, id));
            }
        }
    }
    None
}

impl PluginSpec {
    /// The operator's name for it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// What must be unique: container ids without their prefix, and the plugin's own directory.
    fn ids(&self) -> Vec<String> {
        let info = &self.config.info;
        let (Ok(plugin_type), Ok(name)) =
            (PluginType::new(&info.r#type), PluginName::new(info.name()))
        else {
            return Vec::new();
        };
        let containers = info.containers.iter().filter_map(|container| {
            let services: Vec<_> = container
                .services
                .iter()
                .filter_map(|s| service_of_number(*s))
                .collect();
            csi_container_id("", &plugin_type, &name, &services).ok()
        });
        let mut ids: Vec<String> = containers.map(|id| id.to_string()).collect();
        ids.push(format!("{plugin_type}/{name}"));
        ids
    }
}

fn service_of(raw: RawService) -> Service {
    match raw {
        RawService::Controller => Service::Controller,
        RawService::Node => Service::Node,
    }
}

fn service_of_number(number: i32) -> Option<Service> {
    match MesosService::try_from(number) {
        Ok(MesosService::ControllerService) => Some(Service::Controller),
        Ok(MesosService::NodeService) => Some(Service::Node),
        Ok(MesosService::Unknown) | Err(_) => None,
    }
}
