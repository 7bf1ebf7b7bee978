//! `longshore nri remove`.

use anyhow::Result;
use longshore_control_api::v1::RemoveNriPluginRequest;

use crate::control::{NriArgs, call};
use crate::fault::Exit;
use crate::output::Out;
use crate::verbs::block_on;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The connection is closed; a plugin that the runtime started is stopped for good. Where it was required, containers \
are created without it. A plugin that connects again is let in again.")]
pub(crate) struct Args {
    /// The plugin, in full (10-logger) or by its base name (logger).
    name: String,
    /// Why, for the runtime's log.
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    #[command(flatten)]
    of: NriArgs,
}

pub(crate) fn run(args: Args, out: &mut Out) -> Result<Exit> {
    let Args { name, reason, of } = args;
    let request = RemoveNriPluginRequest {
        name: name.clone(),
        reason,
    };
    let done = block_on(async {
        let mut nri = of.connect().await?;
        call(nri.remove_nri_plugin(request)).await
    })?;
    match done.removed {
        1 => out.line(format_args!("{name} is removed"))?,
        several => out.line(format_args!("{several} plugins named {name} are removed"))?,
    }
    Ok(Exit::Success)
}
