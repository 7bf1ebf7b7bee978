//! `longshore man [DIR]`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::fault::Exit;
use crate::output::Out;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Write a page for each verb into this directory, instead of printing the main one.
    dir: Option<PathBuf>,
}

pub(crate) fn run(args: &Args, out: &mut Out) -> Result<Exit> {
    let mut command = crate::command();
    command.build();
    match &args.dir {
        None => out.bytes(&page(&command)?)?,
        Some(dir) => {
            std::fs::create_dir_all(dir)
                .with_context(|| format!("cannot create {}", dir.display()))?;
            write_pages(&command, dir)?;
        }
    }
    Ok(Exit::Success)
}

fn page(command: &clap::Command) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut text)?;
    Ok(text)
}

fn write_pages(command: &clap::Command, dir: &Path) -> Result<()> {
    // Set by `Command::build`: `longshore-csi-volume` for `longshore csi volume`.
    let name = command
        .get_display_name()
        .unwrap_or_else(|| command.get_name());
    let path = dir.join(format!("{name}.1"));
    std::fs::write(&path, page(command)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    for verb in command
        .get_subcommands()
        .filter(|verb| verb.get_name() != "help")
    {
        write_pages(verb, dir)?;
    }
    Ok(())
}
