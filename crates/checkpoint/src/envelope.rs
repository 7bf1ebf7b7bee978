//! The envelope around each record: the bytes of a file.
//!
//! ```text
//! offset  bytes
//!      0      8  magic: 93 4C 53 52 45 43 0D 0A  ("\x93LSREC\r\n")
//!      8      2  format version, now 1
//!     10      2  version of the body
//!     12      1  k, length of the kind, 1 to 64
//!     13      3  zero
//!     16      4  n, length of the body
//!     20      4  CRC32C (Castagnoli) of everything else: bytes 0 to 19 and 24 to the end
//!     24      k  kind, UTF-8
//!   24+k      n  body
//! ```
//!
//! Numbers are little-endian. The first 24 bytes keep their meaning in every format version, so that a
//! newer file is known to be newer, and not damaged. What wrote a zero-filled file (a crash of some file
//! systems) counts as torn.

use crate::record::{Corruption, Damage, Record};

/// The first bytes of every record.
pub const MAGIC: [u8; 8] = *b"\x93LSREC\r\n";

/// The format version that is written, and the newest that is read.
pub const FORMAT: u16 = 1;

/// The length of the fixed part of the header in bytes.
pub const HEADER: usize = 24;

/// The longest kind in bytes.
pub const KIND_MAX: usize = 64;

/// The largest [`Record::MAX_BODY`] in bytes.
pub const BODY_MAX: usize = 64 << 20;

/// Where the checksum is.
const CRC: std::ops::Range<usize> = 20..24;

/// The longest file that holds a record of kind `R`, in bytes.
#[must_use]
pub const fn file_max<R: Record>() -> u64 {
    (HEADER + R::KIND.len() + R::MAX_BODY) as u64
}

/// The bytes of a file that holds `body`, which is at most [`Record::MAX_BODY`] long.
#[must_use]
pub fn encode<R: Record>(body: &[u8]) -> Vec<u8> {
    const {
        assert!(
            !R::KIND.is_empty() && R::KIND.len() <= KIND_MAX,
            "KIND has 1 to 64 bytes"
        );
        assert!(R::MAX_BODY <= BODY_MAX, "MAX_BODY is at most 64 MiB");
        assert!(
            R::VERSION <= R::READS_UP_TO,
            "a program reads what it writes"
        );
    }
    let kind_length = u8::try_from(R::KIND.len()).unwrap_or(u8::MAX);
    let body_length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let mut file = Vec::with_capacity(HEADER + R::KIND.len() + body.len());
    file.extend_from_slice(&MAGIC);
    file.extend_from_slice(&FORMAT.to_le_bytes());
    file.extend_from_slice(&R::VERSION.to_le_bytes());
    file.extend_from_slice(&[kind_length, 0, 0, 0]);
    file.extend_from_slice(&body_length.to_le_bytes());
    file.extend_from_slice(&[0; 4]);
    file.extend_from_slice(R::KIND.as_bytes());
    file.extend_from_slice(body);
    let crc = checksum(&file);
    file[CRC].copy_from_slice(&crc.to_le_bytes());
    file
}

/// The record in the bytes of a file, which are not empty.
///
/// # Errors
/// What is wrong with the file. [`Damage::Newer`], [`Damage::NewerFormat`] and [`Damage::OtherKind`] mean
/// that it is intact.
pub fn decode<R: Record>(file: &[u8]) -> Result<R, Damage> {
    let Intact {
        kind,
        version,
        body,
    } = open(file)?;
    if kind != R::KIND.as_bytes() {
        return Err(Damage::OtherKind {
            found: String::from_utf8_lossy(kind).into_owned(),
        });
    }
    if version > R::READS_UP_TO {
        return Err(Damage::Newer {
            version,
            supported: R::READS_UP_TO,
        });
    }
    R::decode(version, body).map_err(|source| Damage::Corrupt(Corruption::Body(source)))
}

/// Kind and version of the record in the bytes of a file, whichever it is; the body is not looked at.
///
/// # Errors
/// What is wrong with the file.
pub fn kind_and_version(file: &[u8]) -> Result<(String, u16), Damage> {
    let intact = open(file)?;
    let kind = String::from_utf8_lossy(intact.kind).into_owned();
    Ok((kind, intact.version))
}

/// A file whose checksum matches, in a format that this program reads.
struct Intact<'a> {
    kind: &'a [u8],
    version: u16,
    body: &'a [u8],
}

fn open(file: &[u8]) -> Result<Intact<'_>, Damage> {
    let found = length(file.len());
    let begins = file.len().min(MAGIC.len());
    if file[..begins] != MAGIC[..begins] {
        let zeros = file.iter().all(|byte| *byte == 0);
        return Err(if zeros {
            Damage::Torn {
                expected: length(HEADER),
                found: 0,
            }
        } else {
            Damage::Corrupt(Corruption::Magic)
        });
    }
    let Some((header, rest)) = file.split_first_chunk::<HEADER>() else {
        return Err(Damage::Torn {
            expected: length(HEADER),
            found,
        });
    };
    let [
        ..,
        f0,
        f1,
        v0,
        v1,
        kind_length,
        z0,
        z1,
        z2,
        b0,
        b1,
        b2,
        b3,
        c0,
        c1,
        c2,
        c3,
    ] = *header;
    let body_length = u32::from_le_bytes([b0, b1, b2, b3]);
    let expected = length(HEADER) + u64::from(kind_length) + u64::from(body_length);
    if found < expected {
        return Err(Damage::Torn { expected, found });
    }
    if found > expected {
        return Err(Damage::Corrupt(Corruption::TrailingBytes {
            count: found - expected,
        }));
    }
    if checksum(file) != u32::from_le_bytes([c0, c1, c2, c3]) {
        return Err(Damage::Corrupt(Corruption::Checksum));
    }
    let format = u16::from_le_bytes([f0, f1]);
    if format > FORMAT {
        return Err(Damage::NewerFormat {
            format,
            supported: FORMAT,
        });
    }
    let kind_length = usize::from(kind_length);
    if format == 0 || kind_length == 0 || kind_length > KIND_MAX || [z0, z1, z2] != [0; 3] {
        return Err(Damage::Corrupt(Corruption::Header));
    }
    let (kind, body) = rest.split_at(kind_length);
    Ok(Intact {
        kind,
        version: u16::from_le_bytes([v0, v1]),
        body,
    })
}

/// CRC32C of all bytes but those of the checksum itself; `file` has a whole header.
fn checksum(file: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&file[..CRC.start]), &file[CRC.end..])
}

fn length(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
