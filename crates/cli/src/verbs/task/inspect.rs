//! `longshore task inspect ID`.

use anyhow::Result;
use longshore_control_api::v1::InspectTaskRequest;
use serde_json::{Value, json};

use super::{connect, view};
use crate::control::{DaemonArgs, call};
use crate::fault::Exit;
use crate::output::{JSON_VERSION, Out};
use crate::verbs::block_on;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The task.
    id: String,
    /// For programs: on one line.
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
    let document = json!({
        "version": JSON_VERSION,
        "task": found.task.as_ref().map(view::task),
        "info": parsed(&found.task_json),
        "container": parsed(&found.container_json),
    });
    if args.json {
        out.json(&document)?;
    } else {
        out.line(serde_json::to_string_pretty(&document)?)?;
    }
    Ok(Exit::Success)
}
