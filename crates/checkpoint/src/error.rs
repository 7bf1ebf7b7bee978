//! What can go wrong, with the path and what to do.

use std::error::Error;
use std::io;
use std::path::PathBuf;

use nix::errno::Errno;

/// Why a record could not be written, read or set aside.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The file system refused an operation; the old record is in place.
    #[error("cannot {action} {}{}", path.display(), hint(source))]
    Io {
        /// What was attempted, as a verb.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// The new record is in place, but its directory could not be synchronised: it holds unless the
    /// power fails now.
    #[error("{} is written, but may be lost with the power{}", path.display(), hint(source))]
    NotDurable {
        /// The record.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// A record could not be turned into bytes; nothing was touched.
    #[error("cannot encode the {kind} record for {}", path.display())]
    Encode {
        /// Where it was to be written.
        path: PathBuf,
        /// The record kind.
        kind: &'static str,
        /// Why.
        #[source]
        source: CodecError,
    },
    /// A record is larger than its kind allows; nothing was touched.
    #[error(
        "the {kind} record for {} has {length} bytes, at most {limit} are allowed: keep less in it",
        path.display()
    )]
    TooLarge {
        /// Where it was to be written.
        path: PathBuf,
        /// The record kind.
        kind: &'static str,
        /// The length of its body in bytes.
        length: usize,
        /// The limit in bytes.
        limit: usize,
    },
    /// A path that names no file, such as one that ends in `..`.
    #[error("{} names no file", path.display())]
    NoFileName {
        /// The path.
        path: PathBuf,
    },
    /// Something other than a regular file lies in the place of a record: a link, pipe or directory.
    #[error("{} is not a regular file: remove what was put there", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// Another process holds the root.
    #[error("{} is locked by {}: stop it first, or use another state directory", path.display(), by(holder))]
    Locked {
        /// The lock file.
        path: PathBuf,
        /// The process that holds it, when it wrote its id.
        holder: Option<u32>,
    },
    /// A file in Mesos' record form is shorter than it says.
    #[error("{} is truncated: {wanted} bytes wanted at offset {offset}, {found} found", path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// Where the header or body begins.
        offset: u64,
        /// Bytes that should follow there.
        wanted: u64,
        /// Bytes that do.
        found: u64,
    },
    /// A file in Mesos' record form is larger than the caller's limit.
    #[error("{} has {length} bytes, more than the limit of {limit}", path.display())]
    OverLimit {
        /// The file.
        path: PathBuf,
        /// Its length, or that of one record in it.
        length: u64,
        /// The caller's limit.
        limit: u64,
    },
}

impl CheckpointError {
    /// Whether the file system was full, read-only or over quota: the operator's to repair, and no
    /// reason to stop what is already running.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        let (Self::Io { source, .. } | Self::NotDurable { source, .. }) = self else {
            return false;
        };
        let errno = source.raw_os_error().map(Errno::from_raw);
        matches!(errno, Some(Errno::ENOSPC | Errno::EDQUOT | Errno::EROFS))
    }
}

/// What to do about an I/O error, as the end of a sentence.
fn hint(source: &io::Error) -> &'static str {
    match source.raw_os_error().map(Errno::from_raw) {
        Some(Errno::ENOSPC) => ": free space or inodes on its file system",
        Some(Errno::EDQUOT) => ": raise the quota or free space",
        Some(Errno::EROFS) => ": mount its file system read-write",
        Some(Errno::EACCES | Errno::EPERM) => ": check its owner and mode",
        Some(Errno::ELOOP | Errno::ENOTDIR) => ": a symbolic link or file lies in the way",
        Some(Errno::EMFILE | Errno::ENFILE) => ": raise the limit of open files",
        _ => "",
    }
}

fn by(holder: &Option<u32>) -> String {
    match holder {
        Some(pid) => format!("process {pid}"),
        None => "another process".to_owned(),
    }
}

/// Why a body could not be encoded or decoded.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CodecError {
    /// The value has no encoding.
    #[error("the value cannot be encoded")]
    Encode {
        /// The codec's reason.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The bytes are not an encoding of this type.
    #[error("the body cannot be decoded")]
    Decode {
        /// The codec's reason.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The body goes on after the value has ended.
    #[error("{count} bytes follow the value")]
    TrailingBytes {
        /// How many.
        count: usize,
    },
    /// This program no longer reads that version of the record.
    #[error("record version {version} is no longer supported: upgrade one release at a time")]
    UnsupportedVersion {
        /// The version in the envelope.
        version: u16,
    },
}

impl CodecError {
    /// Wraps a codec's reason why a value has no encoding.
    pub fn encode(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Encode {
            source: source.into(),
        }
    }

    /// Wraps a codec's reason why bytes are not a value.
    pub fn decode(source: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        Self::Decode {
            source: source.into(),
        }
    }
}
