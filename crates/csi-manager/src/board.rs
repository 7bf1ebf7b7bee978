//! The status: one board for the manager, one entry for each plugin. Decisions about states are
//! pure (`container_state`); the board publishes them with a generation.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use longshore_container_daemon::DaemonStatus;
use longshore_csi_probe::{ApiVersion, PluginDetails};
use longshore_paths::{ContainerId, Service};
use tokio::sync::{Notify, watch};

use crate::plan::Plan;
use crate::record::{HistoryRecord, RecordedTotal, RecordedTransition, TotalsRecord};
use crate::status::{
    ContainerState, EndpointState, ManagerStatus, Metrics, PluginState, PluginStatus,
    ReadyEndpoint, Transition,
};

mod entry;
#[cfg(test)]
mod tests;

pub(crate) use entry::Total;
use entry::{Inner, UnitState, trim};

/// The longest reason that is kept, in bytes.
const REASON_MAX: usize = 1_024;

/// The manager's status, and whose history is to be written.
#[derive(Debug)]
pub(crate) struct StatusBoard {
    status: watch::Sender<Arc<ManagerStatus>>,
    dirty: Mutex<BTreeSet<String>>,
    pub(crate) save: Notify,
}

impl StatusBoard {
    pub(crate) fn new() -> Self {
        Self {
            status: watch::Sender::new(Arc::default()),
            dirty: Mutex::default(),
            save: Notify::new(),
        }
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<ManagerStatus>> {
        self.status.subscribe()
    }

    /// Changes the status and publishes it with the next generation.
    pub(crate) fn update(&self, change: impl FnOnce(&mut ManagerStatus)) {
        self.status.send_modify(|status| {
            let status = Arc::make_mut(status);
            change(status);
            status.generation += 1;
        });
    }

    /// The plugins whose history changed since the last call.
    pub(crate) fn take_dirty(&self) -> BTreeSet<String> {
        std::mem::take(&mut *lock(&self.dirty))
    }
}

/// One plugin's entry: the only writer of its status and endpoints.
#[derive(Debug)]
pub(crate) struct PluginBoard {
    board: Arc<StatusBoard>,
    inner: Mutex<Inner>,
}

/// What a unit is.
#[derive(Clone, Debug)]
pub(crate) struct UnitIdentity {
    /// None of an unmanaged endpoint.
    pub(crate) id: Option<ContainerId>,
    pub(crate) services: Vec<Service>,
    pub(crate) socket: PathBuf,
}

impl PluginBoard {
    pub(crate) fn new(board: Arc<StatusBoard>, plan: &Plan, managed: bool) -> Self {
        let status = Arc::new(PluginStatus {
            name: plan.name().to_owned(),
            plugin_type: plan.ty.to_string(),
            plugin_name: plan.plugin_name.to_string(),
            managed,
            state: PluginState::Idle,
            reason: String::new(),
            since: SystemTime::now(),
            next_retry: None,
            generation: 0,
            kept: None,
            containers: Vec::new(),
            endpoints: BTreeMap::new(),
            version: None,
            details: None,
            restarts: 0,
            history: Vec::new(),
            mounts: Vec::new(),
            stderr: Vec::new(),
            metrics: Metrics::default(),
        });
        let this = Self {
            board,
            inner: Mutex::new(Inner {
                status,
                endpoints: BTreeMap::new(),
                units: Vec::new(),
                overall: None,
                configuration: plan.configuration,
                name: None,
                loaded: false,
                totals: BTreeMap::new(),
                counted: false,
            }),
        };
        this.change(|inner| inner.set_services(&plan.services));
        this
    }

    /// The endpoint of a service, `None` when the plugin has none of it.
    pub(crate) fn endpoint(&self, service: Service) -> Option<watch::Receiver<EndpointState>> {
        lock(&self.inner)
            .endpoints
            .get(&service)
            .map(watch::Sender::subscribe)
    }

    pub(crate) fn status(&self) -> Arc<PluginStatus> {
        Arc::clone(&lock(&self.inner).status)
    }

    /// Another configuration: version and name are free again when the plugin itself changed.
    pub(crate) fn plan(&self, plan: &Plan) {
        self.change(|inner| {
            if inner.configuration != plan.configuration {
                inner.forget();
                inner.configuration = plan.configuration;
            }
            inner.set_services(&plan.services);
        });
    }

