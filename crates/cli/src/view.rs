//! The control service's messages as people and programs see them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use longshore_control_api::{state_word, v1};
use serde_json::{Value, json};

use crate::output::{JSON_VERSION, Tone};

/// Now, in milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

/// `12s`, `3m`, `5h`, `2d`: the larger unit alone, as a person counts.
pub(crate) fn age(since_ms: u64) -> String {
    if since_ms == 0 {
        return "-".to_owned();
    }
    let seconds = Duration::from_millis(now_ms().saturating_sub(since_ms)).as_secs();
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// `in 12s`, or `now` for what is due.
pub(crate) fn until(at_ms: u64) -> String {
    let left = Duration::from_millis(at_ms.saturating_sub(now_ms()));
    if left.is_zero() {
        "now".to_owned()
    } else {
        format!("in {}s", left.as_secs().max(1))
    }
}

/// The engine of tasks as JSON.
pub(crate) fn engine_json(engine: &v1::TaskEngine) -> Value {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    json!({
        "address": text(&engine.address),
        "version": text(&engine.version),
        "silent_since": (engine.silent_since_ms != 0).then(|| time(engine.silent_since_ms)),
        "error": text(&engine.error),
        "quarantined": engine.quarantined,
    })
}

/// RFC 3339 in UTC with milliseconds.
pub(crate) fn time(ms: u64) -> String {
    let (days, rest) = (ms / 86_400_000, ms % 86_400_000);
    // Howard Hinnant's civil-from-days, for dates since 1970.
    let z = days + 719_468;
    let (era, doe) = (z / 146_097, z % 146_097);
    let yoe = (doe - doe / 1_460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = doy - (153 * mp + 2) / 5 + 1;
    let month = if mp < 10 { mp + 3 } else { mp - 9 };
    let year = yoe + era * 400 + u64::from(month <= 2);
    let (hour, minute) = (rest / 3_600_000, rest / 60_000 % 60);
    let (second, milli) = (rest / 1_000 % 60, rest % 1_000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milli:03}Z")
}

pub(crate) fn tone(state: v1::State) -> Tone {
    match state {
        v1::State::Ready => Tone::Good,
        v1::State::Unhealthy | v1::State::Failing => Tone::Bad,
        v1::State::Stopped | v1::State::Idle | v1::State::Unspecified => Tone::Dim,
        v1::State::Recovering
        | v1::State::Starting
        | v1::State::Probing
        | v1::State::Backoff
        | v1::State::Stopping
        | v1::State::Kept => Tone::Busy,
    }
}

/// Whether everything is as configured: what exit code 3 of `status` is about. A plugin that an
/// operator has stopped is not ready; one kept for its mounts alone is. One that kubelet should have registered and has not
/// is not, either.
pub(crate) fn is_ready(status: &v1::Status) -> bool {
    let config = status
        .config
        .as_ref()
        .is_none_or(|config| config.error.is_empty());
    let agent = status
        .agent
        .as_ref()
        .is_none_or(|agent| agent.silent_since_ms == 0);
    let plugins = status
        .plugins
        .iter()
        .all(|plugin| matches!(plugin.state(), v1::State::Ready | v1::State::Kept));
    let registered = |it: &v1::KubeletRegistration| it.state == REGISTERED;
    let plugins = plugins
        && status
            .plugins
            .iter()
            .all(|plugin| plugin.kubelet.as_ref().is_none_or(registered));
    config && agent && plugins
}

/// The state of a plugin that kubelet has registered.
pub(crate) const REGISTERED: &str = "registered";

fn opt(ms: u64) -> Value {
    if ms == 0 {
        Value::Null
    } else {
        json!(time(ms))
    }
}

fn text(text: &str) -> Value {
    if text.is_empty() {
        Value::Null
    } else {
        json!(text)
    }
}

/// The `--json` form of the status; `docs/json.md` documents it.
pub(crate) fn status_json(status: &v1::Status) -> Value {
    let config = status.config.clone().unwrap_or_default();
    let agent = status.agent.clone().unwrap_or_default();
    json!({
        "version": JSON_VERSION,
        "ready": is_ready(status),
        "generation": status.generation,
        "daemon": {
            "version": status.version,
            "pid": status.pid,
            "started_at": opt(status.started_at_ms),
            "instance_id": status.instance_id,
            "state_dir": status.state_dir,
            "runtime_dir": status.runtime_dir,
        },
        "config": {
            "path": text(&config.path),
            "loaded_at": opt(config.loaded_at_ms),
            "error": text(&config.error),
            "error_at": opt(config.error_at_ms),
            "warnings": config.warnings,
        },
        "agent": {
            "url": agent.url,
            "embedded": agent.embedded,
            "silent_since": opt(agent.silent_since_ms),
            "error": text(&agent.error),
        },
        "tasks": status.tasks.as_ref().map(|tasks| json!({
            "unfinished": tasks.unfinished,
            "ended": tasks.ended,
            "declared": tasks.declared,
            "declared_waiting": tasks.declared_waiting,
            "engine": tasks.engine.as_ref().map(engine_json),
        })),
        "plugins": status.plugins.iter().map(plugin_json).collect::<Vec<_>>(),
        "strays": status.strays,
        "foreign": status.foreign.iter().map(|foreign| json!({
            "path": foreign.path,
            "reason": foreign.reason,
        })).collect::<Vec<_>>(),
        "quarantined": status.quarantined.iter().map(|record| json!({
            "path": record.path,
            "reason": record.reason,
            "advice": record.advice,
            "at": opt(record.at_ms),
        })).collect::<Vec<_>>(),
    })
}

pub(crate) fn plugin_json(plugin: &v1::PluginStatus) -> Value {
    let metrics = plugin.metrics.unwrap_or_default();
    json!({
        "name": plugin.name,
        "type": plugin.r#type,
        "plugin_name": plugin.plugin_name,
        "managed": plugin.managed,
        "state": state_word(plugin.state()),
        "reason": text(&plugin.reason),
        "since": opt(plugin.since_ms),
        "next_retry_at": opt(plugin.next_retry_at_ms),
        "generation": plugin.generation,
        "api_version": text(&plugin.api_version),
        "restarts": plugin.restarts,
        "endpoints": plugin.endpoints.iter().map(|endpoint| json!({
            "service": endpoint.service,
            "uri": text(&endpoint.uri),
            "state": state_word(endpoint.state()),
            "reason": text(&endpoint.reason),
        })).collect::<Vec<_>>(),
        "containers": plugin.containers.iter().map(|container| json!({
            "id": container.id,
            "services": container.services,
            "state": state_word(container.state()),
            "reason": text(&container.reason),
            "pid": if container.pid == 0 { Value::Null } else { json!(container.pid) },
            "restarts": container.restarts,
            "last_exit": text(&container.last_exit),
            "sandbox": text(&container.sandbox),
        })).collect::<Vec<_>>(),
        "driver": plugin.driver.as_ref().map(driver_json),
        "mounts": plugin.mounts,
        "kubelet": plugin.kubelet.as_ref().map(|kubelet| json!({
            "state": kubelet.state,
            "reason": text(&kubelet.reason),
            "since": opt(kubelet.since_ms),
            "next_retry_at": opt(kubelet.next_retry_at_ms),
            "socket": text(&kubelet.socket),
            "confirmed": kubelet.confirmed,
        })),
        "metrics": {
            "container_terminations": metrics.container_terminations,
            "rpcs_pending": metrics.rpcs_pending,
            "rpcs_finished": metrics.rpcs_finished,
            "rpcs_failed": metrics.rpcs_failed,
            "rpcs_cancelled": metrics.rpcs_cancelled,
        },
        "history": plugin.history.iter().map(|transition| json!({
            "at": opt(transition.at_ms),
            "from": state_word(transition.from()),
            "to": state_word(transition.to()),
            "reason": text(&transition.reason),
            "exit": text(&transition.exit),
            "stderr": transition.stderr,
        })).collect::<Vec<_>>(),
    })
}

pub(crate) fn driver_json(driver: &v1::DriverDetails) -> Value {
    json!({
        "name": driver.name,
        "vendor_version": driver.vendor_version,
        "manifest": driver.manifest,
        "plugin_capabilities": driver.plugin_capabilities,
        "controller_capabilities": driver.controller_capabilities,
        "node_capabilities": driver.node_capabilities,
        "node_id": text(&driver.node_id),
        "max_volumes_per_node": driver.max_volumes_per_node,
        "topology": driver.topology,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_796_037_775_042, "2026-11-30T11:22:55.042Z"),
        ] {
            assert_eq!(time(ms), text);
        }
    }

    #[test]
    fn a_broken_configuration_is_not_ready() {
        let mut status = v1::Status::default();
        assert!(is_ready(&status));
        status.config = Some(v1::ConfigStatus {
            error: "x".to_owned(),
            ..Default::default()
        });
        assert!(!is_ready(&status));
    }
}
