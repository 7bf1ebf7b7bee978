//! A configuration that has been checked: what is to run, under which ids, at which sockets. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use longshore_csi_probe::Endpoint;
use longshore_mesos_api::v1::agent::call::LaunchContainer;
use longshore_mesos_api::v1::{CsiPluginContainerInfo, CsiPluginInfo};
use longshore_paths::{
    ContainerId, InstanceId, PluginName, PluginType, RuntimeDir, Service, StateRoot, short_id,
};
use prost::Message;
use sha2::{Digest, Sha256};

use crate::config::PluginConfig;
use crate::error::ManagerError;
use crate::host::shown;
use crate::launch::{LaunchHash, Surroundings, launch_request};
use crate::record::ContainerRecord;
use crate::shared::in_parts;

mod check;
#[cfg(test)]
mod tests;

use check::{check_settings, drafts, endpoints, first, services_of};

/// What every plan is made in.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    pub(crate) state: StateRoot,
    pub(crate) runtime: RuntimeDir,
    pub(crate) instance: InstanceId,
}

impl Places {
    /// What every container id of this root begins with.
    pub(crate) fn prefix(&self) -> String {
        format!("longshore-{}-csi-", self.instance)
    }
}

/// One plugin as it is to be.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) config: PluginConfig,
    pub(crate) ty: PluginType,
    pub(crate) plugin_name: PluginName,
    /// The wanted services.
    pub(crate) services: BTreeSet<Service>,
    pub(crate) kind: Kind,
    /// Of the plugin's `CSIPluginInfo`: within it version and name are fixed.
    pub(crate) configuration: LaunchHash,
}

#[derive(Debug)]
pub(crate) enum Kind {
    Managed(Vec<Draft>),
    Unmanaged(BTreeMap<Service, Endpoint>),
}

/// A container before the agent's id is known, which is part of its request.
#[derive(Debug)]
pub(crate) struct Draft {
    pub(crate) id: ContainerId,
    /// Everything it offers, sorted: a mere reorder is no change.
    pub(crate) services: Vec<Service>,
    /// Which entry of `CSIPluginInfo.containers` it is.
    pub(crate) entry: usize,
    pub(crate) short: String,
}

/// A container with its request's hash, from the configuration or from its record.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) id: ContainerId,
    pub(crate) services: Vec<Service>,
    pub(crate) short: String,
    pub(crate) hash: LaunchHash,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Config {
        plan: Arc<Plan>,
        entry: usize,
        agent_id: Option<Arc<str>>,
    },
    Record(Box<ContainerRecord>),
}

