//! Internal to Longshore: what ends the container of a Mesos executor that has died: nobody restarts a dead executor, and its agent kills its whole process tree
//! and, with the linux launcher, its cgroups.
//!
//! ```text
//!  executor --spawn--> watchdog start (own session) --spawn--> watchdog run     (own session, child of init,
//!     |                    '-- ends                              |              in the root cgroups where root)
//!     |---- pipe: watch ID .., forget ID, done ----------------->|
//!     |                                                  <-- ready
//!     '-- pidfd ------------------------------------------------>|
//!                                  "done": ends and does nothing
//!      the pipe ends, or the pidfd: signal, grace, SIGKILL, remove
//! ```
//!
//! It is started before the executor has a runtime, is a process with one thread while the executor lives, and speaks to the engine by itself,
//! over blocking calls with deadlines. What it is told it keeps in memory alone: it dies with the machine, as the containers do.
//!
//! # Invariants
//!
//! - After [`Watchdog::done`] it does nothing. Without it, whatever ended the executor, each container that was named is signalled, killed
//!   when its grace is over, and removed; no other is touched.
//! - Nothing of the executor's tree, session or (as root) cgroups holds it, and it holds nothing of the executor's but its standard error.
//! - Each call to the engine has a deadline; an engine that does not answer does not save the container: its first process is signalled, by a
//!   handle that was taken while it ran. A process that got its pid later is never touched.

mod cgroup;
mod http;
mod plan;
mod protocol;
mod run;
mod start;
mod stop;
mod sys;

use std::ffi::OsString;
use std::io::{self, Write as _};
use std::process::ExitCode;

pub use protocol::{Init, Watched};
pub use start::Watchdog;

/// The hidden first argument that makes this binary a watchdog.
pub const WATCHDOG: &str = "watchdog";

const START: &str = "start";
const RUN: &str = "run";

/// Runs one of the two processes; `arguments` follow [`WATCHDOG`].
pub fn main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let stage = arguments.next().unwrap_or_default();
    let (Some(socket), Some(executor), None) =
        (arguments.next(), arguments.next(), arguments.next())
    else {
        return usage();
    };
    let Some(pid) = executor.to_str().and_then(|text| text.parse().ok()) else {
        return usage();
    };
    let outcome = if stage == START {
        start::detach(&socket, &executor)
    } else if stage == RUN {
        run::run(socket.into(), pid)
    } else {
        return usage();
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            say(&format!("cannot watch the executor {pid}: {error}"));
            ExitCode::FAILURE
        }
    }
}

fn usage() -> ExitCode {
    say("started by an executor alone, as `watchdog start SOCKET PID`");
    ExitCode::from(2)
}

/// A line on the executor's standard error, which may be gone.
fn say(text: &str) {
    let _nobody_reads = writeln!(io::stderr(), "longshore watchdog: {text}");
}
