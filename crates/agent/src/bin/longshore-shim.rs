//! The shim as a program of its own: the smallest that a container's parent can be.

use std::process::ExitCode;

fn main() -> ExitCode {
    longshore_agent::shim::main(std::env::args_os().skip(1))
}
