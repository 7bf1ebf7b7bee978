//! Plugin type, plugin name and instance id.

use std::fmt;
use std::str::FromStr;

use crate::PathsError;
use crate::error::Shown;

/// The longest path component on Linux (`NAME_MAX`), in bytes.
pub const NAME_MAX: usize = 255;

/// Checks that `value` can be one path component as it stands.
pub(crate) fn check_component(what: &'static str, value: &str) -> Result<(), PathsError> {
    if value.is_empty() {
        return Err(PathsError::Empty { what });
    }
    if value == "." || value == ".." {
        return Err(PathsError::Reserved {
            what,
            value: Shown::new(value),
        });
    }
    if let Some(character) = value.chars().find(|c| *c == '/' || c.is_control()) {
        return Err(PathsError::Forbidden {
            what,
            value: Shown::new(value),
            character,
        });
    }
    if value.len() > NAME_MAX {
        return Err(PathsError::TooLong {
            what,
            value: Shown::new(value),
            length: value.len(),
            max: NAME_MAX,
        });
    }
    Ok(())
}

macro_rules! identifier {
    ($(#[$doc:meta])* $name:ident, $what:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Box<str>);

        impl $name {
            /// Checks `value`.
            ///
            /// # Errors
            /// [`PathsError`] with the value and the reason when it is refused.
            pub fn new(value: impl AsRef<str>) -> Result<Self, PathsError> {
                let value = value.as_ref();
                let check: fn(&'static str, &str) -> Result<(), PathsError> = $check;
                check($what, value)?;
                Ok(Self(value.into()))
            }

            /// The identifier as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:?})"), &self.0)
            }
        }

        impl FromStr for $name {
            type Err = PathsError;

            fn from_str(value: &str) -> Result<Self, PathsError> {
                Self::new(value)
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
    };
}

identifier! {
    /// The type of a CSI plugin, such as `org.apache.mesos.csi.test`: a directory name, so 1 to
    /// 255 bytes without `/` and control characters, and neither `.` nor `..`.
    PluginType, "plugin type", check_component
}

identifier! {
    /// The name of a CSI plugin among those of its type; the same rules as [`PluginType`].
    PluginName, "plugin name", check_component
}

identifier! {
    /// The id of one state root: 16 lower-case hexadecimal digits, drawn once and kept in
    /// [`StateRoot::instance_file`](crate::StateRoot::instance_file).
    InstanceId, "instance id", check_instance
}

fn check_instance(_what: &'static str, value: &str) -> Result<(), PathsError> {
    let digit = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    if value.len() == 16 && value.bytes().all(digit) {
        Ok(())
    } else {
        Err(PathsError::InstanceId {
            value: Shown::new(value),
        })
    }
}

impl InstanceId {
    /// The id made of eight (random) bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 8]) -> Self {
        Self(format!("{:016x}", u64::from_be_bytes(bytes)).into())
    }
}
