//! The manager's status as the control service tells it.

use std::time::{SystemTime, UNIX_EPOCH};

use longshore_control_api::v1;
use longshore_csi_manager::{
    ContainerState, EndpointState, Foreign, ManagerStatus, PluginState, PluginStatus, Transition,
};
use longshore_csi_probe::PluginDetails;
use longshore_kubelet_registration::{RegistrarStatus, Registration};
use longshore_paths::Service;

use crate::quarantine::SetAside;

/// Milliseconds since the Unix epoch.
pub(crate) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Where a container's output is, for the embedded agent.
pub(crate) type SandboxOf<'a> = &'a dyn Fn(&longshore_paths::ContainerId) -> String;

pub(crate) fn state(state: PluginState) -> v1::State {
    match state {
        PluginState::Ready => v1::State::Ready,
        PluginState::Idle => v1::State::Idle,
        PluginState::Stopped => v1::State::Stopped,
        PluginState::Stopping => v1::State::Stopping,
        PluginState::Starting => v1::State::Starting,
        PluginState::Unhealthy => v1::State::Unhealthy,
        PluginState::Backoff => v1::State::Backoff,
        PluginState::Failing => v1::State::Failing,
    }
}

/// The plugins of `status`, or the one that is named.
pub(crate) fn plugins(
    status: &ManagerStatus,
    registered: &RegistrarStatus,
    request: &v1::GetStatusRequest,
    sandbox: SandboxOf<'_>,
) -> Vec<v1::PluginStatus> {
    let wanted = |name: &str| request.name.is_empty() || request.name == name;
    let shown = |found: &PluginStatus| v1::PluginStatus {
        kubelet: registered.plugins.get(&found.name).map(registration),
        ..plugin(found, status.recovered, request.history, sandbox)
    };
    status
        .plugins
        .values()
        .filter(|plugin| wanted(&plugin.name))
        .map(|found| shown(found))
        .collect()
}

pub(crate) fn plugin(
    plugin: &PluginStatus,
    recovered: bool,
    history: bool,
    sandbox: SandboxOf<'_>,
) -> v1::PluginStatus {
    let mut shown = match (&plugin.kept, recovered) {
        (_, false) => v1::State::Recovering,
        (Some(_), true) => v1::State::Kept,
        (None, true) => state(plugin.state),
    };
    let mut reason = plugin.reason.clone();
    if let Some(kept) = &plugin.kept {
        // A plugin that is kept and does not run says the worse of the two.
        if plugin.state == PluginState::Ready || plugin.state == PluginState::Idle {
            reason.clone_from(kept);
        } else {
            shown = state(plugin.state);
            reason = format!("{reason}; {kept}");
        }
    }
    v1::PluginStatus {
        name: plugin.name.clone(),
        r#type: plugin.plugin_type.clone(),
        plugin_name: plugin.plugin_name.clone(),
        managed: plugin.managed,
        state: shown.into(),
        reason,
        since_ms: millis(plugin.since),
        next_retry_at_ms: plugin.next_retry.map_or(0, millis),
        generation: plugin.generation,
        endpoints: plugin
            .endpoints
            .iter()
            .map(|(s, e)| endpoint(*s, e, plugin.state))
            .collect(),
        containers: plugin
            .containers
            .iter()
            .map(|c| container(c, sandbox))
            .collect(),
        api_version: plugin
            .version
            .map_or_else(String::new, |version| version.to_string()),
        driver: plugin.details.as_deref().map(driver),
        restarts: plugin.restarts,
        history: if history {
            plugin.history.iter().map(transition).collect()
        } else {
            Vec::new()
        },
        mounts: plugin
            .mounts
            .iter()
            .map(|mount| mount.to_string_lossy().into_owned())
            .collect(),
        metrics: Some(v1::PluginMetrics {
            container_terminations: plugin.metrics.container_terminations,
            rpcs_pending: plugin.metrics.rpcs_pending,
            rpcs_finished: plugin.metrics.rpcs_finished,
            rpcs_failed: plugin.metrics.rpcs_failed,
            rpcs_cancelled: plugin.metrics.rpcs_cancelled,
        }),
        kubelet: None,
    }
}