    /// The units, from now on; states of earlier ones are gone.
    pub(crate) fn units(&self, units: Vec<UnitIdentity>) {
        self.change(|inner| {
            inner.units = vec![UnitState::default(); units.len()];
            let old = inner.status.containers.clone();
            let containers = units
                .into_iter()
                .filter_map(|unit| {
                    let id = unit.id?;
                    let before = old.iter().find(|container| container.id == id);
                    let total = inner.totals.get(id.value());
                    Some(ContainerState {
                        services: unit.services,
                        state: PluginState::Idle,
                        reason: String::new(),
                        pid: before.and_then(|container| container.pid),
                        socket: unit.socket,
                        last_exit: total.and_then(|total| total.last_exit.clone()),
                        runs: total.map_or(0, |total| total.runs),
                        id,
                    })
                })
                .collect();
            inner.status_mut().containers = containers;
        });
    }

    /// What the daemon of a unit says.
    pub(crate) fn daemon(&self, unit: usize, daemon: &DaemonStatus) {
        self.change(|inner| inner.daemon(unit, daemon));
    }

    /// A unit was probed and answers.
    pub(crate) fn ready(&self, unit: usize, services: &[Service], ready: ReadyEndpoint) {
        self.change(|inner| {
            inner.status_mut().version = Some(ready.version);
            let Some(state) = inner.units.get_mut(unit) else {
                return;
            };
            state.unhealthy = None;
            state.waiting = None;
            state.ready = Some(ready.clone());
            inner.publish(services, Some(ready), "");
        });
    }

    /// It does not answer any more; the endpoint is withdrawn.
    pub(crate) fn unhealthy(&self, unit: usize, services: &[Service], reason: &str) {
        let reason = clip(reason);
        self.change(|inner| {
            let Some(state) = inner.units.get_mut(unit) else {
                return;
            };
            state.unhealthy = Some(reason.clone());
            inner.publish(services, None, &reason);
        });
    }

    /// It answers again.
    pub(crate) fn recovered(&self, unit: usize, services: &[Service]) {
        self.change(|inner| {
            let Some(state) = inner.units.get_mut(unit) else {
                return;
            };
            state.unhealthy = None;
            let ready = state.ready.clone();
            inner.publish(services, ready, "");
        });
    }

    /// It is gone, or never was: no endpoint.
    pub(crate) fn withdraw(&self, unit: usize, services: &[Service], reason: &str) {
        let reason = clip(reason);
        self.change(|inner| {
            if let Some(state) = inner.units.get_mut(unit) {
                state.ready = None;
                state.unhealthy = None;
            }
            inner.publish(services, None, &reason);
        });
    }

    /// It is up, does not answer yet, and this is what is missing.
    pub(crate) fn waiting(&self, unit: usize, services: &[Service], reason: &str) {
        let reason = clip(reason);
        self.change(|inner| {
            let Some(state) = inner.units.get_mut(unit) else {
                return;
            };
            state.waiting = Some(reason.clone());
            inner.publish(services, None, &reason);
        });
    }

    /// The state of a unit without a daemon.
    pub(crate) fn plain(&self, unit: usize, state: PluginState, reason: &str) {
        let reason = clip(reason);
        self.change(|inner| {
            if let Some(unit) = inner.units.get_mut(unit) {
                unit.plain = Some((state, reason));
            }
        });
    }

    /// The state of the plugin as a whole, over that of its units.
    pub(crate) fn overall(&self, overall: Option<(PluginState, &str)>) {
        let overall = overall.map(|(state, reason)| (state, clip(reason)));
        if lock(&self.inner).overall != overall {
            self.change(|inner| inner.overall = overall);
        }
    }

    pub(crate) fn kept(&self, kept: Option<String>) {
        self.change(|inner| inner.status_mut().kept = kept);
    }

    pub(crate) fn mounts(&self, mounts: Vec<PathBuf>) {
        if self.status().mounts != mounts {
            self.change(|inner| inner.status_mut().mounts = mounts);
        }
    }

    pub(crate) fn details(&self, details: PluginDetails) {
        self.change(|inner| {
            inner.name = Some(details.name.clone());
            inner.status_mut().details = Some(Arc::new(details));
        });
    }

    pub(crate) fn pid(&self, id: &ContainerId, pid: Option<u32>) {
        let known = self
            .status()
            .containers
            .iter()
            .any(|c| c.id == *id && c.pid != pid);
        if known {
            self.change(|inner| {
                let containers = &mut inner.status_mut().containers;
                for container in containers
                    .iter_mut()
                    .filter(|container| container.id == *id)
                {
                    container.pid = pid;
                }
            });
        }
    }

