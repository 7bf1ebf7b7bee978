//! A last status as an exit: pure.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use longshore_agent::service::{ExitInfo, ExitReason, LaunchError, LaunchErrorKind};
use longshore_docker_executor::labels;
use longshore_mesos_api::v1::TaskStatus;

const SIGKILL: i32 = 9;
const MIB: f64 = 1_048_576.0;

/// A label of a status.
fn label<'a>(status: &'a TaskStatus, key: &str) -> Option<&'a str> {
    let labels = &status.labels.as_ref()?.labels;
    let found = labels.iter().find(|label| label.key == key)?;
    found.value.as_deref()
}

/// How the container of a last status has ended.
pub(crate) fn of_status(status: &TaskStatus) -> ExitInfo {
    let word = label(status, labels::ENDING).unwrap_or_default();
    let code: Option<i32> = label(status, labels::EXIT_CODE).and_then(|code| code.parse().ok());
    let unknown = matches!(
        word,
        "engine-gone" | "exit-missed" | "restarted-by-other" | "rebooted" | ""
    );
    let reason = match word {
        "out-of-memory" => Some(ExitReason::MemoryLimit {
            limit_bytes: limit_bytes(status),
        }),
        "rebooted" => Some(ExitReason::Rebooted),
        _ => None,
    };
    ExitInfo {
        status: match reason {
            Some(ExitReason::MemoryLimit { .. }) => Some(SIGKILL),
            _ if unknown => None,
            _ => code.map(raw_status),
        },
        reason,
        // What the status says of itself needs no words.
        message: match word {
            "exited" | "signaled" | "killed" => None,
            _ => status.message.clone(),
        },
    }
}

/// An engine tells a signal as 128 and its number.
fn raw_status(code: i32) -> i32 {
    match code - 128 {
        signal @ 1..=64 => signal,
        _ => (code & 0xff) << 8,
    }
}

fn limit_bytes(status: &TaskStatus) -> u64 {
    let resources = status.limitation.iter().flat_map(|it| &it.resources);
    let mib: f64 = resources
        .filter_map(|resource| Some(resource.scalar.as_ref()?.value))
        .sum();
    let bytes = Duration::try_from_secs_f64(mib * MIB).unwrap_or_default();
    bytes.as_secs()
}

/// When the status was told.
pub(crate) fn time_of(status: &TaskStatus) -> SystemTime {
    let since = Duration::try_from_secs_f64(status.timestamp()).unwrap_or_default();
    UNIX_EPOCH + since
}

/// Why a container that is over never had a first process; `None` when it had one. A program that cannot be executed shows
/// in the exit status, as with process containers.
pub(crate) fn launch_failure(status: &TaskStatus) -> Option<LaunchError> {
    let kind = match label(status, labels::ENDING).unwrap_or_default() {
        "invalid" | "image-missing" | "not-created" | "not-wanted" => LaunchErrorKind::BadRequest,
        "not-recorded" | "pull-failed" | "not-started" | "killed-during-launch" => {
            LaunchErrorKind::Internal
        }
        _ => return None,
    };
    Some(LaunchError {
        kind,
        message: status
            .message
            .clone()
            .unwrap_or_else(|| "the container was not started".to_owned()),
    })
}

/// The first process, as the engine's description in a RUNNING status names it.
pub(crate) fn pid_of(status: &TaskStatus) -> Option<u32> {
    let data: serde_json::Value = serde_json::from_slice(status.data.as_deref()?).ok()?;
    let pid = data.get(0)?.get("State")?.get("Pid")?.as_u64()?;
    u32::try_from(pid).ok().filter(|pid| *pid > 0)
}

#[cfg(test)]
mod tests;
