//! `cargo xtask bench csi`: what the CSI part promises about time and size.
//!
//! One program in several roles, so that a bench needs nothing but itself: without arguments (or
//! with flags) it measures; as `plugin` it is the plugin; as `agent` and `recover` it is the other
//! process of the recovery figures.

mod bare;
mod daemon;
mod endpoint;
mod plugin;

mod recovery;

use std::env;
use std::process::ExitCode;

use longshore_bench::{Failure, Options, Report};
use tokio::runtime::{Builder, Runtime};

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let role = arguments.next().unwrap_or_default();
    let outcome = match role.as_str() {
        "plugin" => plugin::run(),
        "agent" => recovery::agent(arguments),
        "recover" => recovery::recover(arguments),
        _ => return measure(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "the edge of a program")]
            {
                eprintln!("bench-csi {role}: {error}");
            }
            ExitCode::FAILURE
        }
    }
}

fn measure() -> ExitCode {
    let Ok(options) = Options::from_args("bench-csi") else {
        return ExitCode::from(2);
    };
    let mut report = Report::new("csi", options);
    let outcome = runtime().and_then(|runtime| {
        runtime.block_on(async {
            endpoint::measure(&mut report).await?;
            recovery::measure(&mut report).await?;
            daemon::measure(&mut report).await
        })
    });
    match outcome {
        Ok(()) => report.finish(),
        Err(error) => {
            report.note(&format!("failed: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// What the daemon runs on, too.
fn runtime() -> Result<Runtime, Failure> {
    Ok(Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?)
}
