use std::fmt;
use std::str::FromStr;

/// Who the engine is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct EngineVersion {
    /// Its own version, as `28.5.2`.
    pub version: String,
    /// The API version that is spoken with it from now on.
    pub api: ApiVersion,
    /// The newest API version it has.
    pub newest_api: ApiVersion,
    /// Docker, or Podman under Docker's API.
    pub kind: EngineKind,
    /// `linux`.
    pub os: String,
    /// As Go names it: `amd64`, `arm64`.
    pub arch: String,
}

/// Which program answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum EngineKind {
    /// Docker, or what does not say that it is something else.
    Docker,
    /// Podman.
    Podman,
}

/// A version of the Docker Engine API.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ApiVersion {
    /// Before the dot.
    pub major: u16,
    /// After it.
    pub minor: u16,
}

impl ApiVersion {
    /// The oldest that we speak: Docker 20.10.
    pub const OLDEST: Self = Self::new(1, 41);
    /// The newest that we speak: Docker 28. Later engines speak it too.
    pub const NEWEST: Self = Self::new(1, 51);

    /// `major.minor`.
    #[must_use]
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }
}

impl fmt::Display for ApiVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for ApiVersion {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (major, minor) = text.trim().split_once('.').unwrap_or((text, ""));
        Ok(Self::new(major.parse()?, minor.parse()?))
    }
}