fn registration(registration: &Registration) -> v1::KubeletRegistration {
    v1::KubeletRegistration {
        state: registration.state.as_str().to_owned(),
        reason: registration.reason.clone(),
        since_ms: millis(registration.since),
        next_retry_at_ms: registration.next_retry.map_or(0, millis),
        socket: registration
            .socket
            .as_ref()
            .map_or_else(String::new, |it| it.to_string_lossy().into_owned()),
        confirmed: registration.confirmed,
    }
}

fn endpoint(service: Service, endpoint: &EndpointState, plugin: PluginState) -> v1::EndpointStatus {
    let ready = endpoint.ready.as_ref();
    let state = match (ready, plugin) {
        (Some(_), _) => v1::State::Ready,
        (None, PluginState::Ready) => v1::State::Starting,
        (None, other) => state(other),
    };
    v1::EndpointStatus {
        service: service.short().to_owned(),
        uri: ready.map_or_else(String::new, |ready| ready.uri.clone()),
        state: state.into(),
        reason: if ready.is_some() {
            String::new()
        } else {
            endpoint.reason.clone()
        },
    }
}

fn container(container: &ContainerState, sandbox: SandboxOf<'_>) -> v1::ContainerStatus {
    v1::ContainerStatus {
        id: container.id.to_string(),
        services: container
            .services
            .iter()
            .map(|s| s.short().to_owned())
            .collect(),
        state: state(container.state).into(),
        reason: container.reason.clone(),
        pid: container.pid.unwrap_or(0),
        restarts: container.runs.saturating_sub(1),
        last_exit: container
            .last_exit
            .as_ref()
            .map_or_else(String::new, |exit| exit.text.clone()),
        sandbox: sandbox(&container.id),
    }
}

pub(crate) fn driver(details: &PluginDetails) -> v1::DriverDetails {
    let list = |set: &std::collections::BTreeSet<String>| set.iter().cloned().collect();
    let node = details.node.as_ref();
    v1::DriverDetails {
        name: details.name.clone(),
        vendor_version: details.vendor_version.clone(),
        manifest: details.manifest.clone(),
        plugin_capabilities: list(&details.plugin_capabilities),
        controller_capabilities: details
            .controller_capabilities
            .as_ref()
            .map(list)
            .unwrap_or_default(),
        node_capabilities: details
            .node_capabilities
            .as_ref()
            .map(list)
            .unwrap_or_default(),
        node_id: node.map_or_else(String::new, |node| node.id.clone()),
        max_volumes_per_node: node
            .and_then(|node| node.max_volumes)
            .map_or(0, |max| i64::try_from(max).unwrap_or(i64::MAX)),
        topology: node.map(|node| node.topology.clone()).unwrap_or_default(),
    }
}

fn transition(transition: &Transition) -> v1::Transition {
    v1::Transition {
        at_ms: millis(transition.at),
        from: state(transition.from).into(),
        to: state(transition.to).into(),
        reason: transition.reason.clone(),
        exit: transition.exit_status.map_or_else(String::new, exit_text),
        stderr: transition.stderr.clone(),
    }
}

pub(crate) fn foreign(foreign: &Foreign) -> v1::ForeignPath {
    v1::ForeignPath {
        path: foreign.path.to_string_lossy().into_owned(),
        reason: foreign.reason.clone(),
    }
}

pub(crate) fn aside(aside: &SetAside) -> v1::QuarantinedRecord {
    v1::QuarantinedRecord {
        path: aside.path.to_string_lossy().into_owned(),
        reason: aside.reason.clone(),
        advice: aside.advice(),
        at_ms: millis(aside.at),
    }
}

/// A raw wait(2) status in words.
pub(crate) fn exit_text(status: i32) -> String {
    let signal = status & 0x7f;
    if signal == 0 {
        return format!("exit {}", (status >> 8) & 0xff);
    }
    match nix::sys::signal::Signal::try_from(signal) {
        Ok(name) => name.as_str().to_owned(),
        Err(_) => format!("signal {signal}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_statuses_are_told_in_words() {
        for (status, text) in [
            (0, "exit 0"),
            (256, "exit 1"),
            (9, "SIGKILL"),
            (139, "SIGSEGV"),
            (40, "signal 40"),
        ] {
            assert_eq!(exit_text(status), text);
        }
    }
}
