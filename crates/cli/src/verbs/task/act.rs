//! `longshore task stop|kill|rm ID ..`.

use std::time::Duration;

use anyhow::Result;
use longshore_control_api::v1::{KillTaskRequest, RemoveTaskRequest, StopTaskRequest};
use serde_json::json;

use super::connect;
use super::wait::ended;
use crate::control::{DaemonArgs, call, call_within};
use crate::fault::Exit;
use crate::output::{JSON_VERSION, Out};
use crate::verbs::{block_on, duration, millis};

/// What every one of them takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Subject {
    /// The tasks.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// For programs.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Stop {
    /// From the stop signal to KILL, in seconds or as a time such as 500ms; otherwise the task's own.
    #[arg(short, long, value_name = "TIME", value_parser = seconds)]
    time: Option<Duration>,
    #[command(flatten)]
    subject: Subject,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Kill {
    /// The signal, by name or number.
    #[arg(short, long, value_name = "SIGNAL", default_value = "KILL")]
    signal: String,
    #[command(flatten)]
    subject: Subject,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Rm {
    /// Kill a task that has not ended.
    #[arg(short, long)]
    force: bool,
    #[command(flatten)]
    subject: Subject,
}

/// Docker counts in seconds.
fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<u32>() {
        Ok(seconds) => Ok(Duration::from_secs(seconds.into())),
        Err(_) => duration(text),
    }
}

/// How long a forced removal may take: an engine that hangs is waited for.
const REMOVAL: Duration = Duration::from_secs(130);

pub(crate) fn stop(args: &Stop, out: &mut Out) -> Result<Exit> {
    block_on(async {
        let mut tasks = connect(&args.subject.daemon).await?;
        // All at once, then wait for each.
        for id in &args.subject.ids {
            let request = StopTaskRequest {
                id: id.clone(),
                grace_ms: args.time.map(millis),
            };
            call(tasks.stop_task(request)).await?;
        }
        for id in &args.subject.ids {
            ended(&mut tasks, id).await?;
            done(&args.subject, "stop", id, out)?;
        }
        Ok(Exit::Success)
    })
}

pub(crate) fn kill(args: &Kill, out: &mut Out) -> Result<Exit> {
    block_on(async {
        let mut tasks = connect(&args.subject.daemon).await?;
        for id in &args.subject.ids {
            let request = KillTaskRequest {
                id: id.clone(),
                signal: args.signal.clone(),
            };
            call_within(REMOVAL, tasks.kill_task(request)).await?;
            done(&args.subject, "kill", id, out)?;
        }
        Ok(Exit::Success)
    })
}

pub(crate) fn rm(args: &Rm, out: &mut Out) -> Result<Exit> {
    block_on(async {
        let mut tasks = connect(&args.subject.daemon).await?;
        for id in &args.subject.ids {
            let request = RemoveTaskRequest {
                id: id.clone(),
                force: args.force,
            };
            call_within(REMOVAL, tasks.remove_task(request)).await?;
            done(&args.subject, "rm", id, out)?;
        }
        Ok(Exit::Success)
    })
}

fn done(subject: &Subject, action: &str, id: &str, out: &mut Out) -> Result<()> {
    if subject.json {
        out.json(&json!({ "version": JSON_VERSION, "action": action, "task": id }))?;
    } else {
        out.line(id)?;
    }
    Ok(out.flush()?)
}
