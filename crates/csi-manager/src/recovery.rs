//! Recovery: what the agent runs and what the disk says, brought together once for all plugins.
//!
//! One GET_CONTAINERS and one pass over the records; each plugin then gets what concerns it. The
//! agent is asked again until it answers (row 2); a directory that cannot be listed (row 3) is the
//! trouble of its plugin alone.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use longshore_backoff::Backoff;
use longshore_checkpoint::{Loaded, quarantine};
use longshore_container_daemon::Failure;
use longshore_mesos_api::v1::agent::response::get_containers::Container;
use longshore_paths::{ContainerId, PluginName, PluginType};
use tokio::time::sleep;

use crate::host::{Mounts, launch_hash};
use crate::plan::{Plan, Planned};
use crate::plugin::planned;
use crate::record::ContainerRecord;
use crate::recover::{Facts, Held, Listed, Verdict, decide};
use crate::retire::Retired;
use crate::shared::{Shared, blocking, in_parts, line, pid_of};
use crate::status::{Foreign, Stray, Waiting};
use crate::strays::stray;

/// How long until a plugin whose directory cannot be listed is looked at again.
pub(crate) const RETRY: Duration = Duration::from_secs(5);

/// The grace of containers whose own is not known.
const GRACE: Duration = Duration::from_secs(10);

/// What recovery found of one plugin.
#[derive(Debug)]
pub(crate) enum Findings {
    /// What was found, and the plan's containers, whose hashes it was compared with.
    Found {
        findings: Vec<Finding>,
        planned: Vec<Planned>,
    },
    /// Its directory cannot be listed.
    Failed(String),
    /// Nobody has looked yet: a plugin that came later.
    Look,
}

/// One container, and what becomes of it.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) id: ContainerId,
    pub(crate) verdict: Verdict,
    /// Of one that is to be stopped later: it goes on as its record says.
    pub(crate) record: Option<Box<ContainerRecord>>,
    /// How it is stopped or cleaned; `None` when it is neither.
    pub(crate) retired: Option<Box<Retired>>,
}

/// A container directory on disk. Most records say what is wanted today, so that their hash is all
/// that matters; the others are read again.
#[derive(Debug)]
pub(crate) struct OnDisk {
    id: ContainerId,
    held: Held,
    /// From its record: whose its socket's directory is, and its grace.
    told: Option<(u32, Duration)>,
}

/// A plugin's directory on disk.
#[derive(Debug)]
pub(crate) struct PluginOnDisk {
    pub(crate) ty: PluginType,
    pub(crate) name: PluginName,
    pub(crate) containers: Result<Vec<OnDisk>, String>,
}

/// Everything below the CSI root.
#[derive(Debug, Default)]
pub(crate) struct Disk {
    pub(crate) plugins: Vec<PluginOnDisk>,
    pub(crate) foreign: Vec<Foreign>,
}

/// The agent's side, by id.
pub(crate) type Running = BTreeMap<String, Option<u32>>;

/// Asks the agent until it answers; the status says why it waits, and since when.
pub(crate) async fn running(shared: &Shared) -> Running {
    let mut failures = 0_u32;
    wait_for(shared, "GET_CONTAINERS is not answered yet".to_owned());
    loop {
        match shared.list().await {
            Ok(containers) => {
                shared.board.update(|status| status.waiting = None);
                return containers
                    .iter()
                    .map(|c| (c.container_id.value.clone(), pid(c)))
                    .collect();
            }
            Err(error) => {
                failures = failures.saturating_add(1);
                let reason = line(&error);
                tracing::warn!(reason, "recovery waits for the agent");
                wait_for(shared, reason);
                let policy = Backoff::new(Duration::from_millis(100), Duration::from_secs(5), 0.2);
                sleep(policy.unwrap_or_default().delay(failures, 0.5)).await;
            }
        }
    }
}

/// Only recovery itself is shown: a plugin that comes later waits for itself.
fn wait_for(shared: &Shared, reason: String) {
    shared.board.update(|status| {
        let since = status.waiting.take().map(|waiting| waiting.since);
        let since = since.unwrap_or_else(std::time::SystemTime::now);
        status.waiting = Some(Waiting { reason, since });
    });
}

