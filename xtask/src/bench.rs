//! `cargo xtask bench NAME`: release binaries, measured against their peers of the same run.
//!
//! The programs are `bench-*` of `tests/bench`; each prints one JSON object a line (see
//! `docs/spec.md`), which this passes on or makes a table of.

mod table;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::sh;
use table::Line;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// What to measure.
    name: Name,
    /// One JSON object a line, nothing else on standard output.
    #[arg(long)]
    json: bool,
    /// Fail when a limit is missed.
    #[arg(long)]
    check: bool,
    /// The long form (more rounds, a minute of idle time, ..).
    #[arg(long)]
    long: bool,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Name {
    /// Plugins: endpoints, restarts, recovery, sizes; the agent against a real Mesos agent.
    Csi,
    /// Durable records against the bare system calls.
    Checkpoint,
}

impl Name {
    fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Csi => &["bench-csi", "bench-agent"],
            Self::Checkpoint => &["bench-checkpoint"],
        }
    }
}

/// Builds the programs, runs them and prints their figures.
///
/// # Errors
/// A build that fails, a program that fails; with `--check` a limit that is missed.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let programs = options.name.programs();
    let mut build = sh::cargo(root);
    build.args([
        "build",
        "--release",
        "--package",
        "longshore",
        "--package",
        "longshore-bench",
    ]);
    // Cargo's progress is on standard error: `--json` keeps standard output to itself.
    let status = build.status().context("starting cargo build")?;
    if !status.success() {
        bail!("`{}` ended with {status}", sh::show(&build));
    }
    let release = sh::target_dir(root).join("release");
    let mut missed = Vec::new();
    let mut lines = Vec::new();
    for program in programs {
        let mut command = Command::new(release.join(program));
        command
            .current_dir(root)
            .stdin(Stdio::null())
            .env("LONGSHORE_BIN", release.join("longshore"));
        if options.long {
            command.arg("--long");
        }
        measure(&mut command, options.json, &mut lines)
            .with_context(|| format!("running {program}"))?;
    }
    for line in &lines {
        match line.ok {
            Some(false) => missed.push(line.name.clone()),
            Some(true) => {}
            None if line.limit.is_some() => {
                eprintln!("{}: not judged, its peer is missing", line.name);
            }
            None => {}
        }
    }
    if !options.json {
        print!("{}", table::render(&lines));
    }
    if missed.is_empty() {
        return Ok(());
    }
    let names = missed.join(", ");
    if options.check {
        bail!("limits missed: {names}");
    }
    eprintln!("limits missed: {names}");
    Ok(())
}

fn measure(command: &mut Command, json: bool, lines: &mut Vec<Line>) -> Result<()> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .context("starting it")?;
    let stdout = child.stdout.take().context("no pipe")?;
    for text in BufReader::new(stdout).lines() {
        let text = text.context("reading its output")?;
        let line: Line =
            serde_json::from_str(&text).with_context(|| format!("not a figure: {text}"))?;
        if json {
            writeln!(std::io::stdout(), "{text}").context("writing to standard output")?;
        }
        lines.push(line);
    }
    let status = child.wait().context("waiting for it")?;
    if status.success() {
        return Ok(());
    }
    bail!("it ended with {status}")
}
