//! What can be wrong when the manager is asked for something.

use std::path::PathBuf;

use longshore_paths::{PathsError, Service};

/// An error of the CSI manager. None of them is about a running plugin: those are states.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ManagerError {
    /// No plugin of that name is configured.
    #[error("no plugin is named {name:?}; configured: {configured}")]
    UnknownPlugin {
        /// What was asked for.
        name: String,
        /// The names there are.
        configured: String,
    },
    /// Two plugins with one name.
    #[error("two plugins are named {name:?}: give each its own name")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// Two plugins with one type and name would share records, mounts and sockets.
    #[error(
        "plugins {first:?} and {second:?} both have type {plugin_type:?} and name {plugin_name:?}: change one of them"
    )]
    DuplicatePlugin {
        /// One plugin.
        first: String,
        /// The other.
        second: String,
        /// Their type.
        plugin_type: String,
        /// Their name.
        plugin_name: String,
    },
    /// Two containers that map to one id.
    #[error(
        "plugins {first:?} and {second:?} map to the same container id {id:?} (a dot becomes a dash): rename one of them"
    )]
    DuplicateContainer {
        /// One plugin.
        first: String,
        /// The other.
        second: String,
        /// The id.
        id: String,
    },
    /// A plugin has another name and the containers of one that is still there.
    #[error(
        "plugin {new:?} has the container id {id:?} of plugin {old:?}, which {}", old_stays(old, *leaving)
    )]
    Renamed {
        /// The one that is there.
        old: String,
        /// Its new name.
        new: String,
        /// The id of a container of both.
        id: String,
        /// The old one has left the configuration before, and has not ended yet.
        leaving: bool,
    },
    /// A wanted service that no container and no endpoint offers.
    #[error(
        "plugin {plugin:?}: no container or endpoint offers {}: add it, or do not ask for it",
        service.as_str()
    )]
    ServiceNotOffered {
        /// The plugin.
        plugin: String,
        /// The service.
        service: Service,
    },
    /// Neither containers nor endpoints.
    #[error("plugin {plugin:?} has neither containers nor endpoints")]
    NothingToRun {
        /// The plugin.
        plugin: String,
    },
    /// Both containers and endpoints.
    #[error("plugin {plugin:?} has both containers and endpoints: keep one of the two")]
    BothKinds {
        /// The plugin.
        plugin: String,
    },
    /// A service number that CSI does not have.
    #[error(
        "plugin {plugin:?}: service {number} is unknown: use CONTROLLER_SERVICE (1) or NODE_SERVICE (2)"
    )]
    UnknownService {
        /// The plugin.
        plugin: String,
        /// The number.
        number: i32,
    },
    /// An endpoint of an unmanaged plugin that cannot be dialled.
    #[error("plugin {plugin:?}: endpoint {endpoint:?} is invalid")]
    Endpoint {
        /// The plugin.
        plugin: String,
        /// The endpoint.
        endpoint: String,
        /// Why.
        #[source]
        source: Box<longshore_csi_probe::ProbeError>,
    },
    /// A type, name, id or socket path that is not allowed.
    #[error("plugin {plugin:?} cannot be used")]
    Path {
        /// The plugin.
        plugin: String,
        /// Why.
        #[source]
        source: Box<PathsError>,
    },
    /// A setting outside its range.
    #[error("plugin {plugin:?}: {setting} is {value}: must be {expected}")]
    Setting {
        /// The plugin.
        plugin: String,
        /// The setting.
        setting: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        expected: &'static str,
    },
    /// The endpoint did not become ready in time.
    #[error("plugin {plugin:?}: {} is not ready: {reason}", service.as_str())]
    NotReady {
        /// The plugin.
        plugin: String,
        /// The service.
        service: Service,
        /// Its state's reason.
        reason: String,
    },
    /// A restart or stop that would take FUSE mounts down.
    #[error(
        "plugin {plugin:?}: process {pid} holds /dev/fuse, so stopping it takes its mounts down: unmount first, or use --force"
    )]
    HoldsFuse {
        /// The plugin.
        plugin: String,
        /// A process of its tree.
        pid: u32,
    },
    /// The state or runtime directory cannot be part of a launch request.
    #[error("{} is not an absolute path in UTF-8: choose another directory", path.display())]
    Directory {
        /// The path.
        path: PathBuf,
    },
    /// The manager has been shut down.
    #[error("the CSI manager has been shut down")]
    Closed,
}

/// Why the name cannot be changed now, and what to do.
fn old_stays(old: &str, leaving: bool) -> String {
    if leaving {
        format!(
            "has left the configuration and has not ended yet (`status {old}` says why): reload once it is gone, \
             or end it with `csi stop {old} --force`"
        )
    } else {
        format!(
            "is running: a plugin is not renamed while it runs; take {old:?} out, reload, and add it under its \
             new name once `status` does not show it any more"
        )
    }
}
