//! The `longshore` binary: one file a verb under `verbs/`; what they share lies beside this file.

mod agent;
mod control;
mod fault;
mod lines;
mod local;
mod local_tasks;
mod logging;
mod output;
mod signals;
mod temp_root;
mod verbs;
mod view;
mod volume;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use longshore_executor_watchdog::WATCHDOG;

use fault::Exit;
use output::Out;

/// Keeps container plugins running on this machine and hands out endpoints that answer.
#[derive(Debug, Parser)]
#[command(
    name = "longshore",
    version,
    max_term_width = 100,
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show what this does, in under 20 seconds: two storage plugins launched, used, killed and
    /// brought back. Needs no root and leaves nothing behind.
    Demo(verbs::demo::Args),
    /// Run the supervisor in the foreground.
    Daemon(verbs::daemon::Args),
    /// Show what the daemon supervises; exit 3 when something is not ready, 4 without a daemon.
    Status(verbs::status::Args),
    /// Storage plugins: the daemon's, or any driver by its endpoint.
    Csi(verbs::csi::Args),
    /// Containers of an agent, directly.
    Container(verbs::container::Args),
    /// Docker tasks, with docker's names and syntax: run, watch, stop, read their output.
    Task(verbs::task::Args),
    /// NRI plugins: what they and a runtime say.
    Nri(verbs::nri::Args),
    /// The configuration: its defaults, whether it is valid, what is in force.
    Config(verbs::config::Args),
    /// Look for what keeps a node on this machine from working, and say what to do; exit 3 when there is a problem.
    Doctor(verbs::doctor::Args),
    /// Have the daemon read its configuration again.
    Reload(verbs::reload::Args),
    /// Print the completions for a shell.
    Completions(verbs::completions::Args),
    /// Print the manual page, or write all of them into a directory.
    Man(verbs::man::Args),
}

/// The definition that completions and manual pages are made from.
pub(crate) fn command() -> clap::Command {
    Cli::command()
}

fn run(verb: Verb, out: &mut Out) -> anyhow::Result<Exit> {
    match verb {
        Verb::Demo(args) => verbs::demo::run(args, out),
        Verb::Daemon(args) => verbs::daemon::run(args),
        Verb::Status(args) => verbs::status::run(args, out),
        Verb::Csi(args) => verbs::csi::run(args, out),
        Verb::Container(args) => verbs::container::run(args, out),
        Verb::Task(args) => verbs::task::run(args, out),
        Verb::Nri(args) => verbs::nri::run(args, out),
        Verb::Config(args) => verbs::config::run(args, out),
        Verb::Doctor(args) => verbs::doctor::run(args, out),
        Verb::Reload(args) => verbs::reload::run(args, out),
        Verb::Completions(args) => verbs::completions::run(&args, out),
        Verb::Man(args) => verbs::man::run(&args, out),
    }
}

/// Whether this is `task run`, which exits as docker's does also when it cannot be understood.
fn is_task_run() -> bool {
    let words: Vec<_> = std::env::args_os().skip(1).take(2).collect();
    words == ["task", "run"]
}

fn main() -> ExitCode {
    // The parent of a container: no runtime, no parser, as little memory as can be.
    let mut arguments = std::env::args_os();
    // Linked as `docker` it stands in for that, before a Mesos agent.
    let name = arguments.next().map(PathBuf::from);
    let is_called = |wanted: &str| {
        let name = name.as_deref().and_then(Path::file_name);
        name == Some(OsStr::new(wanted))
    };
    if is_called("docker") {
        return longshore_docker_shim::main(arguments);
    }
    // Linked into an agent's launcher directory it is its docker executor; an agent passes flags alone.
    if is_called("mesos-docker-executor") {
        return longshore_mesos_executor::main(arguments, longshore_agent::give_back_memory);
    }
    match arguments.next() {
        Some(first) if first == SHIM => return longshore_agent::shim::main(arguments),
        Some(first) if first == WATCHDOG => return longshore_executor_watchdog::main(arguments),
        _ => {}
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are no failure; a closed pipe is none either.
            let _closed = error.print();
            return if error.use_stderr() && is_task_run() {
                Exit::OF_DOCKER
            } else if error.use_stderr() {
                Exit::Usage
            } else {
                Exit::Success
            }
            .into();
        }
    };
    let mut out = Out::stdout();
    let outcome = run(cli.verb, &mut out).and_then(|exit| {
        out.flush()?;
        Ok(exit)
    });
    match outcome {
        Ok(exit) => exit.into(),
        Err(error) => fault::report(&error).into(),
    }
}

/// The hidden first argument that makes this binary a container's parent.
pub(crate) const SHIM: &str = "shim";
