//! The stand-in alone, as the tests run it: `cargo run -p longshore-docker-shim --example docker -- ps -a`.

use std::process::ExitCode;

fn main() -> ExitCode {
    longshore_docker_shim::main(std::env::args_os().skip(1))
}
