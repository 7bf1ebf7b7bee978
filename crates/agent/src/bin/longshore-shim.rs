//! The shim as a program of its own: the smallest that a container's parent can be, and the quickest
//! to start. `longshore` uses it where it lies beside it, and calls it as it would call itself.

use std::process::ExitCode;

fn main() -> ExitCode {
    // A directory is an absolute path and never this word.
    let arguments = std::env::args_os().skip(1);
    longshore_agent::shim::main(arguments.skip_while(|argument| argument == "shim"))
}
