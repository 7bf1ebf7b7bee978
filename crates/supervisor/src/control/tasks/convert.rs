//! Tasks as the control service tells them.

use std::time::Duration;

use longshore_control_api::v1;
use longshore_task_manager::{EngineStatus, Phase, TaskManager, TaskStatus};

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// `engine`: what is known of the one at `address`.
pub(super) fn task(task: &TaskStatus, engine: &EngineStatus, address: &str) -> v1::Task {
    let phase = match task.phase {
        Phase::Starting => v1::TaskPhase::Starting,
        Phase::Running => v1::TaskPhase::Running,
        Phase::Killing => v1::TaskPhase::Killing,
        Phase::Ended => v1::TaskPhase::Ended,
    };
    v1::Task {
        id: task.id.clone(),
        name: task.name.clone(),
        image: task.image.clone(),
        container: task.container.clone(),
        phase: phase.into(),
        state: task.state.to_owned(),
        reason: task.reason.to_owned(),
        message: task.message.clone(),
        ending: task.ending.clone(),
        exit_code: task.exit_code.into(),
        launched_at_ms: millis(task.launched),
        ended_at_ms: task.ended.map_or(0, millis),
        healthy: task.healthy,
        addresses: task.addresses.clone(),
        sandbox: task
            .sandbox
            .as_ref()
            .map_or_else(String::new, |path| path.to_string_lossy().into_owned()),
        labels: task
            .labels
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
        generation: task.generation,
        pull: task.pull.as_ref().map(|pull| v1::TaskPull {
            status: pull.status.clone(),
            current_bytes: pull.bytes,
            total_bytes: pull.bytes_total,
        }),
        waiting: waiting(task, engine, address),
    }
}

/// What a launch waits for: the engine, else what is tried again.
fn waiting(task: &TaskStatus, engine: &EngineStatus, address: &str) -> String {
    if task.phase != Phase::Starting {
        return String::new();
    }
    let silent = engine.silent.as_ref().map(|(_, reason)| reason);
    match (silent, &task.waiting) {
        (Some(reason), _) => format!("the engine at {address} does not answer: {reason}"),
        (None, Some(problem)) => format!("the engine at {address}: {problem}"),
        (None, None) => String::new(),
    }
}

pub(super) fn engine(manager: &TaskManager, address: &str, configured: bool) -> v1::TaskEngine {
    let status = manager.engine().borrow().clone();
    let (silent_since_ms, error) = match status.silent {
        Some((since, reason)) => (millis(since), reason),
        None => (0, String::new()),
    };
    v1::TaskEngine {
        address: address.to_owned(),
        version: status.version.unwrap_or_default(),
        silent_since_ms,
        error,
        quarantined: manager.damaged().to_vec(),
        wanted: configured || !manager.tasks().is_empty(),
    }
}
