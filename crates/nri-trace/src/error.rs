//! What can go wrong with records.

use std::io;

/// Why there is no record, or no more of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TraceError {
    /// Reading failed.
    #[error("cannot read line {line} of the record")]
    Read {
        /// Counted from 1.
        line: u64,
        /// What the system says.
        #[source]
        source: io::Error,
    },
    /// A line is longer than any that is written.
    #[error(
        "line {line} of the record is longer than {max} bytes: this is no record of NRI messages"
    )]
    Length {
        /// Counted from 1.
        line: u64,
        /// The limit in bytes.
        max: usize,
    },
    /// A line is not what a record holds.
    #[error("line {line} of the record is damaged")]
    Line {
        /// Counted from 1.
        line: u64,
        /// What was expected.
        #[source]
        source: serde_json::Error,
    },
    /// The first line is not that of a record.
    #[error("this is no record of NRI messages; `longshore nri trace -o FILE` makes one")]
    NoRecord,
    /// A record of a later release.
    #[error("the record has version {version}, up to {known} can be read; use a later longshore")]
    Version {
        /// What it says.
        version: u32,
        /// What this release writes.
        known: u32,
    },
}
