//! Names of the services and of the connections of the trunk.

/// The connection on which the plugin serves.
pub const PLUGIN_CONNECTION: u32 = 1;

/// The connection on which the runtime serves.
pub const RUNTIME_CONNECTION: u32 = 2;

/// The service that plugins serve.
pub const PLUGIN: &str = "nri.pkg.api.v1alpha1.Plugin";

/// The service that runtimes serve.
pub const RUNTIME: &str = "nri.pkg.api.v1alpha1.Runtime";

/// The name of a plugin that a runtime launches.
pub const ENV_PLUGIN_NAME: &str = "NRI_PLUGIN_NAME";

/// The index of a plugin that a runtime launches: two digits.
pub const ENV_PLUGIN_INDEX: &str = "NRI_PLUGIN_IDX";

/// The number of the file descriptor that is a launched plugin's trunk.
pub const ENV_PLUGIN_SOCKET: &str = "NRI_PLUGIN_SOCKET";

/// Where containerd and CRI-O listen by default.
pub const DEFAULT_SOCKET: &str = "/var/run/nri/nri.sock";

/// Milliseconds a runtime gives a plugin to register when nothing else is said.
pub const DEFAULT_REGISTRATION_TIMEOUT_MS: u64 = 5_000;

/// Milliseconds a runtime gives a plugin to answer a request when nothing else is said.
pub const DEFAULT_REQUEST_TIMEOUT_MS: u64 = 2_000;
