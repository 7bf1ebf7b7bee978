//! `longshore reload`.

use std::time::Duration;

use anyhow::Result;
use longshore_control_api::v1::ReloadRequest;
use serde_json::json;

use crate::control::{DaemonArgs, call_within};
use crate::fault::{Exit, Fault};
use crate::output::{JSON_VERSION, Out};
use crate::verbs::block_on;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// For programs.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

/// For reading files and handing the result to the manager.
const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) fn run(args: Args, out: &mut Out) -> Result<Exit> {
    let answer = block_on(async {
        let mut control = args.daemon.connect().await?;
        call_within(DEADLINE, control.reload(ReloadRequest {})).await
    })?;
    let complete = answer.errors.is_empty();
    if args.json {
        out.json(&json!({
            "version": JSON_VERSION,
            "complete": complete,
            "changes": answer.changes,
            "warnings": answer.warnings,
            "errors": answer.errors,
        }))?;
        return Ok(if complete {
            Exit::Success
        } else {
            Exit::Config
        });
    }
    for warning in &answer.warnings {
        out.line(format_args!("warning: {warning}"))?;
    }
    if answer.changes.is_empty() {
        out.line("nothing changed")?;
    }
    for change in &answer.changes {
        out.line(change)?;
    }
    if complete {
        return Ok(Exit::Success);
    }
    out.flush()?;
    Err(Fault::all(Exit::Config, answer.errors).into())
}
