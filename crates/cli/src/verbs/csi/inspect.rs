//! `longshore csi inspect NAME`.

use anyhow::{Context as _, Result};
use longshore_control_api::v1::CsiInspectRequest;
use serde_json::{Value, json};

use crate::control::{DaemonArgs, call};
use crate::fault::Exit;
use crate::output::{JSON_VERSION, Out};
use crate::verbs::{block_on, status};
use crate::view;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The plugin.
    name: String,
    /// For programs.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    daemon: DaemonArgs,
}

pub(crate) fn run(args: &Args, out: &mut Out) -> Result<Exit> {
    let found = block_on(async {
        let mut control = args.daemon.connect().await?;
        call(control.csi_inspect(CsiInspectRequest {
            name: args.name.clone(),
        }))
        .await
    })?;
    let plugin = found.plugin.context("the daemon's answer has no plugin")?;
    if args.json {
        let config: Value = serde_json::from_str(&found.config_json).unwrap_or(Value::Null);
        out.json(&json!({
            "version": JSON_VERSION,
            "plugin": view::plugin_json(&plugin),
            "config": config,
            "origin": found.origin,
        }))?;
        return Ok(Exit::Success);
    }
    status::facts(&plugin, out)?;
    if let Some(counted) = &plugin.metrics {
        out.line(format_args!(
            "  {:<10}{} container terminations; rpcs: {} pending, {} finished, {} failed, {} cancelled",
            "counted",
            counted.container_terminations,
            counted.rpcs_pending,
            counted.rpcs_finished,
            counted.rpcs_failed,
            counted.rpcs_cancelled,
        ))?;
    }
    if let Some(driver) = &plugin.driver {
        out.line("")?;
        super::probe::capabilities(driver, out)?;
    }
    status::history(&plugin, out)?;
    if !found.config_json.is_empty() {
        out.line(format_args!("\nconfigured in {}", found.origin))?;
        out.line(&found.config_json)?;
    }
    Ok(Exit::Success)
}
