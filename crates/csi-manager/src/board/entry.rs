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
use crate::record::HISTORY_MAX;
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
}

/// What is known of one container or unmanaged endpoint.
#[derive(Clone, Debug, Default)]
pub(super) struct UnitState {
    pub(super) daemon: Option<DaemonStatus>,
    /// Probed, and answering as far as is known.
    pub(super) ready: Option<ReadyEndpoint>,
    pub(super) unhealthy: Option<String>,
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
        }
        let Some(state) = self.units.get_mut(unit) else {
            return;
        };
        state.daemon = Some(daemon.clone());
        let status = Arc::make_mut(&mut self.status);
        if let Some(container) = status.containers.get_mut(unit) {
            if daemon.phase == Phase::Cleaning || daemon.phase == Phase::Down {
                container.pid = None;
            }
            container.runs = daemon.runs;
            container.last_exit = daemon
                .last_exit
                .as_ref()
                .map(|(at, exit)| LastExit {
                    at: wall(*at),
                    status: exit.status,
                    text: exit.to_string(),
                })
                .or_else(|| container.last_exit.take());
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
        let restarts = self.units.iter().filter_map(|unit| unit.daemon.as_ref());
        let restarts = restarts.map(|daemon| daemon.runs.saturating_sub(1)).sum();
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
    let reason = match (&unit.unhealthy, state) {
        (Some(reason), PluginState::Unhealthy) => reason.clone(),
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
