//! What a record is, and what reading one can find.

use std::path::{Path, PathBuf};

use crate::{CheckpointError, CodecError, envelope};

/// Something that is kept in a file of its own.
///
/// # Versions and migration
/// What release N writes, release N-1 can read, so that a downgrade by one release loses nothing. A
/// change of the body therefore takes two releases: the first raises [`READS_UP_TO`](Self::READS_UP_TO)
/// and learns to decode the new version, while it goes on writing the old one; the next raises
/// [`VERSION`](Self::VERSION). [`decode`](Self::decode) is given the version that was found and migrates
/// it to the type of today. Golden files hold one example of each version
/// (`testing::check_golden`, feature `testing`).
pub trait Record: Sized {
    /// Names the kind of record in its envelope: 1 to 64 bytes, never changed, never used twice.
    const KIND: &'static str;

    /// The version of the body that [`encode`](Self::encode) writes.
    const VERSION: u16;

    /// The newest version of the body that [`decode`](Self::decode) understands.
    const READS_UP_TO: u16 = Self::VERSION;

    /// The largest body in bytes, written or read; at most 64 MiB.
    const MAX_BODY: usize = 1 << 20;

    /// The body, in version [`VERSION`](Self::VERSION).
    ///
    /// # Errors
    /// When the value has no encoding.
    fn encode(&self) -> Result<Vec<u8>, CodecError>;

    /// The value of a body of `version`, which is at most [`READS_UP_TO`](Self::READS_UP_TO). The
    /// body's checksum has been verified.
    ///
    /// # Errors
    /// When the body is not a value of that version, or the version is too old.
    fn decode(version: u16, body: &[u8]) -> Result<Self, CodecError>;
}

/// A record of any kind, for [`Writer::write_batch`](crate::Writer::write_batch). Implemented for every
/// [`Record`].
pub trait AnyRecord {
    /// The file's bytes for the record, which is to be written to `path`.
    ///
    /// # Errors
    /// When it cannot be encoded or is too large.
    fn to_file(&self, path: &Path) -> Result<Vec<u8>, CheckpointError>;
}

impl<R: Record> AnyRecord for R {
    fn to_file(&self, path: &Path) -> Result<Vec<u8>, CheckpointError> {
        let body = self.encode().map_err(|source| CheckpointError::Encode {
            path: path.to_owned(),
            kind: R::KIND,
            source,
        })?;
        if body.len() > R::MAX_BODY {
            return Err(CheckpointError::TooLarge {
                path: path.to_owned(),
                kind: R::KIND,
                length: body.len(),
                limit: R::MAX_BODY,
            });
        }
        Ok(envelope::encode::<R>(&body))
    }
}

/// What a file held.
#[derive(Debug)]
#[must_use]
pub enum Loaded<R> {
    /// There is no such file.
    Missing,
    /// The file has no bytes: what a crash leaves of a record that was not yet power-durable.
    Empty,
    /// The record, whole.
    Record(R),
    /// Bytes that are no record of this kind that this program can read.
    Damaged(Damage),
}

impl<R> Loaded<R> {
    /// The record, if there was a whole one.
    pub fn record(self) -> Option<R> {
        match self {
            Self::Record(record) => Some(record),
            Self::Missing | Self::Empty | Self::Damaged(_) => None,
        }
    }
}

/// What [`recover`](crate::recover) found, and did with it.
#[derive(Debug)]
#[must_use]
pub enum Recovered<R> {
    /// There is no such file, or it is empty: nothing was ever recorded.
    Nothing,
    /// The record, whole.
    Record(R),
    /// The file was damaged and now has the name `moved_to`; when it could not be moved, it is where it
    /// was, and the reason is given.
    Quarantined {
        /// What was wrong with it.
        damage: Damage,
        /// Its new name.
        moved_to: Result<PathBuf, CheckpointError>,
    },
    /// The record was written by a newer release, and left where it is for that release.
    Newer {
        /// The version found, and whose it is.
        damage: Damage,
    },
}

/// Why a file is no record that this program can read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Damage {
    /// The file ends before the record does.
    #[error("torn: {found} of {expected} bytes are there")]
    Torn {
        /// Bytes that the record has, or at least the length of the envelope's header.
        expected: u64,
        /// Bytes that the file has.
        found: u64,
    },
    /// The bytes were changed, or never were a record.
    #[error("corrupt: {0}")]
    Corrupt(#[source] Corruption),
    /// An intact record in a version of the body that only a newer release reads.
    #[error("written by a newer release: version {version}, this one reads up to {supported}")]
    Newer {
        /// The record's version.
        version: u16,
        /// The newest version that this program reads.
        supported: u16,
    },
    /// An intact record in a format of the envelope that only a newer release reads.
    #[error("written by a newer release: format {format}, this one reads up to {supported}")]
    NewerFormat {
        /// The envelope's format version.
        format: u16,
        /// The newest format that this program reads.
        supported: u16,
    },
    /// An intact record of another kind.
    #[error("a record of another kind, {found:?}")]
    OtherKind {
        /// Its kind, with anything that is not UTF-8 replaced.
        found: String,
    },
    /// A file larger than records of this kind can be. It was not read.
    #[error("{length} bytes long, more than the {limit} that such a record can have")]
    TooLarge {
        /// The file's length.
        length: u64,
        /// The longest file of this kind.
        limit: u64,
    },
}

impl Damage {
    /// Whether a newer release wrote the file, which then is not damaged at all.
    #[must_use]
    pub const fn is_newer(&self) -> bool {
        matches!(self, Self::Newer { .. } | Self::NewerFormat { .. })
    }
}

/// What is wrong with the bytes of a corrupt record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Corruption {
    /// The file does not begin as an envelope does.
    #[error("it does not begin as a record does")]
    Magic,
    /// A field of the header has a value that is never written.
    #[error("a field of its header is out of range")]
    Header,
    /// The file goes on after the record has ended.
    #[error("{count} bytes follow the record")]
    TrailingBytes {
        /// How many.
        count: u64,
    },
    /// The checksum does not match.
    #[error("its checksum does not match")]
    Checksum,
    /// The checksum matches, but the body is not a value.
    #[error("its body is not valid")]
    Body(#[source] CodecError),
}
