//! `longshore csi ls`.

use anyhow::Result;
use longshore_control_api::v1::GetStatusRequest;
use serde_json::json;

use crate::control::{DaemonArgs, call};
use crate::fault::Exit;
use crate::output::{JSON_VERSION, Out};
use crate::verbs::{block_on, status};
use crate::view;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// For programs.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

pub(crate) fn run(args: &Args, out: &mut Out) -> Result<Exit> {
    let found = block_on(async {
        let mut control = args.daemon.connect().await?;
        call(control.get_status(GetStatusRequest::default())).await
    })?;
    if args.json {
        let plugins: Vec<_> = found.plugins.iter().map(view::plugin_json).collect();
        out.json(&json!({"version": JSON_VERSION, "plugins": plugins}))?;
    } else {
        status::plugins(&found.plugins, out)?;
    }
    Ok(Exit::Success)
}
