//! `cargo xtask chaos`: Docker tasks while the daemon, the engine and the calls between them break.

use std::path::Path;

use anyhow::Result;

use crate::{engine, sh};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// How many tasks run in all.
    #[arg(long, default_value_t = 200)]
    pub(crate) tasks: u32,
    /// How long they are launched and things are broken, about; it ends when all tasks have.
    #[arg(long, default_value_t = 4)]
    pub(crate) minutes: u32,
    /// Draws the same sorts of tasks and strikes again; without it a seed is drawn and printed.
    #[arg(long)]
    pub(crate) seed: Option<u64>,
}

/// Runs the chaos tests of `tests/e2e` with the release binary, on a private engine.
///
/// # Errors
/// When there is no engine to be had, or an invariant is broken; the output names it and the seed.
pub(crate) fn run(root: &Path, options: &Options) -> Result<()> {
    sh::run(sh::cargo(root).args(["build", "--release", "--package", "longshore"]))?;
    let private = engine::Engine::for_tests()?;
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
        // One after the other: both kill the engine.
        .args(["--test-threads", "1", "--exact"])
        .args(CHAOS_TESTS)
        .env("LONGSHORE_CHAOS_ENGINE", private.dir())
        .env("LONGSHORE_CHAOS_TASKS", options.tasks.to_string())
        .env("LONGSHORE_CHAOS_MINUTES", options.minutes.to_string())
        .env(
            "LONGSHORE_BIN",
            sh::target_dir(root).join("release/longshore"),
        );
    if let Some(seed) = options.seed {
        command.env("LONGSHORE_CHAOS_SEED", seed.to_string());
    }
    sh::run(&mut command)
}

const CHAOS_TESTS: [&str; 2] = [
    "chaos::declared::what_is_declared_comes_back_one_attempt_at_a_time",
    "chaos::whatever_breaks_each_task_ends_once_and_leaves_nothing",
];
