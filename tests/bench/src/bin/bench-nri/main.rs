//! Bench: the adaptation and the stub of NRI, beside Go's of the same run and beside the same bytes sent bare.
//!
//! `bench-nri-plugin` beside it is a plugin on our stub. The program is its own other peers: `bench-nri bare` answers bytes with bytes, `bench-nri sink` decodes synchronizations, `bench-nri host` is an idle adaptation.

mod bare;
mod host;
mod latency;
mod memory;
mod process;
mod sides;
mod sync;

use std::env;
use std::process::ExitCode;

use longshore_bench::nri::runtime;
use longshore_bench::{Failure, Options, Report};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1);
    let role = arguments.next().unwrap_or_default();
    let outcome = match role.as_str() {
        "bare" => bare::run(arguments),
        "sink" => sync::sink(arguments),
        "host" => host::run(arguments),
        _ => return measure(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "the edge of a program")]
            {
                eprintln!("bench-nri {role}: {error}");
            }
            ExitCode::FAILURE
        }
    }
}

fn measure() -> ExitCode {
    let Ok(options) = Options::from_args("bench-nri") else {
        return ExitCode::from(2);
    };
    let mut report = Report::new("nri", options);
    let outcome = runtime().map_err(Failure::from).and_then(|runtime| {
        runtime.block_on(async {
            latency::measure(&mut report, "", true).await?;
            sync::measure(&mut report).await?;
            memory::measure(&mut report).await?;
            // This thread is all there is of the process, and what it starts from here on is pinned with it.
            let mut one = CpuSet::new();
            one.set(0)?;
            sched_setaffinity(Pid::from_raw(0), &one)?;
            latency::measure(&mut report, ", on one CPU", false).await
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

/// A count, to divide by.
fn number(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}
