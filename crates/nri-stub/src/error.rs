//! Why a stub did not start, or stopped.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use longshore_nri_api::cost::CostError;
use longshore_nri_api::{EventMask, InvalidName};
use longshore_ttrpc::{CallError, CloseReason};

/// What can go wrong between a plugin and its runtime.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StubError {
    /// The plugin's name or index is not valid, or neither the environment, the options nor the
    /// program's file name tell it.
    #[error(
        "who this plugin is, is not known: {source}; name the program <two digits>-<name>, or give the stub an index and a name"
    )]
    Identity {
        /// What is wrong with the last place looked at.
        #[source]
        source: InvalidName,
    },
    /// The index was given although the environment gives it too.
    #[error("index {given:?} was given, but the runtime that launched the plugin has set {set:?}")]
    IndexAlreadySet {
        /// What the environment says.
        set: String,
        /// What the builder was told.
        given: String,
    },
    /// The plugin handles no event at all.
    #[error("the plugin has no handler of any event")]
    NoHandlers,
    /// The plugin subscribes to events that it has no handlers for.
    #[error("the plugin subscribes to {events}, for which it has no handler")]
    MissingHandlers {
        /// The events without a handler.
        events: EventMask,
    },
    /// The runtime speaks a level of NRI that has none of the plugin's events.
    #[error("the runtime speaks NRI {nri_version}, which knows none of {events}")]
    RuntimeTooOld {
        /// What the plugin wants to be told.
        events: EventMask,
        /// The runtime's level of NRI.
        nri_version: String,
    },
    /// `NRI_PLUGIN_SOCKET` is no open Unix socket.
    #[error("the inherited descriptor {value:?} of NRI_PLUGIN_SOCKET cannot be used: {source}")]
    InheritedSocket {
        /// The value of the variable.
        value: String,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The runtime's socket could not be connected to.
    #[error("cannot connect to {}: {source}; is the runtime running, with NRI enabled?", path.display())]
    Connect {
        /// The socket.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// The one connection this stub was given has been used up; it cannot be made again.
    #[error("the connection that the plugin was given is used up, and no other can be made")]
    ConnectionUsed,
    /// A stub serves one runtime at a time.
    #[error("the stub is started already")]
    AlreadyStarted,
    /// There is no connection at the moment.
    #[error("the plugin is not connected to a runtime")]
    NotConnected,
    /// The runtime did not accept the registration.
    #[error("cannot register with the runtime: {source}")]
    Register {
        /// What it said.
        #[source]
        source: CallError,
    },
    /// The runtime registered the plugin and then did not configure it.
    #[error("the runtime has not configured the plugin within {timeout:?}")]
    NotConfigured {
        /// How long that was waited for.
        timeout: Duration,
    },
    /// The plugin refused its configuration.
    #[error("cannot configure the plugin: {reason}")]
    Configure {
        /// What the plugin's handler, or the check of the events, said.
        reason: String,
    },
    /// The connection was lost.
    #[error("the connection to the runtime is lost: {source}")]
    Closed {
        /// Why.
        #[source]
        source: CloseReason,
    },
    /// An update of containers failed as a whole.
    #[error("cannot update containers: {source}")]
    UpdateContainers {
        /// What the runtime said.
        #[source]
        source: CallError,
    },
    /// What the runtime answered is no message, or too large a one.
    #[error("the runtime's answer cannot be read: {source}")]
    Answer {
        /// What is wrong with it.
        #[source]
        source: CostError,
    },
}
