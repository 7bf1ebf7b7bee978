//! Why a case cannot be played.

use std::path::PathBuf;

use longshore_nri_adaptation::AdaptationError;

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
    /// No runtime of that name or version is known.
    #[error("runtime {given:?} is not known: use {known}")]
    Runtime {
        /// What was asked for.
        given: String,
        /// What there is.
        known: String,
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
    /// The socket for plugins cannot be made.
    #[error("no socket for plugins: {0}")]
    Socket(String),
    /// No plugin was there in time.
    #[error("{what} within {seconds} s{last_words}")]
    NobodyCame {
        /// Who did not do what.
        what: String,
        /// How long they had, in seconds.
        seconds: u64,
        /// The last lines of standard error, or nothing.
        last_words: String,
    },
}
