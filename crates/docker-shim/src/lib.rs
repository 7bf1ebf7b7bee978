//! Internal to Longshore: stands in for docker's command line before a Mesos agent that nobody maintains any more.
//!
//! The agent's docker containerizer runs `docker` for whatever it wants of an engine, and needs a `ContainerConfig` in what
//! `docker inspect` says of an image. Engines dropped it with API 1.45 (Docker 26), so such an agent fails every task before an
//! executor is started. Named by the agent's `--docker`, the binary serves the forms that the agent uses, over the Engine API, and
//! puts `ContainerConfig` back:
//!
//! `docker [-H ADDR] [--config DIR] --version | pull | inspect [--type] | ps | stop | kill | rm | run`
//!
//! # Invariants
//!
//! - A form or a flag that is not served is refused by its name: nothing is passed over.
//! - Standard output holds what a program reads; every complaint goes to standard error. The exit code is docker's.
//! - No value of an environment variable is in a message.

mod args;
mod inspect;
mod lexer;
mod list;
mod orders;
mod run;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use longshore_engine::{DockerConfig, DockerEngine, EngineEndpoint, EngineError};

use args::{Command, Invocation};

const HELP: &str = "\
Stands in for docker's command line before a Mesos agent, over the Engine API.

usage: docker [-H ADDRESS] [--config DIR] FORM

  --version
  pull [-q] IMAGE
  inspect [--type container|image] NAME..
  ps [-a] [-q] [--no-trunc] [--filter name=|label=|id=..]
  stop [-t SECONDS] CONTAINER..
  kill [-s SIGNAL] CONTAINER..
  rm [-f] [-v] CONTAINER..
  run [FLAGS] IMAGE [COMMAND..]    with the flags of `longshore task run --help`

Other forms and flags are refused by name.";

/// Why a form was not carried out, with its exit code.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
struct Failed {
    message: String,
    exit: u8,
}

impl Failed {
    fn new(exit: u8, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            exit,
        }
    }
}

impl From<EngineError> for Failed {
    fn from(error: EngineError) -> Self {
        Self::new(1, chain(&error))
    }
}

/// An error with its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// Does what `arguments` (without the program's name) ask for, and gives the exit code that docker would: for `run` the
/// container's own, 125 when the engine refused it, 126 or 127 when its program could not be executed or
/// was not found; else 0 or 1.
///
/// It runs until that is done. A `run` that is attached passes TERM, INT, HUP, QUIT, USR1 and USR2 on to the container.
#[must_use]
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let outcome = args::parse(arguments).and_then(|invocation| {
        if matches!(invocation.command, Command::Help) {
            say(HELP);
            return Ok(0);
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let runtime = runtime.map_err(|error| {
            Failed::new(
                125,
                format!("the kernel gives no queue for events: {error}"),
            )
        })?;
        let outcome = runtime.block_on(carry_out(invocation));
        // A reader of ours that is stuck is not waited for.
        runtime.shutdown_background();
        outcome
    });
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(failed) => {
            complain(&failed.message);
            ExitCode::from(failed.exit)
        }
    }
}

async fn carry_out(invocation: Invocation) -> Result<u8, Failed> {
    let Invocation {
        host,
        config_dir,
        command,
    } = invocation;
    let endpoint = match host {
        Some(host) => EngineEndpoint::parse(&host, "-H"),
        None => EngineEndpoint::from_environment(),
    };
    let refused = if matches!(command, Command::Run(_)) {
        125
    } else {
        1
    };
    let endpoint = endpoint.map_err(|error| Failed::new(refused, chain(&error)))?;
    let mut config = DockerConfig::new(endpoint);
    if let Some(dir) = config_dir {
        config.client_config = Some(dir.join("config.json"));
    }
    let engine = DockerEngine::new(config);
    match command {
        // Was answered without an engine.
        Command::Help => Ok(0),
        Command::Version => orders::version(&engine).await,
        Command::Pull(image) => orders::pull(&engine, image).await,
        Command::Inspect(inspect) => inspect::inspect(&engine, &inspect).await,
        Command::List(list) => list::list(&engine, &list).await,
        Command::Stop { grace, names } => orders::stop(&engine, grace, &names).await,
        Command::Kill { signal, names } => orders::kill(&engine, &signal, &names).await,
        Command::Remove { options, names } => orders::remove(&engine, options, &names).await,
        Command::Run(run) => run::run(&engine, *run).await,
    }
}

/// A line on standard output. A reader that went away does not keep us from what we were asked for.
fn say(line: &str) {
    let _closed = writeln!(std::io::stdout(), "{line}");
}

/// A line on standard error.
fn complain(message: &str) {
    let _closed = writeln!(std::io::stderr(), "docker: {message}");
}
