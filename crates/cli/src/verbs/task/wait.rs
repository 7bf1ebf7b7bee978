//! `longshore task wait ID ..`.

use std::time::Duration;

use anyhow::Result;
use longshore_control_api::v1::{Task, TaskPhase, WatchTaskRequest};
use serde_json::json;

use super::{Tasks, connect, view};
use crate::control::{DaemonArgs, call, refused};
use crate::fault::{Exit, Fault, report};
use crate::output::{JSON_VERSION, Out};
use crate::verbs::{block_on, seconds};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The tasks.
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
    /// Give up after so long, in seconds or as a time such as 500ms; exit 3 then.
    #[arg(long, value_name = "TIME", value_parser = seconds)]
    timeout: Option<Duration>,
    /// For programs.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

pub(crate) fn run(args: &Args, out: &mut Out) -> Result<Exit> {
    block_on(async {
        let mut tasks = connect(&args.daemon).await?;
        let deadline = args.timeout.map(|span| tokio::time::Instant::now() + span);
        let mut first = Exit::Success;
        for id in &args.ids {
            let ended = ended(&mut tasks, id);
            let task = match deadline {
                None => ended.await,
                Some(deadline) => match tokio::time::timeout_at(deadline, ended).await {
                    Ok(task) => task,
                    Err(_) => {
                        let late = format!("task {id} has not ended");
                        Err(Fault::new(Exit::NotReady, late).into())
                    }
                },
            };
            match task {
                Ok(task) if args.json => {
                    out.json(&json!({ "version": JSON_VERSION, "task": view::task(&task) }))?;
                }
                Ok(task) => out.line(task.exit_code)?,
                // The others are waited for all the same.
                Err(error) => {
                    let exit = report(&error);
                    if first == Exit::Success {
                        first = exit;
                    }
                }
            }
            out.flush()?;
        }
        Ok(first)
    })
}

/// The task once it has ended.
pub(super) async fn ended(tasks: &mut Tasks, id: &str) -> Result<Task> {
    let request = WatchTaskRequest { id: id.to_owned() };
    let mut changes = call(tasks.watch_task(request)).await?;
    while let Some(task) = changes.message().await.map_err(|status| refused(&status))? {
        if task.phase() == TaskPhase::Ended {
            return Ok(task);
        }
    }
    Err(Fault::new(
        Exit::Failure,
        format!("the daemon ended while task {id} was waited for"),
    )
    .hint("the task goes on; wait again once a daemon runs")
    .into())
}
