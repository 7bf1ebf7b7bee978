//! `cargo xtask bench NAME`: release binaries, measured against their peers of the same run.
//!
//! The programs are `bench-*` of `tests/bench`; each prints its figures itself, as a table or (with
//! `--json`) one object a line. `docs/spec.md` lists the figures.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::{engine, sh};

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
    /// The adaptation and the stub of NRI, beside Go's.
    Nri,
    /// Tasks of the docker executor, beside the engine's own calls.
    Docker,
}

impl Name {
    fn programs(self) -> &'static [&'static str] {
        match self {
            Self::Csi => &["bench-csi", "bench-agent"],
            Self::Checkpoint => &["bench-checkpoint"],
            Self::Nri => &["bench-nri"],
            Self::Docker => &["bench-docker"],
        }
    }
}

/// Builds the programs and runs them one after the other.
///
/// # Errors
/// A build that fails, a program that fails; with `--check` a limit that is missed.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    let programs = options.name.programs();
    let mut build = sh::cargo(root);
    build.args(["build", "--release", "--package", "longshore-bench"]);
    match options.name {
        // The others start the daemon and its shim, or the executor.
        Name::Nri => build.args(["--bin", "bench-nri", "--bin", "bench-nri-plugin"]),
        Name::Docker => build.args([
            "--package",
            "longshore",
            "--bin",
            "bench-docker",
            "--bin",
            "longshore",
        ]),
        Name::Csi | Name::Checkpoint => {
            build.args(["--package", "longshore", "--package", "longshore-agent"])
        }
    };
    // Cargo's progress is on standard error: `--json` keeps standard output to itself.
    let status = build.status().context("starting cargo build")?;
    if !status.success() {
        bail!("`{}` ended with {status}", sh::show(&build));
    }
    let private = match options.name {
        Name::Docker if std::env::var_os(engine::VARIABLE).is_none() => {
            Some(engine::Engine::for_tests()?)
        }
        _ => None,
    };
    let release = sh::target_dir(root).join("release");
    let flags = [
        (options.json, "--json"),
        (options.check, "--check"),
        (options.long, "--long"),
    ];
    let mut failed = Vec::new();
    for program in programs {
        let status = Command::new(release.join(program))
            .args(flags.iter().filter(|(on, _)| *on).map(|(_, flag)| flag))
            .current_dir(root)
            .stdin(Stdio::null())
            .env("LONGSHORE_BIN", release.join("longshore"))
            .envs(
                private
                    .as_ref()
                    .map(|engine| (engine::VARIABLE, engine.address())),
            )
            .status()
            .with_context(|| format!("starting {program}"))?;
        if !status.success() {
            failed.push(format!("{program} ended with {status}"));
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    bail!("{}", failed.join(", "))
}
