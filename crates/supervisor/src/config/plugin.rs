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
mod ground;
mod policy;

use container::container_info;
pub(crate) use ground::Ground;
pub(super) use policy::restart;
use policy::{liveness, positive};

/// One plugin of the configuration, valid and complete.
#[derive(Debug, Clone, PartialEq)]
pub struct PluginSpec {
    /// What the manager is given.
    pub config: PluginConfig,
    /// It is registered with kubelet.
    pub kubelet: bool,
    /// Where it was declared.
    pub origin: Origin,
    /// What this machine lacks for it at the moment, a line each: it fails alone until that is there.
    pub(crate) lacking: Vec<String>,
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

/// All that is wrong with a plugin.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Vec<Refusal>);

impl Refusals {
    fn note(&mut self, key: impl Into<String>, message: impl Into<String>) {
        let (key, message) = (key.into(), message.into());
        self.0.push(Refusal { key, message });
    }

    fn keep<T>(&mut self, result: Result<T, Refusal>) -> Option<T> {
        result.map_err(|refusal| self.0.push(refusal)).ok()
    }
}

/// A `[plugins.NAME]` table; `line` says of a refusal where it is.
pub(crate) fn from_table(
    name: &str,
    raw: &RawPlugin,
    ground: &Ground,
    origin: Origin,
    line: &dyn Fn(Refusal) -> String,
) -> Result<PluginSpec, Vec<Refusal>> {
    let mut refusals = Refusals::default();
    if raw.type_.is_none() {
        refusals.note(
            "type",
            "missing; write the plugin's type, like \"org.example.driver\"",
        );
    }
    let mut containers = Vec::with_capacity(raw.containers.len());
    for (index, container) in raw.containers.iter().enumerate() {
        let mut own = Refusals::default();
        containers.push(container_info(container, &mut own));
        for Refusal { key, message } in own.0 {
            refusals.note(format!("containers[{index}].{key}"), message);
        }
    }
    let endpoint = |service: MesosService, endpoint: &Option<String>| {
        endpoint.clone().map(|endpoint| mesos::CsiPluginEndpoint {
            csi_service: service.into(),
            endpoint,
        })
    };
    let info = mesos::CsiPluginInfo {
        r#type: raw.type_.clone().unwrap_or_default(),
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
    build(name, info, raw, ground, origin, line, refusals)
}

/// A file of the plugin directory.
pub(crate) fn from_info(
    name: &str,
    info: mesos::CsiPluginInfo,
    ground: &Ground,
    origin: Origin,
    line: &dyn Fn(Refusal) -> String,
) -> Result<PluginSpec, Vec<Refusal>> {
    let mut refusals = Refusals::default();
    ground.check_programs(&info, &mut refusals);
    let own = RawPlugin::default();
    build(name, info, &own, ground, origin, line, refusals)
}

fn build(
    name: &str,
    info: mesos::CsiPluginInfo,
    own: &RawPlugin,
    ground: &Ground,
    origin: Origin,
    line: &dyn Fn(Refusal) -> String,
    mut refusals: Refusals,
) -> Result<PluginSpec, Vec<Refusal>> {
    // The operator's name obeys the rules of a plugin's name: it is typed and printed.
    if let Err(error) = PluginName::new(name) {
        refusals.note("", error.to_string());
    }
    check_info(&info, &mut refusals);
    ground.check_images(&info, &mut refusals);
    let offered = refusals.keep(offered(&info)).unwrap_or_default();
    let services = services(own, &info, offered, &mut refusals);
    let defaults = &ground.defaults;
    let span = |own: Option<Span>, default: Span| own.unwrap_or(default).0;
    let mut config = PluginConfig::new(name, info);
    config.services = services.into_iter().collect();
    config.on_unhealthy = match own.on_unhealthy.unwrap_or(defaults.on_unhealthy) {
        RawOnUnhealthy::Restart => OnUnhealthy::Restart,
        RawOnUnhealthy::Report => OnUnhealthy::Report,
    };
    let startup_timeout = span(own.startup_timeout, defaults.startup_timeout);
    if let Some(span) = refusals.keep(positive("startup_timeout", startup_timeout)) {
        config.startup_timeout = span;
    }
    config.kill_grace = span(own.kill_grace, defaults.kill_grace);
    if let Some(policy) = refusals.keep(liveness(&own.liveness, &defaults.liveness)) {
        config.liveness = policy;
    }
    if let Some(policy) = refusals.keep(restart(&own.restart, &defaults.restart)) {
        config.restart = policy;
    }
    let node = config.services.contains(&Service::Node);
    if own.kubelet == Some(true) && !node && refusals.0.is_empty() {
        refusals.note(
            "kubelet",
            "kubelet calls the service \"node\", which is not among the services; add it or leave `kubelet` out",
        );
    }
    let kubelet = own.kubelet.unwrap_or(ground.register && node);
    // By what will be asked for, when nothing is wrong with how it is written.
    let mut lacking = Refusals::default();
    if refusals.0.is_empty() {
        ground.check_launches(&config, &mut refusals, &mut lacking);
    }
    if refusals.0.is_empty() {
        Ok(PluginSpec {
            config,
            kubelet,
            origin,
            lacking: lacking.0.into_iter().map(line).collect(),
        })
    } else {
        Err(refusals.0)
    }
}

/// What is asked of the plugin: what is named, else all that it offers.
fn services(
    own: &RawPlugin,
    info: &mesos::CsiPluginInfo,
    offered: Vec<Service>,
    refusals: &mut Refusals,
) -> Vec<Service> {
    let Some(wanted) = &own.services else {
        return offered;
    };
    if wanted.is_empty() {
        refusals.note(
            "services",
            "empty; name \"controller\", \"node\" or leave it out",
        );
    }
    let mut wanted: Vec<_> = wanted.iter().map(|service| service_of(*service)).collect();
    wanted.sort();
    wanted.dedup();
    for service in wanted.iter().filter(|service| !offered.contains(service)) {
        let what = if info.containers.is_empty() {
            "endpoint"
        } else {
            "container"
        };
        refusals.note(
            "services",
            format!(
                "no {what} offers the service \"{}\"; add it to one or leave it out here",
                service.short()
            ),
        );
    }
    wanted
}

/// The defaults of `[csi]` alone.
pub(crate) fn check_defaults(defaults: &RawCsi) -> Vec<Refusal> {
    let mut refusals = Refusals::default();
    refusals.keep(positive("startup_timeout", defaults.startup_timeout.0));
    refusals.keep(liveness(&RawLiveness::default(), &defaults.liveness));
    refusals.keep(restart(&RawRestart::default(), &defaults.restart));
    refusals.0
}

fn check_info(info: &mesos::CsiPluginInfo, refusals: &mut Refusals) {
    if !info.r#type.is_empty()
        && let Err(error) = PluginType::new(&info.r#type)
    {
        refusals.note("type", error.to_string());
    }
    if let Err(error) = PluginName::new(info.name()) {
        refusals.note("name", error.to_string());
    }
    match (info.containers.is_empty(), info.endpoints.is_empty()) {
        (true, true) => refusals.note(
            "containers",
            "neither containers nor endpoints; add one or the other",
        ),
        (false, false) => refusals.note(
            "endpoints",
            "both containers and endpoints; keep one or the other",
        ),
        _ => {}
    }
    for (index, endpoint) in info.endpoints.iter().enumerate() {
        let message = match endpoint.endpoint.parse::<Endpoint>() {
            // A daemon is anywhere.
            Ok(Endpoint::Unix(path)) if !path.is_absolute() => format!(
                "`{}` is no endpoint: write unix:///PATH, or tcp://HOST:PORT",
                endpoint.endpoint
            ),
            Ok(_) => continue,
            Err(error) => error.to_string(),
        };
        let key = match service_of_number(endpoint.csi_service) {
            Some(service) => format!("endpoints.{}", service.short()),
            None => format!("endpoints[{index}]"),
        };
        refusals.note(key, message);
    }
    for (index, container) in info.containers.iter().enumerate() {
        let key = |key: &str| format!("containers[{index}].{key}");
        if container.services.is_empty() {
            refusals.note(
                key("services"),
                "empty; name \"controller\", \"node\" or both",
            );
        }
        let command = container.command.as_ref();
        let empty = command.is_none_or(|c| c.value.as_deref().is_none_or(str::is_empty));
        if empty && !has_image(container) {
            refusals.note(
                key("command"),
                "missing or empty; write the program and its arguments",
            );
        }
    }
    if let Some(root) = &info.target_path_root
        && !Path::new(root).is_absolute()
    {
        refusals.note(
            "target_path_root",
            format!("`{root}` is not an absolute path"),
        );
    }
}

fn has_image(container: &mesos::CsiPluginContainerInfo) -> bool {
    container.container.as_ref().is_some_and(|container| {
        let mesos = container.mesos.as_ref();
        container.docker.is_some() || mesos.is_some_and(|mesos| mesos.image.is_some())
    })
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

/// Plugins whose containers would carry the same id: (later, earlier, id), once for each later one.
pub(crate) fn collisions<'a>(
    plugins: impl IntoIterator<Item = &'a PluginSpec>,
) -> Vec<(&'a PluginSpec, &'a PluginSpec, String)> {
    let mut seen: BTreeMap<String, &PluginSpec> = BTreeMap::new();
    let mut found: Vec<(&PluginSpec, &PluginSpec, String)> = Vec::new();
    for plugin in plugins {
        for id in plugin.ids() {
            match seen.get(&id) {
                None => {
                    seen.insert(id, plugin);
                }
                Some(earlier) => {
                    let told = found
                        .last()
                        .is_some_and(|(later, _, _)| std::ptr::eq(*later, plugin));
                    if !told {
                        found.push((plugin, earlier, id));
                    }
                }
            }
        }
    }
    found
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
