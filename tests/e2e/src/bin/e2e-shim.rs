//! The shim as a program of the tests' own: what `longshore shim` is to the daemon.

use std::process::ExitCode;

fn main() -> ExitCode {
    longshore_agent::shim::main(std::env::args_os().skip(1))
}
