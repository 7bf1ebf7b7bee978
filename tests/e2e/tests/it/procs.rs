//! What runs below a test's own directory, seen through `/proc`.

use std::fs;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// A process that has the test's directory in its arguments or its environment.
#[derive(Debug, Clone)]
pub(crate) struct Proc {
    pub(crate) pid: i32,
    pub(crate) args: Vec<String>,
}

impl Proc {
    /// Whether it is a plugin (`longshore csi hostpath ..`), not its shim or the daemon.
    pub(crate) fn is_plugin(&self) -> bool {
        self.args.get(1).is_some_and(|arg| arg == "csi")
            && self.args.get(2).is_some_and(|arg| arg == "hostpath")
    }

    /// Whether it is the container's parent.
    pub(crate) fn is_shim(&self) -> bool {
        self.args.get(1).is_some_and(|arg| arg == "shim")
    }

    pub(crate) fn mentions(&self, text: &str) -> bool {
        self.args.iter().any(|arg| arg.contains(text))
    }

    pub(crate) fn kill(&self) {
        // Gone already is as good.
        let _ = kill(Pid::from_raw(self.pid), Signal::SIGKILL);
    }
}

/// All processes of the test that lives in `root`; ended ones that nobody has reaped are not
/// among them (they have no arguments any more).
pub(crate) fn below(root: &Path) -> Vec<Proc> {
    let root = root.to_str().unwrap();
    let own = std::process::id().to_string();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| **name != own) else {
            continue;
        };
        let Ok(pid) = name.parse() else { continue };
        let read = |file: &str| {
            let bytes = fs::read(entry.path().join(file)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let args = read("cmdline");
        if args.is_empty() || !(args.contains(root) || read("environ").contains(root)) {
            continue;
        }
        let args = args.split_terminator('\0').map(str::to_owned).collect();
        found.push(Proc { pid, args });
    }
    found
}