    /// The last stderr lines; they also go to the last transition, when that is a bad one.
    pub(crate) fn stderr(&self, lines: Vec<String>) {
        if lines.is_empty() {
            return;
        }
        let lines: Vec<String> = lines.iter().map(|line| clip(line)).collect();
        self.change(|inner| {
            let status = inner.status_mut();
            if let Some(last) = status.history.last_mut() {
                let bad = [
                    PluginState::Backoff,
                    PluginState::Failing,
                    PluginState::Unhealthy,
                ];
                if bad.contains(&last.to) {
                    last.stderr.clone_from(&lines);
                }
            }
            status.stderr = lines;
        });
        self.save();
    }

    pub(crate) fn metrics(&self, change: impl FnOnce(&mut Metrics)) {
        self.change(|inner| change(&mut inner.status_mut().metrics));
    }

    /// The version that it must speak, and the name that it must have, since it did before.
    pub(crate) fn fixed(&self) -> (Option<ApiVersion>, Option<String>) {
        let inner = lock(&self.inner);
        (inner.status.version, inner.name.clone())
    }

    /// Lets it speak another version and have another name.
    pub(crate) fn forget(&self) {
        self.change(Inner::forget);
    }

    /// True once: its history is to be read before it changes.
    pub(crate) fn begin_load(&self) -> bool {
        !std::mem::replace(&mut lock(&self.inner).loaded, true)
    }

    pub(crate) fn load(&self, record: &HistoryRecord) {
        self.change(|inner| {
            let same = record.configuration == Some(inner.configuration);
            let mut history: Vec<Transition> = record
                .transitions
                .iter()
                .map(RecordedTransition::to_transition)
                .collect();
            if same {
                let version = record
                    .version
                    .as_deref()
                    .and_then(|version| version.parse().ok());
                inner.name = inner.name.take().or_else(|| record.name.clone());
                let status = inner.status_mut();
                status.version = status.version.or(version);
            }
            let status = inner.status_mut();
            history.append(&mut status.history);
            status.history = history;
            trim(&mut status.history);
        });
    }

    /// What was counted in earlier lives; what was counted in this one stays on top.
    pub(crate) fn load_totals(&self, record: TotalsRecord) {
        self.change(|inner| inner.load_totals(record));
    }

    pub(crate) fn totals(&self) -> TotalsRecord {
        TotalsRecord {
            containers: lock(&self.inner)
                .totals
                .clone()
                .into_iter()
                .map(RecordedTotal::new)
                .collect(),
        }
    }

    pub(crate) fn history(&self) -> HistoryRecord {
        let inner = lock(&self.inner);
        HistoryRecord {
            configuration: Some(inner.configuration),
            version: inner.status.version.map(|version| version.to_string()),
            name: inner.name.clone(),
            transitions: inner
                .status
                .history
                .iter()
                .map(RecordedTransition::new)
                .collect(),
        }
    }

    /// It left the configuration: its endpoints close, and it leaves the status.
    pub(crate) fn remove(&self) {
        let name = {
            let mut inner = lock(&self.inner);
            inner.endpoints.clear();
            inner.status.name.clone()
        };
        self.board.update(|status| {
            status.plugins.remove(&name);
        });
    }

    fn change(&self, change: impl FnOnce(&mut Inner)) {
        let (status, moved, counted) = {
            let mut inner = lock(&self.inner);
            change(&mut inner);
            let moved = inner.settle();
            let counted = std::mem::take(&mut inner.counted);
            (Arc::clone(&inner.status), moved, counted)
        };
        if let Some((from, to)) = moved {
            tracing::info!(
                plugin = status.name,
                from = from.as_str(),
                to = to.as_str(),
                reason = status.reason,
                generation = status.generation,
                "plugin"
            );
        }
        if moved.is_some() || counted {
            self.save();
        }
        self.board.update(|board| {
            // A later change may have been published before this one.
            let newer = |there: &Arc<PluginStatus>| there.generation > status.generation;
            if !board.plugins.get(&status.name).is_some_and(newer) {
                board.plugins.insert(status.name.clone(), status);
            }
        });
    }

    fn save(&self) {
        let name = lock(&self.inner).status.name.clone();
        lock(&self.board.dirty).insert(name);
        self.board.save.notify_one();
    }
}

/// One line, bounded.
pub(crate) fn clip(text: &str) -> String {
    let mut line = text.replace(['\n', '\r'], " ");
    if line.len() > REASON_MAX {
        let mut end = REASON_MAX;
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        line.truncate(end);
        line.push_str("...");
    }
    line
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
