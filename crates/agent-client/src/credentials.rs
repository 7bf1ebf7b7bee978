//! The `Authorization` header, from files that may change at any time.

use std::fmt;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use http::HeaderValue;

use crate::{AgentError, Credentials};

/// A token is not longer than this; more is another file.
const MAX_SECRET: usize = 64 << 10;

/// Makes the header, reading a file again only when it changed.
pub(crate) struct Authorizer {
    credentials: Credentials,
    cached: Mutex<Option<Cached>>,
}

struct Cached {
    version: FileVersion,
    header: HeaderValue,
}

/// What changes when a file is written or replaced.
#[derive(PartialEq, Eq)]
struct FileVersion {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl fmt::Debug for Authorizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorizer")
            .field("credentials", &self.credentials)
            .finish_non_exhaustive()
    }
}

impl Authorizer {
    pub(crate) fn new(credentials: Credentials) -> Result<Self, AgentError> {
        if let Credentials::Basic {
            user,
            password_file,
        } = &credentials
            && (user.contains(':') || user.chars().any(char::is_control))
        {
            return Err(AgentError::BadCredentials {
                path: password_file.clone(),
                reason: "the user contains a colon or a control character",
            });
        }
        Ok(Self {
            credentials,
            cached: Mutex::new(None),
        })
    }

    /// The value of the header now. Reads files on a thread for blocking work; dropping the
    /// future abandons that.
    pub(crate) async fn header(self: &Arc<Self>) -> Result<Option<HeaderValue>, AgentError> {
        let path = match &self.credentials {
            Credentials::None => return Ok(None),
            Credentials::BearerFile(path) => path,
            Credentials::Basic { password_file, .. } => password_file,
        };
        let this = Arc::clone(self);
        let read = tokio::task::spawn_blocking(move || this.read()).await;
        match read {
            Ok(header) => header.map(Some),
            Err(join) => Err(AgentError::Credentials {
                path: path.clone(),
                source: std::io::Error::other(join),
            }),
        }
    }

    fn read(&self) -> Result<HeaderValue, AgentError> {
        match &self.credentials {
            Credentials::BearerFile(path) => self.read_with(path, |secret| {
                let printable = !secret.is_empty() && secret.iter().all(u8::is_ascii_graphic);
                printable.then(|| [b"Bearer ", secret].concat())
            }),
            Credentials::Basic {
                user,
                password_file,
            } => self.read_with(password_file, |secret| {
                let pair = [user.as_bytes(), b":", secret].concat();
                Some([b"Basic ", base64(&pair).as_bytes()].concat())
            }),
            Credentials::None => Err(AgentError::BadCredentials {
                path: PathBuf::new(),
                reason: "there are none",
            }),
        }
    }

    fn read_with(
        &self,
        path: &Path,
        make: impl FnOnce(&[u8]) -> Option<Vec<u8>>,
    ) -> Result<HeaderValue, AgentError> {
        let failed = |source| AgentError::Credentials {
            path: path.to_owned(),
            source,
        };
        let bad = |reason| AgentError::BadCredentials {
            path: path.to_owned(),
            reason,
        };
        let metadata = std::fs::metadata(path).map_err(failed)?;
        if !metadata.is_file() {
            return Err(bad("it is not a regular file"));
        }
        let version = FileVersion {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        };
        let cached = self.cached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached) = cached.as_ref().filter(|cached| cached.version == version) {
            return Ok(cached.header.clone());
        }
        drop(cached);

        let limit = u64::try_from(MAX_SECRET).unwrap_or(u64::MAX);
        let mut secret = Vec::new();
        File::open(path)
            .and_then(|file| file.take(limit + 1).read_to_end(&mut secret))
            .map_err(failed)?;
        if secret.len() > MAX_SECRET {
            return Err(bad("it is over 64 KiB"));
        }
        while matches!(secret.last(), Some(b'\n' | b'\r')) {
            secret.pop();
        }
        let value =
            make(&secret).ok_or_else(|| bad("it must hold one token of printable ASCII"))?;
        let mut header =
            HeaderValue::from_bytes(&value).map_err(|_| bad("it does not fit a header"))?;
        header.set_sensitive(true);
        *self.cached.lock().unwrap_or_else(PoisonError::into_inner) = Some(Cached {
            version,
            header: header.clone(),
        });
        Ok(header)
    }
}

/// RFC 4648 with padding.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let mut word = [0u8; 3];
        word[..group.len()].copy_from_slice(group);
        let word = u32::from_be_bytes([0, word[0], word[1], word[2]]);
        for index in 0..4 {
            if index > group.len() {
                out.push('=');
            } else {
                let six = (word >> (18 - 6 * index)) & 63;
                out.push(char::from(ALPHABET[usize::try_from(six).unwrap_or(0)]));
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bearer(path: &Path) -> Authorizer {
        Authorizer::new(Credentials::BearerFile(path.to_owned())).unwrap()
    }

    #[test]
    fn a_token_file_is_read_again_when_it_changed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        std::fs::write(&file, "first\n").unwrap();
        let authorizer = bearer(&file);
        assert_eq!(authorizer.read().unwrap(), "Bearer first");
        assert_eq!(authorizer.read().unwrap(), "Bearer first");
        // Replaced, as a rotation does, with the same length.
        let next = dir.path().join("next");
        std::fs::write(&next, "other\r\n").unwrap();
        std::fs::remove_file(&file).unwrap();
        std::fs::hard_link(&next, &file).unwrap();
        assert_eq!(authorizer.read().unwrap(), "Bearer other");
        std::fs::remove_file(&file).unwrap();
        let error = authorizer.read().unwrap_err();
        assert!(matches!(error, AgentError::Credentials { .. }));
        assert!(error.to_string().contains("token"));
    }

    #[test]
    fn unusable_files_are_named_and_never_quoted() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        for content in [
            &b""[..],
            b"\n",
            b"two words",
            b"sec\x01ret",
            &[b'a'; 70_000],
        ] {
            std::fs::write(&file, content).unwrap();
            let error = bearer(&file).read().unwrap_err();
            assert!(matches!(error, AgentError::BadCredentials { .. }));
            let shown = format!("{error} {error:?}");
            assert!(
                !shown.contains("words") && !shown.contains("sec\x01"),
                "{shown}"
            );
        }
        let error = bearer(dir.path()).read().unwrap_err();
        assert!(error.to_string().contains("not a regular file"), "{error}");
    }

    #[test]
    fn no_secret_is_in_debug_output() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("token");
        std::fs::write(&file, "hunter2").unwrap();
        let authorizer = bearer(&file);
        let header = authorizer.read().unwrap();
        assert!(!format!("{authorizer:?} {header:?}").contains("hunter2"));
    }

    #[test]
    fn basic_credentials_are_encoded_by_rfc_7617() {
        let dir = tempfile::tempdir().unwrap();
        let password_file = dir.path().join("password");
        std::fs::write(&password_file, "open sesame\n").unwrap();
        let basic = |user: &str| {
            Authorizer::new(Credentials::Basic {
                user: user.into(),
                password_file: password_file.clone(),
            })
        };
        assert_eq!(
            basic("Aladdin").unwrap().read().unwrap(),
            "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="
        );
        assert!(basic("a:b").is_err());
    }

    #[test]
    fn base64_is_that_of_rfc_4648() {
        let plain = ["", "f", "fo", "foo", "foob", "fooba", "foobar"];
        let coded = [
            "", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy",
        ];
        assert_eq!(plain.map(|text| base64(text.as_bytes())), coded);
    }
}
