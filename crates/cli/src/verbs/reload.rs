//! `longshore reload`.

use std::time::Duration;

use anyhow::Result;
use longshore_control_api::v1::ReloadRequest;

use crate::control::{DaemonArgs, call_within};
use crate::fault::Exit;
use crate::output::Out;
use crate::verbs::block_on;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
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
    for warning in &answer.warnings {
        out.line(format_args!("warning: {warning}"))?;
    }
    if answer.changes.is_empty() {
        out.line("nothing changed")?;
    }
    for change in &answer.changes {
        out.line(change)?;
    }
    Ok(Exit::Success)
}
