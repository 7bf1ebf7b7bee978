//! Workflows of the workspace; `cargo xtask --help` lists them.

mod codegen;

use std::path::{Path, PathBuf};
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
}

/// The root of the workspace.
fn root() -> PathBuf {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().unwrap_or(manifest).to_path_buf()
}

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Command::Codegen { check } => codegen::run(&root(), check),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "the edge of the program")]
            {
                eprintln!("error: {error:#}");
            }
            ExitCode::FAILURE
        }
    }
}
