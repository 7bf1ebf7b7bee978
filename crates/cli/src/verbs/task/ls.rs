//! `longshore task ls`.

use anyhow::Result;
use longshore_control_api::task_phase_word;
use longshore_control_api::v1::{ListTasksRequest, Task, TaskPhase};
use serde_json::json;

use super::{connect, view};
use crate::control::{DaemonArgs, call};
use crate::fault::Exit;
use crate::output::{JSON_VERSION, Out, Table, Tone, printable};
use crate::verbs::block_on;
use crate::view::{age, engine_json, until};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Ended ones, too.
    #[arg(short, long)]
    all: bool,
    /// Ids alone.
    #[arg(short, long, conflicts_with = "json")]
    quiet: bool,
    /// For programs.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

fn health(healthy: Option<bool>) -> &'static str {
    match healthy {
        None => "-",
        Some(true) => "healthy",
        Some(false) => "unhealthy",
    }
}

pub(crate) fn run(args: &Args, out: &mut Out) -> Result<Exit> {
    let found = block_on(async {
        let mut tasks = connect(&args.daemon).await?;
        call(tasks.list_tasks(ListTasksRequest { all: args.all })).await
    })?;
    let engine = found.engine.unwrap_or_default();
    if args.json {
        let tasks: Vec<_> = found.tasks.iter().map(view::task).collect();
        out.json(&json!({
            "version": JSON_VERSION,
            "tasks": tasks,
            "declared": found.declared.iter().map(view::declared).collect::<Vec<_>>(),
            "engine": engine_json(&engine),
        }))?;
        return Ok(Exit::Success);
    }
    // What runs of a declared task is shown as that.
    let shown = |task: &Task| {
        let ended = task.phase() == TaskPhase::Ended;
        ended || found.declared.iter().all(|it| it.attempt != task.id)
    };
    if args.quiet {
        for task in &found.declared {
            out.line(&task.name)?;
        }
        for task in found.tasks.iter().filter(|task| shown(task)) {
            out.line(&task.id)?;
        }
        return Ok(Exit::Success);
    }
    let mut table = Table::new(&[
        "ID", "IMAGE", "STATE", "FOR", "HEALTH", "ATTEMPTS", "NEXT", "DETAILS",
    ]);
    let plain = |text: String| (Tone::Plain, text);
    for task in &found.declared {
        table.row([
            plain(task.name.clone()),
            plain(task.image.clone()),
            (view::declared_tone(task), task.state.clone()),
            plain(match task.attempt_at_ms {
                0 => "-".to_owned(),
                at => age(at),
            }),
            plain(health(task.healthy).to_owned()),
            plain(task.attempts.to_string()),
            plain(match task.next_try_at_ms {
                0 => "-".to_owned(),
                at => until(at),
            }),
            plain(view::declared_details(task)),
        ]);
    }
    for task in found.tasks.iter().filter(|task| shown(task)) {
        let ended = task.phase() == TaskPhase::Ended;
        let since = if ended {
            task.ended_at_ms
        } else {
            task.launched_at_ms
        };
        let details = view::details(task);
        table.row([
            plain(task.id.clone()),
            plain(task.image.clone()),
            (view::tone(task), task_phase_word(task.phase()).to_owned()),
            plain(age(since)),
            plain(health(task.healthy).to_owned()),
            plain("-".to_owned()),
            plain("-".to_owned()),
            plain(details),
        ]);
    }
    if table.is_empty() {
        out.line(if args.all {
            "there are no tasks"
        } else {
            "no task runs"
        })?;
    } else {
        out.table(&table)?;
    }
    if engine.silent_since_ms != 0 {
        let line = format!(
            "the engine at {} has been silent for {}: {}",
            engine.address,
            age(engine.silent_since_ms),
            engine.error
        );
        out.line(out.paint(Tone::Bad, &printable(&line)))?;
    }
    for record in &engine.quarantined {
        out.line(printable(&format!(
            "a damaged record of a task was set aside: {record}"
        )))?;
    }
    Ok(Exit::Success)
}
