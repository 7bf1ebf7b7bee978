//! The checks of one plugin's configuration, part by part.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use longshore_csi_probe::Endpoint;
use longshore_mesos_api::v1::CsiPluginContainerInfo;
use longshore_paths::{
    PluginName, PluginType, Service, check_socket_path, csi_container_id, short_id,
};

use super::{Draft, Places};
use crate::config::PluginConfig;
use crate::error::ManagerError;

pub(super) fn check_settings(config: &PluginConfig) -> Result<(), ManagerError> {
    let wrong = |setting, value: Duration, expected| ManagerError::Setting {
        plugin: config.name.clone(),
        setting,
        value: format!("{value:?}"),
        expected,
    };
    let day = Duration::from_secs(86_400);
    if config.startup_timeout.is_zero() || config.startup_timeout > day {
        return Err(wrong(
            "startup_timeout",
            config.startup_timeout,
            "over 0 and at most a day",
        ));
    }
    if config.kill_grace > day {
        return Err(wrong("kill_grace", config.kill_grace, "at most a day"));
    }
    if let Some(liveness) = &config.liveness {
        let (interval, timeout) = (liveness.interval, liveness.timeout);
        if interval < Duration::from_millis(1) || interval > day {
            return Err(wrong("liveness.interval", interval, "from 1ms to a day"));
        }
        if timeout.is_zero() || timeout > day {
            return Err(wrong(
                "liveness.timeout",
                timeout,
                "over 0 and at most a day",
            ));
        }
    }
    if config.name.is_empty() {
        return Err(ManagerError::Setting {
            plugin: String::new(),
            setting: "name",
            value: "empty".to_owned(),
            expected: "a name",
        });
    }
    Ok(())
}

pub(super) fn endpoints(
    config: &PluginConfig,
) -> Result<BTreeMap<Service, Endpoint>, ManagerError> {
    let mut endpoints = BTreeMap::new();
    for entry in &config.info.endpoints {
        let service = service(config, entry.csi_service)?;
        let endpoint = entry
            .endpoint
            .parse()
            .map_err(|source| ManagerError::Endpoint {
                plugin: config.name.clone(),
                endpoint: entry.endpoint.clone(),
                source: Box::new(source),
            })?;
        // The first one of a service counts, as in Mesos.
        endpoints.entry(service).or_insert(endpoint);
    }
    Ok(endpoints)
}

pub(super) fn drafts(
    config: &PluginConfig,
    ty: &PluginType,
    name: &PluginName,
    places: &Places,
) -> Result<Vec<Draft>, ManagerError> {
    let path = |source| ManagerError::Path {
        plugin: config.name.clone(),
        source: Box::new(source),
    };
    let mut drafts: Vec<Draft> = Vec::with_capacity(config.info.containers.len());
    for (entry, container) in config.info.containers.iter().enumerate() {
        let services = services_of(container).map_err(|number| ManagerError::UnknownService {
            plugin: config.name.clone(),
            number,
        })?;
        let id = csi_container_id(&places.prefix(), ty, name, &services).map_err(path)?;
        if drafts.iter().any(|draft| draft.id == id) {
            let (first, second) = (config.name.clone(), config.name.clone());
            return Err(ManagerError::DuplicateContainer {
                first,
                second,
                id: id.to_string(),
            });
        }
        let short = short_id(&places.instance, &id);
        check_socket_path(&places.runtime.csi_socket(&short)).map_err(path)?;
        drafts.push(Draft {
            id,
            services,
            entry,
            short,
        });
    }
    Ok(drafts)
}

pub(super) fn service(config: &PluginConfig, number: i32) -> Result<Service, ManagerError> {
    Service::from_number(number).ok_or_else(|| ManagerError::UnknownService {
        plugin: config.name.clone(),
        number,
    })
}

/// Sorted and without doubles; an unknown number is the error.
pub(super) fn services_of(container: &CsiPluginContainerInfo) -> Result<Vec<Service>, i32> {
    let known = |number: &i32| Service::from_number(*number).ok_or(*number);
    let services: BTreeSet<Service> = container
        .services
        .iter()
        .map(known)
        .collect::<Result<_, _>>()?;
    Ok(services.into_iter().collect())
}

/// The container that serves a service: the first that offers it.
pub(super) fn first(drafts: &[Draft], service: Service) -> Option<usize> {
    drafts
        .iter()
        .position(|draft| draft.services.contains(&service))
}
