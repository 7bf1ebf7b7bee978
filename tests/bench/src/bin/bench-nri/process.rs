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
        let child = Command::new(env::current_exe()?)
            .arg(role)
            .arg(socket)
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
