//! Internal to Longshore: the drop-in docker executor of a Mesos agent.
//!
//! ```text
//!  agent --v1 executor API--> agent_client::executor --events--> session --acts--> docker_executor --> engine
//!    ^                                                             |                    |
//!    '------------------- status updates <-------------------------+---- statuses <-----'
//!                                                      watchdog: told of each container before it is made
//! ```
//!
//! An agent starts it as `mesos-docker-executor` with flags (its docker containerizer), or as a framework's custom executor. It runs one task;
//! a second one fails and the first goes on.
//!
//! # Invariants
//!
//! - Decisions are pure: the session is told events and says what to do.
//! - The watchdog runs before there is a second thread, and is told of a container before the container is made.
//! - A status is taken off the task's record when the agent has acknowledged it, not before.
//! - It ends after the agent has acknowledged the last status, or with a bound; with 0 only when all was acknowledged. Containers
//!   that it could not see down are the watchdog's.

mod flags;
mod logging;
mod place;
mod run;
mod session;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use longshore_agent_client::executor::ExecutorEnvironment;
use longshore_engine::{DockerConfig, EngineEndpoint};
use longshore_executor_watchdog::Watchdog;

use flags::Flags;

/// Runs the executor to its end; `arguments` are the flags. To be called before there is a second thread. `quiet` is called when nothing has
/// happened for some seconds, and now and then: a program that is large gives memory back in it. It may take milliseconds.
pub fn main(arguments: impl Iterator<Item = OsString>, quiet: fn()) -> ExitCode {
    let flags = match Flags::read(arguments, |name| std::env::var_os(name)) {
        Ok(flags) => flags,
        Err(error) => {
            say(&format!("error: {error}\n\n{}", flags::USAGE));
            return ExitCode::from(1);
        }
    };
    if flags.help {
        let _closed = io::stdout().write_all(flags::USAGE.as_bytes());
        return ExitCode::SUCCESS;
    }
    if flags.version {
        let _closed = writeln!(
            io::stdout(),
            "mesos-docker-executor (longshore) {}",
            env!("CARGO_PKG_VERSION")
        );
        return ExitCode::SUCCESS;
    }
    logging::start(&flags);
    for warning in &flags.warnings {
        tracing::warn!("{warning}");
    }
    match prepare(flags).and_then(|prepared| run::run(prepared, quiet)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            say(&format!("error: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// All that is needed, before anything runs.
struct Prepared {
    flags: Flags,
    environment: ExecutorEnvironment,
    engine: DockerConfig,
    /// The sandbox on this host.
    sandbox: Option<PathBuf>,
    /// The directory of records.
    place: place::Place,
    watchdog: Option<Watchdog>,
}

fn prepare(flags: Flags) -> Result<Prepared, String> {
    let environment =
        ExecutorEnvironment::from_variables(std::env::vars_os()).map_err(|error| chain(&error))?;
    let endpoint = match &flags.docker_socket {
        Some(socket) => EngineEndpoint::parse(&format!("unix://{socket}"), "--docker_socket"),
        None => EngineEndpoint::from_environment(),
    };
    let endpoint = endpoint.map_err(|error| chain(&error))?;
    let sandbox = flags
        .sandbox_directory
        .clone()
        .or_else(|| environment.directory.clone());
    let place = place::Place::make()?;
    let watchdog = match Watchdog::start(endpoint.socket()) {
        Ok(watchdog) => Some(watchdog),
        Err(error) => {
            tracing::error!(
                %error,
                "there is no watchdog: should this executor die, its container is not stopped"
            );
            None
        }
    };
    Ok(Prepared {
        engine: DockerConfig::new(endpoint),
        flags,
        environment,
        sandbox,
        place,
        watchdog,
    })
}

/// An error with its causes, on one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

/// A line on standard error, which is the sandbox's `stderr`.
fn say(text: &str) {
    let _closed = writeln!(io::stderr(), "{text}");
}
