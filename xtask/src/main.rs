//! Workflows of the workspace; `cargo xtask --help` lists them.
//!
//! Depends on no crate of ours, so that it builds when they do not.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program for a terminal; every other crate but the command line is silent"
)]

mod bench;
mod chaos;
mod ci;
mod codegen;
mod crash;
mod dist;
mod engine;
mod fuzz;
mod package;
mod sh;
mod test;
mod tidy;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Workflows of the Longshore workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Generate the Rust code of `proto/` into the `*-api` crates.
    Codegen {
        /// Change nothing; fail when a generated file is stale.
        #[arg(long)]
        check: bool,
    },
    /// Run every test; what the machine lacks is named as skipped.
    Test(test::Options),
    /// Everything that the CI checks, in its order, with the time of each step.
    Ci(ci::Options),
    /// The rules of the house: crate arrows, licences, budgets, file length, forbidden words.
    Tidy,
    /// Build release binaries and measure them against their peers.
    Bench(bench::Options),
    /// Kill the supervisor at random moments under load, and check that nothing is lost.
    Crash(crash::Options),
    /// Run Docker tasks while the daemon, the engine and the calls between them break.
    Chaos(chaos::Options),
    /// Feed hostile input to one parser for a given time.
    Fuzz(fuzz::Options),
    /// A private Docker engine for tests, beside the machine's own.
    #[command(subcommand)]
    Engine(engine::Verb),
    /// A release tarball and a .deb in `dist/`.
    Dist,
    /// `cargo package` for the crates with a semver promise.
    Package,
}

fn main() -> ExitCode {
    let root = sh::root();
    let outcome = match Cli::parse().command {
        Command::Codegen { check } => codegen::run(&root, check),
        Command::Test(options) => test::run(&root, &options),
        Command::Ci(options) => ci::run(&root, &options),
        Command::Tidy => tidy::run(&root),
        Command::Bench(options) => bench::run(&root, &options),
        Command::Crash(options) => crash::run(&root, &options),
        Command::Chaos(options) => chaos::run(&root, &options),
        Command::Fuzz(options) => fuzz::run(&root, &options),
        Command::Engine(verb) => engine::run(&verb),
        Command::Dist => dist::run(&root),
        Command::Package => package::run(&root),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