impl Plan {
    /// Checks one plugin. Nothing on disk is touched.
    pub(crate) fn new(config: PluginConfig, places: &Places) -> Result<Self, ManagerError> {
        check_settings(&config)?;
        let plugin = config.name.clone();
        let path = |source| ManagerError::Path {
            plugin: plugin.clone(),
            source: Box::new(source),
        };
        let ty = PluginType::new(&config.info.r#type).map_err(path)?;
        let plugin_name = PluginName::new(config.info.name()).map_err(path)?;
        let (kind, offered) = match (
            config.info.containers.is_empty(),
            config.info.endpoints.is_empty(),
        ) {
            (true, true) => return Err(ManagerError::NothingToRun { plugin }),
            (false, false) => return Err(ManagerError::BothKinds { plugin }),
            (true, false) => {
                let endpoints = endpoints(&config)?;
                let offered: BTreeSet<_> = endpoints.keys().copied().collect();
                (Kind::Unmanaged(endpoints), offered)
            }
            (false, true) => {
                let drafts = drafts(&config, &ty, &plugin_name, places)?;
                let offered = drafts
                    .iter()
                    .flat_map(|d| d.services.iter().copied())
                    .collect();
                (Kind::Managed(drafts), offered)
            }
        };
        let services = if config.services.is_empty() {
            offered.clone()
        } else {
            config.services.clone()
        };
        if let Some(service) = services.difference(&offered).next() {
            return Err(ManagerError::ServiceNotOffered {
                plugin,
                service: *service,
            });
        }
        let kind = match kind {
            // Each service is served by the first container that offers it; others do not run.
            Kind::Managed(drafts) => {
                let serves = |at: usize| services.iter().any(|s| first(&drafts, *s) == Some(at));
                let used: Vec<bool> = (0..drafts.len()).map(serves).collect();
                let used = drafts.into_iter().zip(used).filter(|(_, used)| *used);
                Kind::Managed(used.map(|(draft, _)| draft).collect())
            }
            Kind::Unmanaged(mut endpoints) => {
                endpoints.retain(|service, _| services.contains(service));
                Kind::Unmanaged(endpoints)
            }
        };
        let configuration = LaunchHash::of(&config.info.encode_to_vec());
        Ok(Self {
            config,
            ty,
            plugin_name,
            services,
            kind,
            configuration,
        })
    }

    /// A plan from the records of a plugin that left the configuration.
    pub(crate) fn of_records(
        records: &[ContainerRecord],
        places: &Places,
    ) -> Result<Self, ManagerError> {
        let first = records.first();
        let name = first
            .map(|record| record.plugin.clone())
            .unwrap_or_default();
        let mut info = CsiPluginInfo::default();
        for record in records {
            info.r#type.clone_from(&record.plugin_type);
            info.name = Some(record.plugin_name.clone());
            if let Ok(container) = CsiPluginContainerInfo::decode(record.info.as_slice()) {
                info.containers.push(container);
            }
        }
        let mut config = PluginConfig::new(name, info);
        if let Some(record) = first {
            config.kill_grace = Duration::from_millis(record.grace_ms);
        }
        Self::new(config, places)
    }

    pub(crate) fn name(&self) -> &str {
        &self.config.name
    }

    pub(crate) fn drafts(&self) -> &[Draft] {
        match &self.kind {
            Kind::Managed(drafts) => drafts,
            Kind::Unmanaged(_) => &[],
        }
    }

    pub(crate) fn needs_agent_id(&self) -> bool {
        self.drafts()
            .iter()
            .any(|draft| draft.services.contains(&Service::Node))
    }

    /// Where its volumes are mounted: the mount root, and `target_path_root`.
    pub(crate) fn mount_roots(&self, places: &Places) -> Vec<PathBuf> {
        let root = places.state.csi().mount_root(&self.ty, &self.plugin_name);
        let target = self
            .config
            .info
            .target_path_root
            .clone()
            .filter(|root| !root.is_empty());
        std::iter::once(root)
            .chain(target.map(PathBuf::from))
            .collect()
    }

    /// All containers with their hashes.
    pub(crate) fn planned(
        self: &Arc<Self>,
        places: &Places,
        agent_id: Option<&Arc<str>>,
    ) -> Vec<Planned> {
        let one = |draft: &Draft| {
            let agent_id = agent_id
                .filter(|_| draft.services.contains(&Service::Node))
                .cloned();
            let entry = draft.entry;
            let (_, hash) = self.request(
                draft.id.value(),
                entry,
                &draft.short,
                places,
                agent_id.as_deref(),
            );
            Planned {
                id: draft.id.clone(),
                services: draft.services.clone(),
                short: draft.short.clone(),
                hash,
                source: Source::Config {
                    plan: Arc::clone(self),
                    entry,
                    agent_id,
                },
            }
        };
        self.drafts().iter().map(one).collect()
    }

    fn request(
        &self,
        id: &str,
        entry: usize,
        short: &str,
        places: &Places,
        agent_id: Option<&str>,
    ) -> (LaunchContainer, LaunchHash) {
        let socket = shown(&places.runtime.csi_socket(short));
        let roots: Vec<String> = self
            .mount_roots(places)
            .iter()
            .map(|root| shown(root))
            .collect();
        let around = Surroundings {
            id,
            socket: &socket,
            mount_roots: &roots,
            agent_id,
        };
        let empty = CsiPluginContainerInfo::default();
        launch_request(
            self.config.info.containers.get(entry).unwrap_or(&empty),
            &around,
        )
    }
}

impl Planned {
    /// What runs, and can go on running, as the record says.
    pub(crate) fn of_record(record: ContainerRecord, places: &Places) -> Option<Self> {
        let id = ContainerId::new(&record.container_id).ok()?;
        let info = CsiPluginContainerInfo::decode(record.info.as_slice()).ok()?;
        let services = services_of(&info).ok()?;
        let short = short_id(&places.instance, &id);
        Some(Self {
            id,
            services,
            short,
            hash: record.hash,
            source: Source::Record(Box::new(record)),
        })
    }

