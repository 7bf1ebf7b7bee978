//! What the tests give a Mesos agent as `--docker`; `longshore` is the same when it is called `docker`.

use std::process::ExitCode;

fn main() -> ExitCode {
    longshore_docker_shim::main(std::env::args_os().skip(1))
}
