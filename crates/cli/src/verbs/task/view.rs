//! A task as people and programs see it.

use longshore_control_api::task_phase_word;
use longshore_control_api::v1::{Task, TaskPhase};
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