fn pid(container: &Container) -> Option<u32> {
    pid_of(container)
}

/// Reads every record below the CSI root, in one pass. Blocks.
pub(crate) fn read_disk(shared: &Shared) -> Disk {
    let csi = shared.places.state.csi();
    let mut disk = Disk::default();
    let types = match entries(csi.path()) {
        Ok(types) => types,
        Err(error) => {
            disk.foreign
                .push(foreign(csi.path(), format!("cannot be listed: {error}")));
            return disk;
        }
    };
    for type_dir in types {
        let names = match entries(&type_dir) {
            Ok(names) => names,
            Err(error) => {
                disk.foreign
                    .push(foreign(&type_dir, format!("cannot be listed: {error}")));
                continue;
            }
        };
        let mut plugins = Vec::with_capacity(names.len());
        for name_dir in names {
            let (Some(ty), Some(name)) = (text(&type_dir), text(&name_dir)) else {
                disk.foreign.push(foreign(
                    &name_dir,
                    "is not the directory of a plugin".to_owned(),
                ));
                continue;
            };
            match (PluginType::new(ty), PluginName::new(name)) {
                (Ok(ty), Ok(name)) => plugins.push((ty, name)),
                (Err(error), _) | (_, Err(error)) => {
                    disk.foreign.push(foreign(&name_dir, line(&error)));
                }
            }
        }
        let read = in_parts(plugins, |(ty, name)| {
            let mut foreign = Vec::new();
            (read_plugin(shared, &ty, &name, &mut foreign), foreign)
        });
        for (plugin, foreign) in read {
            disk.plugins.push(plugin);
            disk.foreign.extend(foreign);
        }
    }
    disk
}

/// Reads the records of one plugin. Blocks.
pub(crate) fn read_plugin(
    shared: &Shared,
    ty: &PluginType,
    name: &PluginName,
    foreign_paths: &mut Vec<Foreign>,
) -> PluginOnDisk {
    let csi = shared.places.state.csi();
    let dir = csi.containers_dir(ty, name);
    let containers = match entries(&dir) {
        Ok(paths) => {
            let mut found = Vec::with_capacity(paths.len());
            for path in paths {
                match text(&path).map(str::parse) {
                    Some(Ok(id)) => found.push(read_container(shared, ty, name, id)),
                    _ => foreign_paths.extend(
                        csi.parse_container(&path)
                            .err()
                            .map(|error| foreign(&path, line(&error))),
                    ),
                }
            }
            Ok(found)
        }
        Err(error) => Err(format!(
            "cannot list {} of type {ty}, name {name}: {error}",
            dir.display()
        )),
    };
    PluginOnDisk {
        ty: ty.clone(),
        name: name.clone(),
        containers,
    }
}

fn read_container(shared: &Shared, ty: &PluginType, name: &PluginName, id: ContainerId) -> OnDisk {
    let path = shared.places.state.csi().container_info(ty, name, &id);
    let (held, told) = match shared.writer.read::<ContainerRecord>(&path) {
        Ok(Loaded::Missing) => (Held::Missing, None),
        Ok(Loaded::Empty) => (Held::Empty, None),
        Ok(Loaded::Record(record)) => {
            // Row 5: a record of another plugin is none of this one's.
            let own = record.plugin_type == ty.as_str()
                && record.plugin_name == name.as_str()
                && record.container_id == id.to_string();
            if own {
                let grace = Duration::from_millis(record.grace_ms);
                (Held::Hash(record.hash), Some((record.uid, grace)))
            } else {
                set_aside(shared, &path, "a record of another container");
                (Held::Damaged, None)
            }
        }
        Ok(Loaded::Damaged(damage)) => {
            set_aside(shared, &path, &line(&damage));
            (Held::Damaged, None)
        }
        Err(error) => {
            tracing::warn!(path = %path.display(), error = line(&error), "record not read");
            (Held::Damaged, None)
        }
    };
    OnDisk { id, held, told }
}

