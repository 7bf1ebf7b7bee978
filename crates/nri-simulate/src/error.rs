//! Why a case cannot be played.

use std::path::PathBuf;
use std::time::Duration;

use longshore_nri_adaptation::AdaptationError;
use longshore_nri_adaptation::launch::{Exit, LaunchError};
use longshore_nri_adaptation::socket::SocketError;
use longshore_nri_trace::TraceError;

/// Why a case cannot be read or played. What plugins do wrong is in the report, never here.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimulateError {
    /// A file cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// A file is longer than what is read.
    #[error("{}: longer than {max} bytes, which is all that is read", path.display())]
    TooLong {
        /// The file.
        path: PathBuf,
        /// The limit in bytes.
        max: u64,
    },
    /// A file is neither JSON nor YAML of the wanted form.
    #[error("{origin}: {why}")]
    Malformed {
        /// The file, or `the case`.
        origin: String,
        /// Where and what.
        why: String,
    },
    /// A step of the case makes no sense.
    #[error("step {step} of the case: {why}")]
    Step {
        /// Which, from 1.
        step: usize,
        /// What to change.
        why: String,
    },
    /// A number of the case is out of its range.
    #[error("{place}: {name} is {value}, and may be {min} to {max}")]
    Range {
        /// `the case`, or the step.
        place: String,
        /// The member.
        name: &'static str,
        /// What it is.
        value: u64,
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// A file is no good record of what was said.
    #[error("cannot repeat {}", path.display())]
    Record {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: TraceError,
    },
    /// A record has nothing in it that could be repeated, or not to these plugins.
    #[error("cannot repeat {}: {why}", path.display())]
    NothingToRepeat {
        /// The file.
        path: PathBuf,
        /// Why.
        why: String,
    },
    /// No runtime of that name or version is known.
    #[error("runtime {given:?} is not known: use {known}")]
    Runtime {
        /// What was asked for.
        given: String,
        /// What there is.
        known: &'static str,
    },
    /// The runtime that pretends does not start.
    #[error("the runtime does not start: {0}")]
    Adaptation(#[from] AdaptationError),
    /// A plugin cannot be started.
    #[error("plugin {plugin:?} cannot be started: {why}")]
    Plugin {
        /// Its full name.
        plugin: String,
        /// Why.
        why: String,
    },
    /// Two plugins have one name.
    #[error("two plugins are named {name:?}: give one of them another name or index")]
    Twins {
        /// Their full name.
        name: String,
    },
    /// There is nothing to play.
    #[error("{origin} has no steps: there is nothing to play; `--print-example` prints a case")]
    NoSteps {
        /// The file, or `the case`.
        origin: String,
    },
    /// A plugin's connection was closed before it was active, and its process goes on.
    #[error("plugin {plugin:?} was closed before it was active: {cause}{more}")]
    Closed {
        /// Its full name.
        plugin: String,
        /// Why the runtime closed it, or that the plugin did.
        cause: String,
        /// Its last words; or nothing.
        more: String,
    },
    /// A plugin's program cannot be executed.
    #[error("plugin {plugin:?} cannot be started")]
    Launch {
        /// Its full name.
        plugin: String,
        /// Why.
        #[source]
        source: LaunchError,
    },
    /// The socket for plugins cannot be made.
    #[error("there is no socket for plugins")]
    Socket(#[from] SocketError),
    /// Connections that say nothing cannot be made.
    #[error("the idle peers of the case cannot be made")]
    Idle(#[source] std::io::Error),
    /// No plugin was there in time.
    #[error("{what} within {within:?}{more}")]
    NobodyCame {
        /// Who did not do what.
        what: String,
        /// How long they had.
        within: Duration,
        /// Why the runtime closed it, and its last words; or nothing.
        more: String,
    },
    /// A plugin that was started ended before it was active.
    #[error("plugin {plugin:?} {exit} before it was active{more}")]
    Ended {
        /// Its full name.
        plugin: String,
        /// How.
        exit: Exit,
        /// Why the runtime closed it, and its last words; or nothing.
        more: String,
    },
}
