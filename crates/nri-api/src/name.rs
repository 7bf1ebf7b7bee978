//! Names of plugins: a two-digit index, which orders them, and a base name.

use std::fmt;
use std::str::FromStr;

/// The place of a plugin in the chain: two ASCII digits, `00` first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginIndex(u8);

/// Index and base name of a plugin; prints as `10-logger`, the owner id of merging.
///
/// Orders by index, then name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PluginId {
    index: PluginIndex,
    base: String,
}

/// Why a name or an index is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidName {
    /// The base name is empty.
    #[error("the plugin name is empty")]
    Empty,
    /// The base name has a character outside the allowed ones.
    #[error("plugin name {name:?} has the character {found:?}, allowed are A-Z a-z 0-9 _ . + -")]
    Character {
        /// The name, cut to 64 characters.
        name: String,
        /// The first character that is not allowed.
        found: char,
    },
    /// The base name is longer than [`PluginId::NAME_MAX`] bytes.
    #[error(
        "the plugin name has {length} bytes, at most {} are allowed",
        PluginId::NAME_MAX
    )]
    Length {
        /// Its length in bytes.
        length: usize,
    },
    /// The index is not two digits.
    #[error("plugin index {index:?} is not two digits")]
    Index {
        /// The index, cut to 64 characters.
        index: String,
    },
    /// A file name without a dash.
    #[error("plugin file name {name:?} is not <two digits>-<name>")]
    File {
        /// The name, cut to 64 characters.
        name: String,
    },
}

fn cut(text: &str) -> String {
    text.chars().take(64).collect()
}

impl PluginId {
    /// The longest base name, in bytes (what a file name can hold beside its index).
    pub const NAME_MAX: usize = 252;

    /// Checks what a plugin says in `RegisterPlugin`, the name before the index.
    ///
    /// # Errors
    /// [`InvalidName`], other than `File`.
    pub fn new(index: &str, base: &str) -> Result<Self, InvalidName> {
        if base.is_empty() {
            return Err(InvalidName::Empty);
        }
        if base.len() > Self::NAME_MAX {
            return Err(InvalidName::Length { length: base.len() });
        }
        let allowed = |c: char| c.is_ascii_alphanumeric() || "_.+-".contains(c);
        if let Some(found) = base.chars().find(|c| !allowed(*c)) {
            return Err(InvalidName::Character {
                name: cut(base),
                found,
            });
        }
        Ok(Self {
            index: index.parse()?,
            base: base.to_owned(),
        })
    }

    /// Splits the name of a file in a plugin directory at its first dash.
    ///
    /// # Errors
    /// [`InvalidName`]; the base must hold the same characters as a registered one.
    pub fn from_file_name(name: &str) -> Result<Self, InvalidName> {
        let (index, base) = name
            .split_once('-')
            .ok_or_else(|| InvalidName::File { name: cut(name) })?;
        Self::new(index, base)
    }

    /// The index.
    #[must_use]
    pub fn index(&self) -> PluginIndex {
        self.index
    }

    /// The base name, without the index.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.base
    }
}

impl fmt::Display for PluginId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.index, self.base)
    }
}

impl FromStr for PluginId {
    type Err = InvalidName;

    fn from_str(name: &str) -> Result<Self, InvalidName> {
        Self::from_file_name(name)
    }
}

impl FromStr for PluginIndex {
    type Err = InvalidName;

    fn from_str(index: &str) -> Result<Self, InvalidName> {
        match index.as_bytes() {
            [tens @ b'0'..=b'9', ones @ b'0'..=b'9'] => {
                Ok(Self((tens - b'0') * 10 + (ones - b'0')))
            }
            _ => Err(InvalidName::Index { index: cut(index) }),
        }
    }
}

impl fmt::Display for PluginIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:02}", self.0)
    }
}

impl fmt::Debug for PluginIndex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PluginIndex({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registered_names_follow_the_rules_of_the_protocol() {
        for (index, base, good) in [
            ("05", "abcd-0123+EFGH_4567.ijkl", true),
            ("10", "foo,bar", false),
            ("10", "", false),
            ("10", "é", false),
            ("1", "foo", false),
            ("100", "foo", false),
            ("1a", "foo", false),
            ("１０", "foo", false),
            ("", "foo", false),
        ] {
            assert_eq!(
                PluginId::new(index, base).is_ok(),
                good,
                "{index:?} {base:?}"
            );
        }
        assert!(
            matches!(PluginId::new("x", ""), Err(InvalidName::Empty)),
            "the name comes first"
        );
        let long = "n".repeat(253);
        assert_eq!(
            PluginId::new("00", &long),
            Err(InvalidName::Length { length: 253 })
        );
    }

    #[test]
    fn file_names_split_at_the_first_dash() {
        let id = PluginId::from_file_name("20-device-injector").unwrap();
        assert_eq!(
            (id.index().to_string().as_str(), id.base()),
            ("20", "device-injector")
        );
        assert_eq!(id.to_string(), "20-device-injector");
        for bad in ["", "20", "-x", "2-x", "20-", "README", "20-a b"] {
            assert!(PluginId::from_file_name(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn plugins_order_by_index_then_name() {
        let mut ids: Vec<PluginId> = ["99-a", "00-b", "20-z", "20-a"]
            .iter()
            .map(|id| id.parse().unwrap())
            .collect();
        ids.sort();
        let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
        assert_eq!(ids, ["00-b", "20-a", "20-z", "99-a"]);
    }
}