/// The record of a container that was found to have one.
fn read_again(
    shared: &Shared,
    plugin: &PluginOnDisk,
    on_disk: &OnDisk,
) -> Option<Box<ContainerRecord>> {
    let csi = shared.places.state.csi();
    let path = csi.container_info(&plugin.ty, &plugin.name, &on_disk.id);
    match (on_disk.held, shared.writer.read::<ContainerRecord>(&path)) {
        (Held::Hash(_), Ok(Loaded::Record(record))) => Some(Box::new(record)),
        _ => None,
    }
}

/// Never deleted, and out of the way of the next record.
fn set_aside(shared: &Shared, path: &Path, why: &str) {
    match quarantine(path) {
        Ok(aside) => {
            tracing::warn!(path = %path.display(), aside = %aside.display(), why, "record set aside");
        }
        Err(error) => {
            tracing::warn!(path = %path.display(), error = line(&error), why, "damaged record");
        }
    }
    // Only now: whoever counts looks for the file then.
    shared.board.update(|status| status.set_aside += 1);
}

/// Brings both sides together for one plugin. Blocks (a lost record makes it read `/proc`).
pub(crate) fn judge(
    shared: &Shared,
    plugin: &PluginOnDisk,
    planned: Vec<Planned>,
    running: &Running,
    mounted: bool,
) -> Findings {
    let containers = match &plugin.containers {
        Ok(containers) => containers,
        Err(reason) => return Findings::Failed(reason.clone()),
    };
    let listed = |id: &ContainerId| match running.get(id.value()) {
        None => Listed::No,
        Some(None) => Listed::WithoutPid,
        Some(Some(_)) => Listed::Running,
    };
    let wanted = |id: &ContainerId| planned.iter().find(|planned| planned.id == *id);
    // Read where a record does not tell.
    let environment = |planned: Option<&Planned>| {
        let planned = planned?;
        let pid = running.get(planned.id.value()).copied().flatten()?;
        let told = launch_hash(shared.host.as_ref(), pid)?;
        (told == planned.hash.to_string()).then_some(planned.hash)
    };
    let finding = |id: &ContainerId, facts: Facts, on_disk: Option<&OnDisk>| {
        let verdict = decide(&facts);
        let stays = matches!(verdict, Verdict::Keep | Verdict::Adopt | Verdict::Stray(_));
        let told = on_disk.and_then(|on_disk| on_disk.told);
        let retired = || Retired {
            id: id.clone(),
            ty: plugin.ty.clone(),
            name: plugin.name.clone(),
            user: told.map(|(uid, _)| uid.to_string()),
            grace: told.map_or(GRACE, |(_, grace)| grace),
            running: false,
            ending: false,
        };
        Finding {
            id: id.clone(),
            verdict,
            record: on_disk
                .filter(|_| matches!(verdict, Verdict::StopLater(_)))
                .and_then(|on_disk| read_again(shared, plugin, on_disk)),
            retired: (!stays).then(|| Box::new(retired())),
        }
    };
    let mut found = Vec::with_capacity(containers.len());
    for on_disk in containers {
        let wanted = wanted(&on_disk.id);
        let facts = Facts {
            listed: listed(&on_disk.id),
            held: on_disk.held,
            wanted: wanted.map(|planned| planned.hash),
            environment: match on_disk.held {
                Held::Hash(_) => None,
                _ => environment(wanted),
            },
            mounted,
        };
        found.push(finding(&on_disk.id, facts, Some(on_disk)));
    }
    for planned in &planned {
        let known = containers.iter().any(|on_disk| on_disk.id == planned.id);
        if known || listed(&planned.id) == Listed::No {
            continue;
        }
        let facts = Facts {
            listed: listed(&planned.id),
            held: Held::NoDirectory,
            wanted: Some(planned.hash),
            environment: environment(Some(planned)),
            mounted,
        };
        found.push(finding(&planned.id, facts, None));
    }
    Findings::Found {
        findings: found,
        planned,
    }
}

