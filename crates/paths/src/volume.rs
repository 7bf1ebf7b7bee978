//! Volume ids: opaque strings of a plugin's choice, encoded into directory names.
//!
//! ```text
//! id                                   directory name
//! `.`, `..`                            `%2E`, `%2E%2E`          (Mesos: escapes the directory)
//! encodes to at most 255 bytes         Mesos' percent encoding
//! longer than that, up to 189 bytes    `%_` + base64url of its bytes, at most 254 bytes
//! longer than that, empty              refused
//! ```
//!
//! No two ids share a name: Mesos' encoding is injective, it never gives `%2E` (a dot is not
//! escaped, a percent sign is) and never `%_`.

use std::fmt;
use std::str::FromStr;

use crate::error::Shown;
use crate::ids::NAME_MAX;
use crate::{PathsError, percent};

/// The id of a volume as its plugin gave it: not empty, otherwise any text that can be encoded into
/// a directory name (always when it has at most 189 bytes; CSI allows 128).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VolumeId(Box<str>);

const WHAT: &str = "volume id";

/// Begins the dense form; Mesos' encoding never does, and its decoder refuses it.
const DENSE: &str = "%_";

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

impl VolumeId {
    /// Checks that `value` has a directory name.
    ///
    /// # Errors
    /// When it is empty or too long for a directory name in either form.
    pub fn new(value: impl AsRef<str>) -> Result<Self, PathsError> {
        let value = value.as_ref();
        if value.is_empty() {
            return Err(PathsError::Empty { what: WHAT });
        }
        let length = component(value).len();
        if length > NAME_MAX {
            return Err(PathsError::TooLong {
                what: WHAT,
                value: Shown::new(value),
                length,
                max: NAME_MAX,
            });
        }
        Ok(Self(value.into()))
    }

    /// The id as the plugin knows it. May contain anything: never put it into a path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The directory name that stands for this id: 1 to 255 bytes of printable ASCII without `/`.
    #[must_use]
    pub fn to_component(&self) -> String {
        component(&self.0)
    }

    /// The id that the directory name `name` stands for.
    ///
    /// # Errors
    /// When `name` is not what [`to_component`](Self::to_component) gives for any id.
    pub fn from_component(name: &str) -> Result<Self, PathsError> {
        let id = match name.strip_prefix(DENSE) {
            Some(dense) => Self::new(decode_dense(name, dense)?)?,
            None => Self::decode_mesos(name)?,
        };
        let canonical = id.to_component();
        if canonical != name {
            return Err(PathsError::NotCanonical {
                value: Shown::new(name),
                canonical: Shown::new(&canonical),
            });
        }
        Ok(id)
    }

    /// The id that a directory name of Mesos' stands for: `%XX`, and `+` for a space.
    ///
    /// # Errors
    /// When an escape is malformed, or the result is empty or not UTF-8.
    pub fn decode_mesos(name: &str) -> Result<Self, PathsError> {
        Self::new(percent::decode(name)?)
    }
}

fn component(value: &str) -> String {
    if value == "." || value == ".." {
        let mut out = String::new();
        value
            .bytes()
            .for_each(|byte| percent::push_escape(&mut out, byte));
        return out;
    }
    let plain = percent::encode(value);
    if plain.len() <= NAME_MAX {
        plain
    } else {
        encode_dense(value)
    }
}

/// `%_` and base64url (RFC 4648 section 5) without padding.
fn encode_dense(value: &str) -> String {
    let mut out = String::with_capacity(DENSE.len() + value.len().div_ceil(3) * 4);
    out.push_str(DENSE);
    for chunk in value.as_bytes().chunks(3) {
        let byte = |at: usize| usize::from(chunk.get(at).copied().unwrap_or(0));
        let group = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..=chunk.len() {
            out.push(char::from(BASE64[group >> (18 - 6 * digit) & 63]));
        }
    }
    out
}

fn decode_dense(name: &str, dense: &str) -> Result<String, PathsError> {
    let mut out = Vec::with_capacity(dense.len() / 4 * 3 + 2);
    for (nth, chunk) in dense.as_bytes().chunks(4).enumerate() {
        let mut group = 0u32;
        for (at, digit) in chunk.iter().enumerate() {
            let value = BASE64.iter().position(|d| d == digit);
            let value = value.and_then(|v| u32::try_from(v).ok()).ok_or_else(|| {
                let offset = DENSE.len() + nth * 4 + at;
                PathsError::Escape {
                    value: Shown::new(name),
                    offset,
                }
            })?;
            group |= value << (18 - 6 * at);
        }
        let [_, bytes @ ..] = group.to_be_bytes();
        // A lone last digit holds no byte; the caller sees it, since its form is not canonical.
        out.extend_from_slice(&bytes[..chunk.len() - 1]);
    }
    String::from_utf8(out).map_err(|_| PathsError::NotUtf8 {
        value: Shown::new(name),
    })
}

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VolumeId({:?})", &self.0)
    }
}

impl FromStr for VolumeId {
    type Err = PathsError;

    fn from_str(value: &str) -> Result<Self, PathsError> {
        Self::new(value)
    }
}

impl AsRef<str> for VolumeId {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The body of `cargo xtask fuzz volume-id`: a directory name is refused, or stands for an id that
        /// has exactly this name.
        #[test]
        fn any_directory_name_is_refused_or_canonical(
            name in prop_oneof![any::<String>(), "[%_0-9A-Fa-f+.~]{1,12}", "%_[A-Za-z0-9_-]{0,260}"],
        ) {
            if let Ok(id) = VolumeId::from_component(&name) {
                prop_assert_eq!(&id.to_component(), &name);
            }
            if let Ok(id) = VolumeId::decode_mesos(&name) {
                prop_assert_eq!(VolumeId::from_component(&id.to_component()).unwrap(), id);
            }
        }
    }
}
