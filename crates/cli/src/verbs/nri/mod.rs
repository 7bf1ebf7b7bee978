//! `longshore nri ..`: a bench for authors of NRI plugins.

mod ls;
mod plugin;
mod remove;
mod replay;
mod serve;
pub(crate) mod simulate;
mod trace;

use std::fmt::Display;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::fault::Exit;
use crate::output::{Out, printable};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// Try plugins out without a cluster: play a case to them, and show what changes in the container.
    Simulate(Box<simulate::Args>),
    /// A runtime that only pretends, alone on a socket: plugins connect, a script says what happens.
    Serve(Box<serve::Args>),
    /// List the plugins of a runtime.
    Ls(ls::Args),
    /// Close a plugin of a runtime.
    Remove(remove::Args),
    /// Show what plugins and a runtime say to each other, live or from a record.
    Trace(trace::Args),
    /// The bundled plugin: sets what annotations of a pod say.
    Plugin(plugin::Args),
}

pub(crate) fn run(args: Args, out: &mut Out) -> Result<Exit> {
    crate::logging::start_if_asked()?;
    match args.verb {
        Verb::Simulate(args) => simulate::run(*args, out),
        Verb::Serve(args) => serve::run(*args, out),
        Verb::Ls(args) => ls::run(&args, out),
        Verb::Remove(args) => remove::run(args, out),
        Verb::Trace(args) => trace::run(args, out),
        Verb::Plugin(args) => plugin::run(args),
    }
}

/// Says something beside the output, such as what is waited for.
fn note(text: impl Display) {
    let text = printable(&text.to_string());
    // Nobody is left to tell when stderr is closed.
    let _closed = writeln!(std::io::stderr(), "longshore: {text}");
}

/// The path of a socket, which is named from where we are.
fn absolute(socket: &Path) -> Result<PathBuf> {
    std::path::absolute(socket).with_context(|| format!("cannot use {}", socket.display()))
}