    /// The same container, of which nobody knows how it was launched.
    pub(crate) fn with_unknown_hash(&self, places: &Places) -> Self {
        let mut record = self.record(places, nix::unistd::geteuid().as_raw());
        record.hash = LaunchHash::from([0; 32]);
        Self {
            id: self.id.clone(),
            services: self.services.clone(),
            short: self.short.clone(),
            hash: record.hash,
            source: Source::Record(Box::new(record)),
        }
    }

    /// The user that the container runs as; `None` is ours.
    pub(crate) fn user(&self) -> Option<String> {
        match &self.source {
            Source::Config { plan, entry, .. } => {
                let command = plan.config.info.containers.get(*entry)?.command.as_ref()?;
                command.user.clone().filter(|user| !user.is_empty())
            }
            Source::Record(record) => Some(record.uid.to_string()),
        }
    }

    pub(crate) fn request(&self, places: &Places) -> LaunchContainer {
        match &self.source {
            Source::Config {
                plan,
                entry,
                agent_id,
            } => {
                let id = self.id.value();
                plan.request(id, *entry, &self.short, places, agent_id.as_deref())
                    .0
            }
            Source::Record(record) => {
                LaunchContainer::decode(record.request.as_slice()).unwrap_or_default()
            }
        }
    }

    /// The record of a launch of it.
    pub(crate) fn record(&self, places: &Places, uid: u32) -> ContainerRecord {
        match &self.source {
            Source::Config { plan, entry, .. } => ContainerRecord {
                plugin: plan.config.name.clone(),
                plugin_type: plan.ty.to_string(),
                plugin_name: plan.plugin_name.to_string(),
                container_id: self.id.to_string(),
                info: plan
                    .config
                    .info
                    .containers
                    .get(*entry)
                    .map(Message::encode_to_vec)
                    .unwrap_or_default(),
                request: self.request(places).encode_to_vec(),
                hash: self.hash,
                socket: shown(&places.runtime.csi_socket(&self.short)),
                uid,
                grace_ms: u64::try_from(plan.config.kill_grace.as_millis()).unwrap_or(u64::MAX),
            },
            Source::Record(record) => (**record).clone(),
        }
    }
}

impl LaunchHash {
    pub(crate) fn of(bytes: &[u8]) -> Self {
        Self::from(<[u8; 32]>::from(Sha256::digest(bytes)))
    }
}

/// Checks all plugins together.
pub(crate) fn plan_all(
    configs: Vec<PluginConfig>,
    places: &Places,
) -> Result<BTreeMap<String, Arc<Plan>>, ManagerError> {
    let mut plans: BTreeMap<String, Arc<Plan>> = BTreeMap::new();
    let mut plugins: BTreeMap<(String, String), String> = BTreeMap::new();
    let mut containers: BTreeMap<ContainerId, String> = BTreeMap::new();
    for plan in in_parts(configs, |config| Plan::new(config, places)) {
        let plan = Arc::new(plan?);
        let name = plan.name().to_owned();
        let (plugin_type, plugin_name) = (plan.ty.to_string(), plan.plugin_name.to_string());
        let key = (plugin_type.clone(), plugin_name.clone());
        if plans.contains_key(&name) {
            return Err(ManagerError::DuplicateName { name });
        }
        if let Some(first) = plugins.insert(key, name.clone()) {
            return Err(ManagerError::DuplicatePlugin {
                first,
                second: name,
                plugin_type,
                plugin_name,
            });
        }
        for draft in plan.drafts() {
            if let Some(first) = containers.insert(draft.id.clone(), name.clone()) {
                let id = draft.id.to_string();
                return Err(ManagerError::DuplicateContainer {
                    first,
                    second: name,
                    id,
                });
            }
        }
        plans.insert(name, plan);
    }
    Ok(plans)
}
