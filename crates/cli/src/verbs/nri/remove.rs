//! `longshore nri remove`.

use anyhow::Result;
use clap::builder::NonEmptyStringValueParser;
use longshore_control_api::v1::RemoveNriPluginRequest;

use crate::control::{NriArgs, call};
use crate::fault::Exit;
use crate::output::Out;
use crate::verbs::block_on;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
The connection is closed, and `nri ls` lists the plugin as closed until it is removed once more; a plugin that the runtime started is stopped for good. Where it was required, containers \
are created without it. A plugin that connects again is let in again.")]
pub(crate) struct Args {
    /// The plugin, in full (10-logger) or by its base name (logger).
    #[arg(value_parser = NonEmptyStringValueParser::new())]
    name: String,
    /// Why, for the runtime's log and `nri ls`; at most 1024 bytes.
    #[arg(long, value_name = "TEXT", default_value = "", value_parser = reason)]
    reason: String,
    #[command(flatten)]
    of: NriArgs,
}

/// The most bytes of a reason, which is listed with the plugin.
const REASON_MAX: usize = 1024;

fn reason(text: &str) -> Result<String, String> {
    match text.len() {
        0..=REASON_MAX => Ok(text.to_owned()),
        long => Err(format!(
            "it has {long} bytes, at most {REASON_MAX} are kept"
        )),
    }
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
