//! `cargo xtask crash`: the supervisor killed at random moments under load.

use std::path::Path;

use anyhow::Result;

use crate::sh;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How often the supervisor is killed.
    #[arg(long, default_value_t = 1000)]
    pub(crate) kills: u32,
    /// Replays a run; without it a seed is drawn and printed.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
}

/// Runs the crash test of `tests/e2e` on the release binary.
///
/// # Errors
/// When an invariant is broken; the output names it and the seed.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    sh::run(sh::cargo(root).args(["build", "--release", "--package", "longshore"]))?;
    let mut command = sh::cargo(root);
    command
        .args([
            "test",
            "--package",
            "longshore-e2e",
            "--test",
            "it",
            "--",
            "--nocapture",
        ])
        .args(["--exact", CRASH_TEST])
        .env("LONGSHORE_CRASH_KILLS", options.kills.to_string())
        .env(
            "LONGSHORE_BIN",
            sh::target_dir(root).join("release/longshore"),
        );
    if let Some(seed) = options.seed {
        command.env("LONGSHORE_CRASH_SEED", seed.to_string());
    }
    sh::run(&mut command)
}

const CRASH_TEST: &str = "crash::killed_at_random_moments_it_loses_doubles_and_orphans_nothing";
