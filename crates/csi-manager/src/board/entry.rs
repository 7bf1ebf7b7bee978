//! What is known of one plugin, and what its state follows to be.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::SystemTime;

use longshore_container_daemon::{DaemonStatus, Phase};
use longshore_paths::Service;
use tokio::sync::watch;
use tokio::time::Instant;

use super::clip;
use crate::launch::LaunchHash;
use crate::record::{HISTORY_MAX, TotalsRecord};
use crate::status::{
    EndpointState, LastExit, PluginState, PluginStatus, ReadyEndpoint, Transition,
};

#[derive(Debug)]
pub(super) struct Inner {
    pub(super) status: Arc<PluginStatus>,
    pub(super) endpoints: BTreeMap<Service, watch::Sender<EndpointState>>,
    pub(super) units: Vec<UnitState>,
    /// What the plugin task says: no unit has it.
    pub(super) overall: Option<(PluginState, String)>,
    pub(super) configuration: LaunchHash,
    pub(super) name: Option<String>,
    pub(super) loaded: bool,
    /// What is counted of each container by its id, over all lives of the supervisor.
    pub(super) totals: BTreeMap<String, Total>,
    /// A total changed: it is to be written.
    pub(super) counted: bool,
}

/// What is counted of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Total {
    pub(crate) runs: u64,
    pub(crate) last_exit: Option<LastExit>,
}

/// What is known of one container or unmanaged endpoint.
#[derive(Clone, Debug, Default)]
pub(super) struct UnitState {
    pub(super) daemon: Option<DaemonStatus>,
    /// Probed, and answering as far as is known.
    pub(super) ready: Option<ReadyEndpoint>,
    pub(super) unhealthy: Option<String>,
    /// What is missing while it does not answer yet.
    pub(super) waiting: Option<String>,
    /// The runs of its daemon that are counted.
    pub(super) runs: u64,
    /// Of a unit without a daemon (unmanaged).
    pub(super) plain: Option<(PluginState, String)>,
}

impl Inner {
    pub(super) fn status_mut(&mut self) -> &mut PluginStatus {
        Arc::make_mut(&mut self.status)
    }

    pub(super) fn forget(&mut self) {
        self.name = None;
        self.status_mut().version = None;
        self.status_mut().details = None;
    }

    pub(super) fn set_services(&mut self, services: &BTreeSet<Service>) {
        self.endpoints
            .retain(|service, _| services.contains(service));
        for service in services {
            self.endpoints.entry(*service).or_default();
        }
        let endpoints = self.endpoints.iter();
        let endpoints = endpoints
            .map(|(service, sender)| (*service, sender.borrow().clone()))
            .collect();
        self.status_mut().endpoints = endpoints;
    }

    pub(super) fn publish(
        &mut self,
        services: &[Service],
        ready: Option<ReadyEndpoint>,
        reason: &str,
    ) {
        for service in services {
            let Some(sender) = self.endpoints.get(service) else {
                continue;
            };
            let changed = sender.send_if_modified(|state| {
                // A new process at the same URI is news, a second withdrawal is not.
                if state.ready.is_none() && ready.is_none() && state.reason == reason {
                    return false;
                }
                state.generation += 1;
                state.ready.clone_from(&ready);
                reason.clone_into(&mut state.reason);
                true
            });
            if changed {
                let state = sender.borrow().clone();
                self.status_mut().endpoints.insert(*service, state);
            }
        }
    }

    pub(super) fn daemon(&mut self, unit: usize, daemon: &DaemonStatus) {
        let services = match self.status.containers.get(unit) {
            Some(container) => container.services.clone(),
            None => return,
        };
        let Some(state) = self.units.get_mut(unit) else {
            return;
        };
        if !matches!(daemon.phase, Phase::Starting | Phase::Running) && state.ready.take().is_some()
        {
            state.unhealthy = None;
            let reason = if daemon.reason.is_empty() {
                "it was stopped"
            } else {
                &daemon.reason
            };
            self.publish(&services, None, reason);
        } else if !daemon.reason.is_empty() && state.ready.is_none() {
            self.publish(&services, None, &clip(&daemon.reason));
        } else if state.ready.is_none() && is_starting(daemon.phase) {
            self.publish_first(&services, "it is being started");
        }
        self.count(unit, daemon);
        let Some(state) = self.units.get_mut(unit) else {
            return;
        };
        if daemon.phase != Phase::Starting {
            state.waiting = None;
        }
        state.daemon = Some(daemon.clone());
        let status = Arc::make_mut(&mut self.status);
        if let Some(container) = status.containers.get_mut(unit)
            && matches!(daemon.phase, Phase::Cleaning | Phase::Down)
        {
            container.pid = None;
        }
    }

    /// In place of what nobody has said anything about yet.
    fn publish_first(&mut self, services: &[Service], reason: &str) {
        let nothing = EndpointState::default().reason;
        let unsaid = |service: &&Service| {
            let endpoint = self.endpoints.get(service);
            endpoint.is_some_and(|endpoint| endpoint.borrow().reason == nothing)
        };
        let unsaid: Vec<Service> = services.iter().filter(unsaid).copied().collect();
        self.publish(&unsaid, None, reason);
    }

