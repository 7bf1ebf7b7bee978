//! The executor as a program of its own; `longshore` is the same when it is called by this name.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).peekable();
    if arguments
        .next_if(|first| first == longshore_executor_watchdog::WATCHDOG)
        .is_some()
    {
        return longshore_executor_watchdog::main(arguments);
    }
    longshore_mesos_executor::main(arguments, || ())
}
