//! What can go wrong with plugins that are launched.

use std::io;
use std::path::{Path, PathBuf};

use longshore_nri_api::InvalidName;

use super::Distrust;

/// Why a plugin, or all of them, cannot be launched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LaunchError {
    /// The directory of plugins cannot be listed.
    #[error("cannot list the plugin directory {path:?}")]
    List {
        /// The directory.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// The directory of plugins holds too much.
    #[error("the plugin directory {path:?} holds more than {max} entries")]
    Entries {
        /// The directory.
        path: PathBuf,
        /// How many are looked at.
        max: usize,
    },
    /// An executable in the plugin directory has no name of a plugin.
    #[error(
        "{path:?} is executable and no plugin; rename it to <two digits>-<name>, or move it away"
    )]
    Name {
        /// The file.
        path: PathBuf,
        /// What is wrong with its name.
        #[source]
        source: InvalidName,
    },
    /// A file cannot be looked at, as when a link leads nowhere.
    #[error("cannot look at {path:?}")]
    Look {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// Others than root and the runtime's user could change what would be run or read.
    #[error("{path:?} is not used: {distrust}")]
    Untrusted {
        /// The file that would be used.
        path: PathBuf,
        /// What others can change.
        distrust: Distrust,
    },
    /// A drop-in file cannot be read.
    #[error("cannot read the configuration {path:?} of plugin {plugin}")]
    Config {
        /// The file.
        path: PathBuf,
        /// The plugin, which is not started without it.
        plugin: String,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// A drop-in file cannot be sent.
    #[error("the configuration {path:?} of plugin {plugin} {problem}")]
    ConfigContent {
        /// The file.
        path: PathBuf,
        /// The plugin, which is not started without it.
        plugin: String,
        /// What is wrong with it.
        problem: String,
    },
    /// The plugin cannot be started.
    #[error("cannot start {path:?}{}", hint(path, source))]
    Spawn {
        /// The executable.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

/// What is missing where the file itself is there.
fn hint(path: &Path, source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::NotFound if path.exists() => {
            ": the interpreter or loader that it names is missing"
        }
        io::ErrorKind::PermissionDenied if path.is_file() => ": is it executable (chmod +x)?",
        _ => "",
    }
}
