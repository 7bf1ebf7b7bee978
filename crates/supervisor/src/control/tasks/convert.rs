//! Tasks as the control service tells them.

use std::time::Duration;

use longshore_control_api::v1;
use longshore_task_manager::{
    DeclaredBy, DeclaredStatus, EngineStatus, Phase, Rule, TaskManager, TaskStatus,
};

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

/// A declared task; its attempts only when they are asked for.
pub(super) fn declared(task: &DeclaredStatus, history: bool) -> v1::DeclaredTask {
    let attempts = task.attempts.iter().filter(|_| history);
    v1::DeclaredTask {
        name: task.name.clone(),
        image: task.image.clone(),
        state: task.word().to_owned(),
        reason: task.reason(),
        restart: match task.rule {
            Rule::No => "no",
            Rule::OnFailure => "on-failure",
            Rule::Always => "always",
        }
        .to_owned(),
        needs: task.needs.iter().map(ToString::to_string).collect(),
        file: match &task.origin {
            DeclaredBy::File(path) => path.to_string_lossy().into_owned(),
            DeclaredBy::Command => String::new(),
        },
        generation: task.generation,
        attempts: task.number,
        attempt: task
            .task
            .as_ref()
            .map_or_else(String::new, |it| it.id.clone()),
        last_reason: task.last_end(),
        next_try_at_ms: task.next_start().map_or(0, millis),
        healthy: task.task.as_ref().and_then(|it| it.healthy),
        attempt_at_ms: task.attempts.last().map_or(0, |it| millis(it.began)),
        history: attempts
            .map(|it| {
                let end = it.end.as_ref();
                v1::TaskAttempt {
                    number: it.number,
                    generation: it.generation,
                    began_at_ms: millis(it.began),
                    ended_at_ms: end.map_or(0, |end| millis(end.at)),
                    exit_code: end.map_or(0, |end| end.exit_code.into()),
                    ending: end.map_or_else(String::new, |end| end.ending.clone()),
                    message: end.map_or_else(String::new, |end| end.message.clone()),
                }
            })
            .collect(),
        problem: task.problem.clone().unwrap_or_default(),
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
