//! The one error type, and how untrusted values are shown in it.

use std::fmt;
use std::path::PathBuf;

/// Why an identifier, a path or a socket path was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PathsError {
    /// An identifier was the empty string.
    #[error("the {what} is empty: give it a name")]
    Empty {
        /// Which identifier, such as `plugin type`.
        what: &'static str,
    },
    /// An identifier does not fit its limit.
    #[error("the {what} {value} is {length} bytes long, at most {max} fit: shorten it")]
    TooLong {
        /// Which identifier.
        what: &'static str,
        /// Its beginning.
        value: Shown,
        /// Its length in bytes, encoded where it is stored encoded.
        length: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// An identifier holds a character that it must not.
    #[error("the {what} {value} contains {character:?}, which is not allowed there: leave it out")]
    Forbidden {
        /// Which identifier.
        what: &'static str,
        /// Its beginning.
        value: Shown,
        /// The first character that is refused.
        character: char,
    },
    /// An identifier is `.` or `..`.
    #[error("the {what} {value} is a name of the file system's own: choose another")]
    Reserved {
        /// Which identifier.
        what: &'static str,
        /// The identifier.
        value: Shown,
    },
    /// An instance id is not 16 lower-case hexadecimal digits.
    #[error("the instance id {value} is not 16 lower-case hexadecimal digits")]
    InstanceId {
        /// Its beginning.
        value: Shown,
    },
    /// A service is neither of the two that CSI has.
    #[error(
        "the service {value} is unknown: write CONTROLLER_SERVICE (controller) or NODE_SERVICE (node)"
    )]
    UnknownService {
        /// Its beginning.
        value: Shown,
    },
    /// A container offers no service, so it has no container id.
    #[error("a container of plugin {name} of type {ty} lists no services: list at least one")]
    NoServices {
        /// The plugin's type.
        ty: String,
        /// The plugin's name.
        name: String,
    },
    /// Two containers of the configuration would get one container id.
    #[error("{first} and {second} both map to container id {id}: rename one of them")]
    SharedContainer {
        /// The first of them, as the caller names it.
        first: String,
        /// The second of them.
        second: String,
        /// The id that both would get.
        id: String,
    },
    /// A percent escape in a directory name is malformed.
    #[error("{value} holds a percent escape at byte {offset} that is not %XX")]
    Escape {
        /// The directory name's beginning.
        value: Shown,
        /// Where the escape begins.
        offset: usize,
    },
    /// A directory name decodes to bytes that are not UTF-8, which CSI ids always are.
    #[error("{value} does not decode to UTF-8")]
    NotUtf8 {
        /// The directory name's beginning.
        value: Shown,
    },
    /// A directory name decodes to an id that is stored under another name.
    #[error("{value} is not how its id is encoded, which is {canonical}")]
    NotCanonical {
        /// The directory name's beginning.
        value: Shown,
        /// The name under which the same id is stored.
        canonical: Shown,
    },
    /// A path does not lie below the root it was parsed against.
    #[error("{} is not below {}", path.display(), root.display())]
    NotUnder {
        /// The path.
        path: PathBuf,
        /// The root.
        root: PathBuf,
    },
    /// A path lies below its root, but does not have the layout's form.
    #[error("{} does not have the form {expected}", path.display())]
    Structure {
        /// The path.
        path: PathBuf,
        /// The form, relative to the root.
        expected: &'static str,
    },
    /// A component of a path is not a valid identifier.
    #[error("cannot parse {}: {source}", path.display())]
    Component {
        /// The path.
        path: PathBuf,
        /// What is wrong with the component.
        #[source]
        source: Box<Self>,
    },
    /// A socket path is longer than `sun_path` holds, or holds a NUL byte.
    #[error(
        "the socket path {} is {length} bytes long, at most {max} fit: choose a shorter runtime_dir",
        path.display()
    )]
    SocketPath {
        /// The path.
        path: PathBuf,
        /// Its length in bytes.
        length: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// A socket path holds a NUL byte, which would cut it short.
    #[error("the socket path {path:?} contains a NUL byte: choose another runtime_dir")]
    SocketPathNul {
        /// The path.
        path: PathBuf,
    },
}

/// An untrusted value, quoted, escaped and cut to 64 characters for a message of one line.
#[derive(Clone, PartialEq, Eq)]
pub struct Shown(String);

/// Characters of an untrusted value that a message shows.
const SHOWN_CHARS: usize = 64;

impl Shown {
    pub(crate) fn new(value: &str) -> Self {
        match value.char_indices().nth(SHOWN_CHARS) {
            Some((end, _)) => Self(format!("{:?}..", &value[..end])),
            None => Self(format!("{value:?}")),
        }
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
