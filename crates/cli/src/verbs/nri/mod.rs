//! `longshore nri ..`: a bench for authors of NRI plugins.

mod trace;

use anyhow::Result;

use crate::fault::Exit;
use crate::output::Out;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Show what plugins and a runtime say to each other, live or from a record.
    Trace(trace::Args),
}

pub(crate) fn run(args: Args, out: &mut Out) -> Result<Exit> {
    crate::logging::start_if_asked()?;
    match args.verb {
        Verb::Trace(args) => trace::run(args, out),
    }
}
