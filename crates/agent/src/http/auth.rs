//! The bearer token of the TCP listener: read from a file that only its owner can read, compared in constant time.
//!
//! The token is never logged, shown or put in an environment: [`BearerToken`] has a `Debug` that hides it and no other way out.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use http::{HeaderMap, header};
use subtle::ConstantTimeEq;

use super::error::HttpError;

/// The secret that a TCP client has to show.
pub(crate) struct BearerToken(Vec<u8>);

/// Room for a token and a few line ends.
const FILE_MAX: u64 = 4096;
/// 32 random bytes written in base64 without padding.
const BASE64_MIN: usize = 43;
/// 32 random bytes written in hexadecimal.
const HEX_MIN: usize = 64;

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BearerToken(..)")
    }
}

impl BearerToken {
    /// Reads the token once; blocking.
    ///
    /// The file must be a regular file (no link), of this user or root, with no permission for group and others, and hold
    /// at least 32 random bytes as text: 64 hexadecimal digits or 43 characters of base64.
    pub(crate) fn load(path: &Path) -> Result<Self, HttpError> {
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC)
            .open(path)
            .map_err(|source| HttpError::TokenFile {
                path: path.to_owned(),
                source,
            })?;
        read_token(&file)
            .map_err(|source| HttpError::TokenFile {
                path: path.to_owned(),
                source,
            })?
            .map_err(|problem| HttpError::Token {
                path: path.to_owned(),
                problem,
            })
    }

    /// Whether the request shows the token: one `Authorization: Bearer TOKEN`.
    pub(crate) fn admits(&self, headers: &HeaderMap) -> bool {
        let mut values = headers.get_all(header::AUTHORIZATION).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return false;
        };
        let Some((scheme, shown)) = split_once_space(value.as_bytes()) else {
            return false;
        };
        scheme.eq_ignore_ascii_case(b"bearer") && bool::from(shown.ct_eq(&self.0))
    }
}

fn split_once_space(value: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = value.iter().position(|byte| *byte == b' ')?;
    Some((&value[..at], value[at + 1..].trim_ascii()))
}

fn read_token(file: &File) -> io::Result<Result<BearerToken, String>> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Ok(Err("is not a regular file".into()));
    }
    if metadata.mode() & 0o077 != 0 {
        let mode = metadata.mode() & 0o7777;
        return Ok(Err(format!(
            "has mode {mode:04o}, so others can read it; set it to 0600"
        )));
    }
    let own = nix::unistd::geteuid().as_raw();
    if metadata.uid() != own && metadata.uid() != 0 {
        return Ok(Err(format!(
            "belongs to uid {}; it must belong to uid {own}",
            metadata.uid()
        )));
    }
    let mut text = Vec::new();
    file.take(FILE_MAX + 1).read_to_end(&mut text)?;
    if u64::try_from(text.len()).is_ok_and(|length| length > FILE_MAX) {
        return Ok(Err(format!("is longer than {FILE_MAX} bytes")));
    }
    Ok(check_token(text.trim_ascii()).map(|()| BearerToken(text.trim_ascii().to_vec())))
}

/// The characters that RFC 6750 allows in a bearer token, and enough of them for 32 random bytes.
fn check_token(token: &[u8]) -> Result<(), String> {
    const HINT: &str = "make one with `head -c 32 /dev/urandom | base64`";
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(byte);
    if !token.iter().all(allowed) {
        return Err(format!(
            "has a character that a bearer token cannot have; {HINT}"
        ));
    }
    let payload = token.strip_suffix(b"=").unwrap_or(token);
    let needed = if token.iter().all(u8::is_ascii_hexdigit) {
        HEX_MIN
    } else {
        BASE64_MIN
    };
    if payload.len() < needed {
        return Err(format!("holds less than 32 random bytes; {HINT}"));
    }
    let mut seen = [false; 256];
    payload
        .iter()
        .for_each(|byte| seen[usize::from(*byte)] = true);
    if seen.iter().filter(|seen| **seen).count() < 8 {
        return Err(format!("does not look random; {HINT}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
