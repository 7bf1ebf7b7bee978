//! `longshore task inspect ID`.

use anyhow::{Context as _, Result};
use longshore_control_api::task_phase_word;
use longshore_control_api::v1::{DeclaredTask, InspectTaskRequest, Task, TaskPhase};
use serde_json::{Value, json};

use super::{connect, view};
use crate::control::{DaemonArgs, call};
use crate::fault::Exit;
use crate::output::{JSON_VERSION, Out, Tone, printable};
use crate::verbs::block_on;
use crate::view::time;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The task.
    id: String,
    /// For programs: also what it asks for, and what the engine says of its container.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

pub(crate) fn run(args: &Args, out: &mut Out) -> Result<Exit> {
    let id = args.id.clone();
    let found = block_on(async {
        let mut tasks = connect(&args.daemon).await?;
        call(tasks.inspect_task(InspectTaskRequest { id })).await
    })?;
    let parsed = |text: &str| serde_json::from_str::<Value>(text).unwrap_or(Value::Null);
    let container = parsed(&found.container_json);
    if args.json {
        out.json(&json!({
            "version": JSON_VERSION,
            "task": found.task.as_ref().map(view::task),
            "declared": found.declared.as_ref().map(view::declared),
            "info": parsed(&found.task_json),
            "container": container,
        }))?;
        return Ok(Exit::Success);
    }
    if let Some(task) = &found.declared {
        declared(task, out)?;
        if found.task.is_none() {
            return Ok(Exit::Success);
        }
    }
    let task = found.task.context("the daemon's answer has no task")?;
    summary(&task, &container, out)?;
    Ok(Exit::Success)
}

/// How a declared task is, for a person, with its last attempts.
fn declared(task: &DeclaredTask, out: &mut Out) -> Result<()> {
    let word = out.paint(view::declared_tone(task), &printable(&task.state));
    let name = out.paint(Tone::Bold, &printable(&task.name));
    out.line(format_args!("{name}  {word}"))?;
    let next = match task.next_try_at_ms {
        0 => String::new(),
        at => time(at),
    };
    let declared_by = match task.file.as_str() {
        "" => "longshore task run --restart",
        file => file,
    };
    let generation = task.generation.to_string();
    let attempts = task.attempts.to_string();
    for (key, value) in [
        ("image", task.image.as_str()),
        ("reason", &task.reason),
        ("next try", &next),
        ("last", &task.last_reason),
        ("restart", &task.restart),
        ("needs", &task.needs.join(" ")),
        ("declared by", declared_by),
        ("generation", &generation),
        ("attempts", &attempts),
        ("not on record", &task.problem),
    ] {
        if !value.is_empty() {
            out.line(format_args!("  {key:<13}{}", printable(value)))?;
        }
    }
    for attempt in &task.history {
        let how = match attempt.ended_at_ms {
            0 => "has not ended".to_owned(),
            at => format!("{}: {}", time(at), attempt.message),
        };
        let line = format!(
            "  {}.{}  {}  {how}",
            task.name,
            attempt.number,
            time(attempt.began_at_ms)
        );
        out.line(printable(&line))?;
    }
    Ok(())
}

/// How a task is, for a person.
fn summary(task: &Task, container: &Value, out: &mut Out) -> Result<()> {
    let word = out.paint(view::tone(task), task_phase_word(task.phase()));
    let id = out.paint(Tone::Bold, &printable(&task.id));
    out.line(format_args!("{id}  {word}"))?;
    let time = |ms: u64| match ms {
        0 => String::new(),
        ms => time(ms),
    };
    let pid = container[0]["State"]["Pid"].as_u64();
    let pid = pid.filter(|pid| *pid != 0 && task.phase() != TaskPhase::Ended);
    let ended = task.phase() == TaskPhase::Ended;
    let mut fields = vec![
        ("name", task.name.clone()),
        ("image", task.image.clone()),
        ("waiting for", task.waiting.clone()),
        (
            "pull",
            task.pull
                .as_ref()
                .map_or_else(String::new, |it| it.status.clone()),
        ),
        ("state", task.state.clone()),
        ("reason", task.reason.clone()),
        ("message", task.message.clone()),
        ("ending", task.ending.clone()),
        (
            "exit code",
            if ended {
                task.exit_code.to_string()
            } else {
                String::new()
            },
        ),
        ("launched", time(task.launched_at_ms)),
        ("ended", time(task.ended_at_ms)),
        (
            "health",
            task.healthy
                .map_or("", |it| if it { "healthy" } else { "unhealthy" })
                .to_owned(),
        ),
        ("container", task.container.clone()),
        (
            "id",
            container[0]["Id"].as_str().unwrap_or_default().to_owned(),
        ),
        ("pid", pid.map_or_else(String::new, |pid| pid.to_string())),
        ("addresses", task.addresses.join(" ")),
        ("sandbox", task.sandbox.clone()),
    ];
    let mut labels: Vec<_> = task
        .labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    labels.sort();
    fields.extend(labels.into_iter().map(|label| ("label", label)));
    for (key, value) in fields.iter().filter(|(_, value)| !value.is_empty()) {
        out.line(format_args!("  {key:<13}{}", printable(value)))?;
    }
    Ok(())
}
