//! `longshore completions SHELL`.

use clap_complete::Shell;

use crate::fault::Exit;
use crate::output::Out;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The shell.
    shell: Shell,
}

pub(crate) fn run(args: &Args, out: &mut Out) -> anyhow::Result<Exit> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut crate::command(), "longshore", &mut script);
    out.bytes(&script)?;
    Ok(Exit::Success)
}
