//! Mesos' record form, for reading what a Mesos agent left (`src/slave/state.hpp`, stout's
//! `protobuf.hpp`).
//!
//! A message is its length as a 32-bit number, little-endian on every host Mesos runs on, followed by its
//! bytes. Several messages follow each other. A string is the file itself.

use std::path::Path;

use crate::CheckpointError;
use crate::fs::{Contents, FileSystem, OsFileSystem};

/// What to do with a record that the end of the file cuts short.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Partial {
    /// It is an error, as for checkpoints.
    Refuse,
    /// It is left out, as for the update streams that are appended to.
    Ignore,
}

/// The length of the header in bytes.
const HEADER: usize = 4;

/// The first message of the file at `path`; `None` when the file is empty, which Mesos takes as never
/// written. What follows the message is ignored, as Mesos does.
///
/// Nothing is allocated beyond the size of the file, which is at most `limit` bytes.
///
/// # Errors
/// When the file cannot be read, is over `limit` or is shorter than it says.
pub fn read_message(
    path: impl AsRef<Path>,
    limit: u64,
) -> Result<Option<Vec<u8>>, CheckpointError> {
    let path = path.as_ref();
    let bytes = read_bytes(path, limit)?;
    Ok(next_message(path, &bytes, 0)?.map(<[u8]>::to_vec))
}

/// All messages of the file at `path`.
///
/// # Errors
/// As [`read_message`]; a last message that is cut short is an error unless `partial` says otherwise.
pub fn read_messages(
    path: impl AsRef<Path>,
    limit: u64,
    partial: Partial,
) -> Result<Vec<Vec<u8>>, CheckpointError> {
    let path = path.as_ref();
    let bytes = read_bytes(path, limit)?;
    let (mut messages, mut offset) = (Vec::new(), 0);
    loop {
        match next_message(path, &bytes, offset) {
            Ok(Some(body)) => {
                offset += HEADER + body.len();
                messages.push(body.to_vec());
            }
            Ok(None) => return Ok(messages),
            Err(CheckpointError::Truncated { .. }) if partial == Partial::Ignore => {
                return Ok(messages);
            }
            Err(error) => return Err(error),
        }
    }
}

/// The bytes of the file at `path`, which Mesos wrote as a string.
///
/// # Errors
/// When the file cannot be read or is over `limit`.
pub fn read_string(path: impl AsRef<Path>, limit: u64) -> Result<Vec<u8>, CheckpointError> {
    read_bytes(path.as_ref(), limit)
}

/// A message in Mesos' form: its length, little-endian, and `body`; `None` when that has over 4 GiB.
#[must_use]
pub fn encode_message(body: &[u8]) -> Option<Vec<u8>> {
    let length = u32::try_from(body.len()).ok()?;
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(body);
    Some(bytes)
}

fn read_bytes(path: &Path, limit: u64) -> Result<Vec<u8>, CheckpointError> {
    match OsFileSystem.read_file(path, limit) {
        Ok(Contents::Bytes(bytes)) => Ok(bytes),
        Ok(Contents::TooLarge { length }) => Err(CheckpointError::OverLimit {
            path: path.to_owned(),
            length,
            limit,
        }),
        Ok(Contents::NotAFile) => Err(CheckpointError::NotAFile {
            path: path.to_owned(),
        }),
        Err(source) => Err(CheckpointError::Io {
            action: "read",
            path: path.to_owned(),
            source,
        }),
    }
}

/// The body of the message that begins at `offset`, or `None` at the end of the file.
fn next_message<'a>(
    path: &Path,
    bytes: &'a [u8],
    offset: usize,
) -> Result<Option<&'a [u8]>, CheckpointError> {
    let rest = bytes.get(offset..).unwrap_or_default();
    if rest.is_empty() {
        return Ok(None);
    }
    let truncated = |offset: usize, wanted: usize, found: usize| CheckpointError::Truncated {
        path: path.to_owned(),
        offset: length(offset),
        wanted: length(wanted),
        found: length(found),
    };
    let Some((header, body)) = rest.split_first_chunk::<HEADER>() else {
        return Err(truncated(offset, HEADER, rest.len()));
    };
    let wanted = usize::try_from(u32::from_le_bytes(*header)).unwrap_or(usize::MAX);
    match body.get(..wanted) {
        Some(body) => Ok(Some(body)),
        None => Err(truncated(offset + HEADER, wanted, body.len())),
    }
}

fn length(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
