//! A task as people and programs see it.

use longshore_control_api::task_phase_word;
use longshore_control_api::v1::{DeclaredTask, Task, TaskPhase};
use serde_json::{Value, json};

use super::follow::Progress;
use crate::fault::Exit;
use crate::output::{JSON_VERSION, Tone, brief};
use crate::view;

/// A task as JSON.
pub(super) fn task(task: &Task) -> Value {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let time = |ms: u64| (ms != 0).then(|| view::time(ms));
    let ended = task.phase() == TaskPhase::Ended;
    json!({
        "id": task.id,
        "name": task.name,
        "image": task.image,
        "container": text(&task.container),
        "phase": task_phase_word(task.phase()),
        "state": text(&task.state),
        "reason": text(&task.reason),
        "message": text(&task.message),
        "ending": text(&task.ending),
        "exit_code": ended.then_some(task.exit_code),
        "launched_at": time(task.launched_at_ms),
        "ended_at": time(task.ended_at_ms),
        "healthy": task.healthy,
        "addresses": task.addresses,
        "sandbox": text(&task.sandbox),
        "labels": task.labels,
        "generation": task.generation,
        "waiting": text(&task.waiting),
        "pull": task.pull.as_ref().map(|pull| json!({
            "status": text(&pull.status),
            "current_bytes": pull.current_bytes,
            "total_bytes": (pull.total_bytes != 0).then_some(pull.total_bytes),
        })),
    })
}

/// A declared task as JSON; its attempts where they were asked for.
pub(super) fn declared(task: &DeclaredTask) -> Value {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let time = |ms: u64| (ms != 0).then(|| view::time(ms));
    let history: Vec<_> = task
        .history
        .iter()
        .map(|it| {
            let ended = it.ended_at_ms != 0;
            json!({
                "number": it.number,
                "generation": it.generation,
                "began_at": time(it.began_at_ms),
                "ended_at": time(it.ended_at_ms),
                "exit_code": ended.then_some(it.exit_code),
                "ending": text(&it.ending),
                "message": text(&it.message),
            })
        })
        .collect();
    json!({
        "name": task.name,
        "image": task.image,
        "state": task.state,
        "reason": text(&task.reason),
        "restart": task.restart,
        "needs": task.needs,
        "file": text(&task.file),
        "generation": task.generation,
        "attempts": task.attempts,
        "attempt": text(&task.attempt),
        "attempt_at": time(task.attempt_at_ms),
        "last_reason": text(&task.last_reason),
        "next_try_at": time(task.next_try_at_ms),
        "healthy": task.healthy,
        "problem": text(&task.problem),
        "history": history,
    })
}

/// How a declared task looks.
pub(super) fn declared_tone(task: &DeclaredTask) -> Tone {
    match task.state.as_str() {
        "running" if task.healthy == Some(false) => Tone::Bad,
        "running" => Tone::Good,
        "failing" | "unclear" => Tone::Bad,
        "stopped" | "done" => Tone::Dim,
        _ => Tone::Busy,
    }
}

/// What a declared task is about: why it is so, when it is tried again, how it ended last.
pub(super) fn declared_details(task: &DeclaredTask) -> String {
    let mut parts = vec![task.reason.clone()];
    if task.last_reason != task.reason {
        parts.push(task.last_reason.clone());
    }
    if !task.problem.is_empty() {
        parts.push(format!("not on record: {}", task.problem));
    }
    parts.retain(|part| !part.is_empty());
    brief(&parts.join("; "))
}

/// One line of what it is about; what a launch waits for before the rest.
pub(super) fn details(task: &Task) -> String {
    let text = match &task.pull {
        _ if !task.waiting.is_empty() => format!("waiting: {}", task.waiting),
        Some(pull) => format!("pulling: {}", pull.status),
        None => task.message.clone(),
    };
    brief(&text)
}

/// A line of output as JSON.
pub(super) fn line(stream: &str, line: &[u8]) -> Value {
    json!({
        "version": JSON_VERSION,
        "stream": stream,
        "line": String::from_utf8_lossy(line),
    })
}

pub(super) fn tone(task: &Task) -> Tone {
    match task.phase() {
        TaskPhase::Running if task.healthy == Some(false) => Tone::Bad,
        TaskPhase::Running => Tone::Good,
        TaskPhase::Starting | TaskPhase::Killing => Tone::Busy,
        TaskPhase::Ended if task.exit_code == 0 => Tone::Dim,
        TaskPhase::Ended => Tone::Bad,
        TaskPhase::Unspecified => Tone::Plain,
    }
}

/// What a command line exits with that ran this task.
pub(super) fn exit(task: &Task) -> Exit {
    Exit::Code(u8::try_from(task.exit_code).unwrap_or(1))
}

/// Whether it ended without ever having run, and nobody wanted that.
pub(super) fn never_ran(task: &Task) -> bool {
    let words = [
        "invalid",
        "not-recorded",
        "image-missing",
        "pull-failed",
        "not-created",
        "not-wanted",
        "not-started",
        "program-not-found",
        "program-not-executable",
    ];
    words.contains(&task.ending.as_str())
}

/// Says on stderr how a task has ended, unless its exit code tells it all.
pub(super) fn tell_end(task: &Task) {
    let told = ["exited", "signaled", "killed", "killed-during-launch"];
    if !told.contains(&task.ending.as_str()) && !task.message.is_empty() {
        Progress::note(&format!("task {}: {}", task.id, task.message));
    }
}
