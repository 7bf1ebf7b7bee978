//! Processes that are started for a measurement and end with it.

use std::env;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use longshore_bench::Failure;

/// A role of this program, in a process of its own.
#[derive(Debug)]
pub(crate) struct Role(Child);

impl Role {
    pub(crate) fn start(role: &str, socket: &Path, more: &[&str]) -> Result<Self, Failure> {
        Self::run(
            Command::new(env::current_exe()?).arg(role).arg(socket),
            more,
        )
    }

    /// A process with plugins on our stub: `count` of them from the `first` on.
    pub(crate) fn plugins(socket: &Path, first: usize, count: usize) -> Result<Self, Failure> {
        let program = env::current_exe()?.with_file_name("bench-nri-plugin");
        let numbers = [first.to_string(), count.to_string()];
        Self::run(
            Command::new(program).arg(socket),
            &numbers.each_ref().map(String::as_str),
        )
    }

    fn run(command: &mut Command, more: &[&str]) -> Result<Self, Failure> {
        let child = command
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Self(child))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Role {
    fn drop(&mut self) {
        // Ended already is as good.
        self.0.kill().ok();
        self.0.wait().ok();
    }
}
