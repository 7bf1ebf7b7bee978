//! What is looked at.

use std::path::{Path, PathBuf};

/// A machine and a node on it.
#[derive(Debug, Clone)]
pub struct View {
    /// Below it are the machine's files: `/`, or where another machine is mounted.
    pub root: PathBuf,
    /// As the machine itself calls it, without `root`.
    pub state_dir: PathBuf,
    /// Likewise.
    pub runtime_dir: PathBuf,
    /// Whose daemon it is.
    pub uid: u32,
    /// Whether a daemon answered on the control socket.
    pub daemon_answers: bool,
    /// What the engine of tasks answered.
    pub engine: EngineFacts,
    /// Of the file system of the state directory; `None`: not known.
    pub space: Option<Space>,
    /// Whether the kernel's clock is disciplined (adjtimex(2)); `None`: not known.
    pub clock_synchronized: Option<bool>,
}

/// What was learned of the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EngineFacts {
    /// No tasks are configured, or nobody has asked.
    NotWanted,
    /// It does not answer.
    Away {
        /// Where it was looked for.
        address: String,
        /// The configuration names it: something is to run there.
        wanted: bool,
        /// Why, in the words of the call.
        reason: String,
    },
    /// It answers.
    There {
        /// Where.
        address: String,
        /// What it says of NRI plugins of its own; `None`: it serves none.
        own_nri: Option<String>,
    },
}

/// What is free (statvfs(3)).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// Bytes, for whoever is not root.
    pub free_bytes: u64,
    /// In all.
    pub total_bytes: u64,
    /// Inodes, for whoever is not root.
    pub free_inodes: u64,
    /// In all; 0 where the file system makes them as it needs them.
    pub total_inodes: u64,
}

impl View {
    /// Where a path of the machine is found.
    pub(crate) fn at(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }
}
