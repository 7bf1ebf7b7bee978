//! Where plugins and their drop-in configuration are.

use std::path::PathBuf;

use crate::merge::Compat;

/// Where launched plugins come from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LaunchOptions {
    /// The directory with the executables, `<two digits>-<name>`; by default
    /// [`LaunchOptions::DEFAULT_PLUGIN_DIR`]. One that does not exist holds no plugins.
    pub plugin_dir: PathBuf,
    /// The directory with `<two digits>-<name>.conf` and `<name>.conf`, the first of which that exists
    /// is sent to the plugin as it is; by default [`LaunchOptions::DEFAULT_CONFIG_DIR`].
    pub config_dir: PathBuf,
    /// Use files and directories that others than root and the runtime's user can write to: for tests
    /// and for trying a plugin out. Off by default.
    pub trust_any_owner: bool,
    /// Under [`Compat::GoAdaptation`] an executable with a bad name, and a drop-in that cannot be read,
    /// fail the whole discovery; else the file is skipped and named.
    pub compat: Compat,
}

impl LaunchOptions {
    /// Where plugins are by default; never the place of another runtime on the node.
    pub const DEFAULT_PLUGIN_DIR: &'static str = "/etc/longshore/nri/plugins";
    /// Where drop-in configuration is by default.
    pub const DEFAULT_CONFIG_DIR: &'static str = "/etc/longshore/nri/conf.d";
    /// The most entries of a plugin directory that are looked at.
    pub const ENTRIES_MAX: usize = 4096;
    /// The longest drop-in, in bytes: it has to fit a message to the plugin.
    pub const CONFIG_MAX: usize = 1 << 20;

    /// Plugins and drop-ins from these directories.
    pub fn new(plugin_dir: impl Into<PathBuf>, config_dir: impl Into<PathBuf>) -> Self {
        Self {
            plugin_dir: plugin_dir.into(),
            config_dir: config_dir.into(),
            trust_any_owner: false,
            compat: Compat::default(),
        }
    }
}

impl Default for LaunchOptions {
    fn default() -> Self {
        Self::new(Self::DEFAULT_PLUGIN_DIR, Self::DEFAULT_CONFIG_DIR)
    }
}
