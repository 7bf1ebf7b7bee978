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
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use http::HeaderValue;

    use super::*;

    const TOKEN: &str = "q83vASNFZ4mrze8BI0VniavN7wEjRWeJq83vASNFZ4k=";
    const HEX: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

    fn load(text: &str, mode: u32) -> Result<BearerToken, HttpError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        BearerToken::load(&path)
    }

    fn problem(result: Result<BearerToken, HttpError>) -> String {
        match result.unwrap_err() {
            HttpError::Token { problem, .. } => problem,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn a_token_of_32_random_bytes_is_taken() {
        load(&format!("{TOKEN}\n"), 0o600).unwrap();
        load(HEX, 0o400).unwrap();
    }

    #[test]
    fn a_token_that_is_too_short_or_not_random_is_refused_with_a_hint() {
        for text in [
            "",
            "secret",
            &HEX[..62],
            &TOKEN[..42],
            &"a".repeat(64),
            &"ab".repeat(40),
        ] {
            let problem = problem(load(text, 0o600));
            assert!(problem.contains("/dev/urandom"), "{text}: {problem}");
        }
        assert!(problem(load(&format!("{TOKEN} {TOKEN}"), 0o600)).contains("cannot have"));
        assert!(problem(load(&"q8".repeat(3000), 0o600)).contains("longer"));
    }

    #[test]
    fn a_token_file_that_others_can_read_is_refused() {
        for mode in [0o640, 0o604, 0o644, 0o660] {
            assert!(
                problem(load(TOKEN, mode)).contains("set it to 0600"),
                "{mode:o}"
            );
        }
    }

    #[test]
    fn a_link_a_directory_and_a_missing_file_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        fs::write(&target, TOKEN).unwrap();
        fs::set_permissions(&target, fs::Permissions::from_mode(0o600)).unwrap();
        let link = dir.path().join("link");
        symlink(&target, &link).unwrap();
        assert!(matches!(
            BearerToken::load(&link),
            Err(HttpError::TokenFile { .. })
        ));
        assert!(matches!(
            BearerToken::load(dir.path()),
            Err(HttpError::Token { .. })
        ));
        let missing = dir.path().join("missing");
        let error = BearerToken::load(&missing).unwrap_err();
        assert!(error.to_string().contains("missing"), "{error}");
    }

    #[test]
    fn only_the_exact_token_is_admitted() {
        let token = load(TOKEN, 0o600).unwrap();
        let admits = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::AUTHORIZATION, HeaderValue::from_str(value).unwrap());
            }
            token.admits(&headers)
        };
        let good = format!("Bearer {TOKEN}");
        assert!(admits(&[&good]));
        assert!(admits(&[&format!("bearer  {TOKEN}")]));
        for bad in [
            "",
            "Bearer",
            "Bearer ",
            TOKEN,
            &format!("Basic {TOKEN}"),
            &good[..good.len() - 1],
        ] {
            assert!(!admits(&[bad]), "{bad}");
        }
        assert!(!admits(&[&format!("{good}x")]));
        assert!(!admits(&[]));
        assert!(!admits(&[&good, &good]));
    }

    #[test]
    fn the_token_is_not_in_its_debug_form() {
        assert!(!format!("{:?}", load(TOKEN, 0o600).unwrap()).contains(&TOKEN[..8]));
    }
}
