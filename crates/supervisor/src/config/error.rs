//! What can be wrong with a configuration, and where.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A built-in default.
    Default,
    /// A line of a file, counted from 1; 0 when the line is not known.
    File {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1; 0 when unknown.
        line: usize,
    },
    /// An environment variable.
    Env(&'static str),
    /// A flag of the command line.
    Flag(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line: 0 } => write!(f, "{}", path.display()),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Env(name) => write!(f, "${name}"),
            Self::Flag(name) => write!(f, "{name}"),
        }
    }
}

/// A configuration that is not usable; nothing has been changed by reading it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// A file or directory of the configuration cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A file is larger than any configuration should be.
    #[error("{} is larger than {limit} bytes; is it a configuration file?", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The most that is read.
        limit: u64,
    },
    /// The text is not TOML or JSON, has an unknown key, or a value of another type.
    #[error("{origin}: {}{message}", key_prefix(key))]
    Syntax {
        /// Where.
        origin: Origin,
        /// The key, dotted; empty when the text cannot be parsed.
        key: String,
        /// What is wrong, and what would do.
        message: String,
    },
    /// A value that is well-formed and not acceptable.
    #[error("{origin}: {key}: {message}")]
    Invalid {
        /// Where.
        origin: Origin,
        /// The key, dotted.
        key: String,
        /// What is wrong, and what would do.
        message: String,
    },
    /// There is no default for a directory.
    #[error("no {key}: neither HOME nor an XDG directory is set; set {key} in the configuration")]
    NoHome {
        /// `state_dir` or `runtime_dir`.
        key: &'static str,
    },
}

impl ConfigError {
    /// The line in its file, 0 where there is none.
    fn line(&self) -> usize {
        match self {
            Self::Syntax { origin, .. } | Self::Invalid { origin, .. } => match origin {
                Origin::File { line, .. } => *line,
                Origin::Default | Origin::Env(_) | Origin::Flag(_) => 0,
            },
            Self::Read { .. } | Self::TooLarge { .. } | Self::NoHome { .. } => 0,
        }
    }
}

/// Everything that is wrong with a configuration: at least one thing, in the order of the file's lines.
/// As text all of it is one line.
#[derive(Debug, thiserror::Error)]
#[error("{}", joined(errors))]
pub struct ConfigErrors {
    errors: Vec<ConfigError>,
}

impl ConfigErrors {
    /// There must be one.
    pub(crate) fn of(mut errors: Vec<ConfigError>) -> Self {
        errors.sort_by_key(ConfigError::line);
        Self { errors }
    }

    /// One after the other.
    pub fn iter(&self) -> std::slice::Iter<'_, ConfigError> {
        self.errors.iter()
    }
}

impl<'a> IntoIterator for &'a ConfigErrors {
    type Item = &'a ConfigError;
    type IntoIter = std::slice::Iter<'a, ConfigError>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl From<ConfigError> for ConfigErrors {
    fn from(error: ConfigError) -> Self {
        Self {
            errors: vec![error],
        }
    }
}

fn joined(errors: &[ConfigError]) -> String {
    let texts: Vec<_> = errors.iter().map(ToString::to_string).collect();
    texts.join("; ")
}

fn key_prefix(key: &str) -> String {
    if key.is_empty() {
        String::new()
    } else {
        format!("{key}: ")
    }
}