    /// Adds what a daemon has done since it was last heard of. One that was taken over has run before.
    fn count(&mut self, unit: usize, daemon: &DaemonStatus) {
        let (Some(state), Some(id)) = (
            self.units.get_mut(unit),
            self.status
                .containers
                .get(unit)
                .map(|container| container.id.value().to_owned()),
        ) else {
            return;
        };
        let total = self.totals.entry(id).or_default();
        let before = total.clone();
        total.runs += daemon.runs.saturating_sub(state.runs);
        state.runs = daemon.runs;
        if matches!(daemon.phase, Phase::Starting | Phase::Running) {
            total.runs = total.runs.max(1);
        }
        if let Some((at, exit)) = &daemon.last_exit {
            let same = state
                .daemon
                .as_ref()
                .is_some_and(|before| before.last_exit == daemon.last_exit);
            if !same {
                total.last_exit = Some(LastExit {
                    at: wall(*at),
                    status: exit.status,
                    text: exit.to_string(),
                });
            }
        }
        self.counted |= *total != before;
        let total = total.clone();
        if let Some(container) = Arc::make_mut(&mut self.status).containers.get_mut(unit) {
            container.runs = total.runs;
            container.last_exit = total.last_exit;
        }
    }

    pub(super) fn load_totals(&mut self, record: TotalsRecord) {
        for recorded in record.containers {
            let (id, old) = recorded.into_total();
            let total = self.totals.entry(id).or_default();
            total.runs += old.runs;
            total.last_exit = total.last_exit.take().or(old.last_exit);
        }
        let totals = &self.totals;
        for container in &mut Arc::make_mut(&mut self.status).containers {
            if let Some(total) = totals.get(container.id.value()) {
                container.runs = total.runs;
                container.last_exit.clone_from(&total.last_exit);
            }
        }
    }

    /// Works the plugin's state out anew; true when it moved.
    pub(super) fn settle(&mut self) -> Option<(PluginState, PluginState)> {
        let mut found: Option<(PluginState, String, Option<Instant>)> = None;
        let mut states = Vec::with_capacity(self.units.len());
        let mut exited = None;
        for unit in &mut self.units {
            let (state, reason, retry) = unit_state(unit);
            if let Some(daemon) = &unit.daemon
                && daemon.phase == Phase::Cleaning
            {
                exited = daemon.last_exit.as_ref().and_then(|(_, exit)| exit.status);
            }
            if found.as_ref().is_none_or(|(worst, _, _)| state > *worst) {
                found = Some((state, reason.clone(), retry));
            }
            states.push((state, reason));
        }
        let containers = self.status.containers.iter();
        let restarts = containers
            .map(|container| container.runs.saturating_sub(1))
            .sum();
        let (mut state, mut reason, retry) =
            found.unwrap_or((PluginState::Idle, String::new(), None));
        if let Some((overall, why)) = &self.overall {
            (state, reason) = (*overall, why.clone());
        }
        let status = Arc::make_mut(&mut self.status);
        for (container, (state, reason)) in status.containers.iter_mut().zip(states) {
            (container.state, container.reason) = (state, reason);
        }
        status.generation += 1;
        status.restarts = restarts;
        status.next_retry = retry.map(wall);
        let from = status.state;
        status.reason.clone_from(&reason);
        if from == state {
            return None;
        }
        status.state = state;
        status.since = SystemTime::now();
        status.history.push(Transition {
            at: status.since,
            from,
            to: state,
            reason,
            exit_status: exited,
            stderr: Vec::new(),
        });
        trim(&mut status.history);
        Some((from, state))
    }
}

/// The state of one unit, why, and when it is tried again. Pure.
fn unit_state(unit: &UnitState) -> (PluginState, String, Option<Instant>) {
    let Some(daemon) = &unit.daemon else {
        let (state, reason) = unit
            .plain
            .clone()
            .unwrap_or((PluginState::Idle, String::new()));
        return (state, reason, None);
    };
    let state = container_state(daemon, unit.ready.is_some(), unit.unhealthy.is_some());
    let reason = match (&unit.unhealthy, &unit.waiting, state) {
        (Some(reason), _, PluginState::Unhealthy) => reason.clone(),
        (_, Some(waiting), PluginState::Starting) => waiting.clone(),
        _ => clip(&daemon.reason),
    };
    (state, reason, daemon.next_retry)
}

/// What the daemon's phase means to an operator. Pure.
pub(super) fn container_state(daemon: &DaemonStatus, ready: bool, unhealthy: bool) -> PluginState {
    match daemon.phase {
        Phase::Down if daemon.generation == 0 => PluginState::Idle,
        Phase::Down => PluginState::Stopped,
        Phase::Stopping => PluginState::Stopping,
        Phase::Cleaning if !daemon.wanted => PluginState::Stopping,
        Phase::Pausing if daemon.failing => PluginState::Failing,
        Phase::Cleaning | Phase::Pausing => PluginState::Backoff,
        Phase::Running if unhealthy || !ready => PluginState::Unhealthy,
        Phase::Running => PluginState::Ready,
        // Its post-start hook failed and it must not be stopped: up, and not usable.
        Phase::Starting if daemon.next_retry.is_some() => PluginState::Unhealthy,
        // Preparing, launching, starting, and phases that may be added.
        _ => PluginState::Starting,
    }
}

fn is_starting(phase: Phase) -> bool {
    matches!(phase, Phase::Preparing | Phase::Launching | Phase::Starting)
}

pub(super) fn trim(history: &mut Vec<Transition>) {
    let extra = history.len().saturating_sub(HISTORY_MAX);
    history.drain(..extra);
}

/// A monotonic moment as wall-clock time.
fn wall(at: Instant) -> SystemTime {
    let (now, wall) = (Instant::now(), SystemTime::now());
    match at.checked_duration_since(now) {
        Some(ahead) => wall + ahead,
        None => wall.checked_sub(now.duration_since(at)).unwrap_or(wall),
    }
}