/// Looks at one plugin alone: one that came later, or whose directory could not be listed.
pub(crate) async fn look(shared: &Arc<Shared>, plan: &Arc<Plan>) -> Findings {
    let planned = Box::pin(planned(shared, plan)).await;
    let running = Box::pin(running(shared)).await;
    let mounts = shared.mount_points().await;
    let (this, plan) = (Arc::clone(shared), Arc::clone(plan));
    let judged = blocking(move || {
        let mut foreign = Vec::new();
        let plugin = read_plugin(&this, &plan.ty, &plan.plugin_name, &mut foreign);
        let mounted = is_mounted(&this, &plan, mounts.as_ref());
        judge(&this, &plugin, planned, &running, mounted)
    });
    judged
        .await
        .unwrap_or_else(|failure| Findings::Failed(failure.message))
}

/// Whether anything is mounted below the plugin's mount roots; yes when nobody can tell.
pub(crate) fn is_mounted(
    shared: &Shared,
    plan: &Plan,
    mounts: Result<&Arc<Mounts>, &Failure>,
) -> bool {
    match mounts {
        Ok(mounts) => !mounts.below(&plan.mount_roots(&shared.places)).is_empty(),
        Err(_) => true,
    }
}

/// The ids that look like ours and belong to no plugin (row 14).
pub(crate) fn unclaimed(running: &Running, known: impl Fn(&str) -> bool) -> Vec<Stray> {
    let unknown = running.keys().filter(|id| !known(id));
    unknown.map(|id| stray(id)).collect()
}

/// Plugins on disk that no configuration has: each becomes a plan from its records, to be removed.
/// Without a readable record only the ids are known; what runs is reported, never touched.
pub(crate) fn left_over(
    shared: &Shared,
    left: Vec<PluginOnDisk>,
    running: &Running,
    mounts: Result<&Arc<Mounts>, &Failure>,
    strays: &mut Vec<Stray>,
    foreign_paths: &mut Vec<Foreign>,
) -> Vec<(Arc<Plan>, Findings)> {
    let mut plans = Vec::new();
    for plugin in left {
        let csi = shared.places.state.csi();
        let dir = csi.containers_dir(&plugin.ty, &plugin.name);
        let containers = match &plugin.containers {
            Ok(containers) => containers,
            Err(reason) => {
                foreign_paths.push(foreign(&dir, reason.clone()));
                continue;
            }
        };
        let records: Vec<ContainerRecord> = containers
            .iter()
            .filter_map(|on_disk| read_again(shared, &plugin, on_disk).map(|record| *record))
            .collect();
        if records.is_empty() {
            let runs = containers
                .iter()
                .filter(|on_disk| running.contains_key(on_disk.id.value()));
            strays.extend(runs.map(|on_disk| stray(on_disk.id.value())));
            continue;
        }
        match Plan::of_records(&records, &shared.places) {
            Ok(plan) => {
                let plan = Arc::new(plan);
                let mounted = is_mounted(shared, &plan, mounts);
                // As their records say they are what they should be: kept until the removal,
                // which follows at once unless something is mounted.
                let old: Vec<Planned> = records
                    .into_iter()
                    .filter_map(|record| Planned::of_record(record, &shared.places))
                    .collect();
                let findings = judge(shared, &plugin, old, running, mounted);
                plans.push((plan, findings));
            }
            Err(error) => foreign_paths.push(foreign(&dir, line(&error))),
        }
    }
    plans
}

impl PluginOnDisk {
    /// A plugin that has no directory.
    pub(crate) fn empty(plan: &Plan) -> Self {
        Self {
            ty: plan.ty.clone(),
            name: plan.plugin_name.clone(),
            containers: Ok(Vec::new()),
        }
    }

    pub(crate) fn container_ids(&self) -> Vec<String> {
        let containers = self
            .containers
            .as_ref()
            .map(Vec::as_slice)
            .unwrap_or_default();
        containers
            .iter()
            .map(|on_disk| on_disk.id.value().to_owned())
            .collect()
    }
}

fn entries(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let list = match fs::read_dir(dir) {
        Ok(list) => list,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut paths: Vec<PathBuf> = list
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()?;
    paths.sort();
    Ok(paths)
}

fn text(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

fn foreign(path: &Path, reason: String) -> Foreign {
    Foreign {
        path: path.to_owned(),
        reason,
    }
}
