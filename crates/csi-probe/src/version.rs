//! The CSI API versions that exist in the field.

use std::{fmt, str::FromStr};

/// A CSI API version, by its protobuf package: `csi.v0` (0.2 and 0.3) or `csi.v1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ApiVersion {
    /// `csi.v0`: 0.2 and 0.3, which only adds to it.
    V0,
    /// `csi.v1`.
    V1,
}

impl ApiVersion {
    /// `"v0"` or `"v1"`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::V0 => "v0",
            Self::V1 => "v1",
        }
    }

    /// The one that this one is not.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::V0 => Self::V1,
            Self::V1 => Self::V0,
        }
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The text is neither `v0` nor `v1`.
#[derive(Debug, thiserror::Error)]
#[error("unknown CSI API version {given:?}: write v0 or v1")]
pub struct ParseVersionError {
    /// What was given.
    pub given: String,
}

impl FromStr for ApiVersion {
    type Err = ParseVersionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "v0" => Ok(Self::V0),
            "v1" => Ok(Self::V1),
            _ => Err(ParseVersionError {
                given: text.to_owned(),
            }),
        }
    }
}
