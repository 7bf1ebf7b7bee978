//! Where a plugin listens: the forms that are accepted, and what is said about the others.

use std::{
    fmt,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    str::FromStr,
};

use crate::ProbeError;

/// The longest path, in bytes, that fits a Unix socket address on Linux (`sun_path` less its NUL).
pub const SUN_PATH_MAX: usize = 107;

/// Where a plugin listens.
///
/// | text | meaning |
/// |---|---|
/// | `unix:///run/csi.sock` | absolute path |
/// | `unix:/run/csi.sock`, `unix:csi.sock` | the path after the colon |
/// | `/run/csi.sock`, `csi.sock` | a bare path |
/// | `tcp://host:port`, `tcp://[::1]:port` | TCP, for plugins that somebody else runs |
///
/// `Display` writes the first or the last form; parsing it again gives the same endpoint.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Endpoint {
    /// A Unix socket.
    Unix(PathBuf),
    /// A TCP port.
    Tcp {
        /// Host name or address, without brackets.
        host: String,
        /// Port, never 0.
        port: u16,
    },
}

impl Endpoint {
    /// A Unix endpoint, checked as [`FromStr`] checks it.
    ///
    /// # Errors
    /// [`ProbeError::InvalidEndpoint`] for an empty path, a NUL or a trailing slash; [`ProbeError::PathTooLong`].
    pub fn unix(path: impl Into<PathBuf>) -> Result<Self, ProbeError> {
        let path = path.into();
        let given = path.to_string_lossy().into_owned();
        unix(&given, path)
    }

    /// The socket's path, where it is a Unix endpoint.
    #[must_use]
    pub fn socket(&self) -> Option<&Path> {
        match self {
            Self::Unix(path) => Some(path),
            Self::Tcp { .. } => None,
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unix(path) if path.is_absolute() => write!(f, "unix://{}", path.display()),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp { host, port } if host.contains(':') => write!(f, "tcp://[{host}]:{port}"),
            Self::Tcp { host, port } => write!(f, "tcp://{host}:{port}"),
        }
    }
}

impl FromStr for Endpoint {
    type Err = ProbeError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.is_empty() {
            return Err(invalid(
                text,
                "is empty",
                Some("unix:///path/to/csi.sock".to_owned()),
            ));
        }
        if text.trim() != text {
            return Err(invalid(
                text,
                "has blanks around it",
                Some(text.trim().to_owned()),
            ));
        }
        if let Some(rest) = text.strip_prefix("unix://") {
            return match rest.strip_prefix('/') {
                Some(_) => unix(text, PathBuf::from(rest)),
                None if rest.is_empty() => Err(invalid(text, "has no path", None)),
                None => Err(invalid(
                    text,
                    "has a host where none can be",
                    Some(format!("unix:///{rest}")),
                )),
            };
        }
        if let Some(rest) = text.strip_prefix("unix:") {
            return unix(text, PathBuf::from(rest));
        }
        if let Some(rest) = text.strip_prefix("tcp://") {
            return tcp(text, rest);
        }
        if let Some((scheme, rest)) = text.split_once("://") {
            return Err(unknown_scheme(text, scheme, rest));
        }
        if let Some(rest) = text.strip_prefix("tcp:") {
            return Err(invalid(
                text,
                "lacks the slashes after the scheme",
                Some(format!("tcp://{rest}")),
            ));
        }
        if text.starts_with("unix-abstract:") || text.starts_with('@') {
            return Err(invalid(
                text,
                "is an abstract socket, and those have no owner or mode to check",
                None,
            ));
        }
        if !text.contains('/') && tcp(text, text).is_ok() {
            return Err(invalid(
                text,
                "has no scheme",
                Some(format!("tcp://{text}")),
            ));
        }
        unix(text, PathBuf::from(text))
    }
}

fn unix(given: &str, path: PathBuf) -> Result<Endpoint, ProbeError> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.is_empty() {
        return Err(invalid(given, "has no path", None));
    }
    if bytes.contains(&0) {
        return Err(invalid(given, "has a NUL byte in its path", None));
    }
    if bytes.ends_with(b"/") {
        return Err(invalid(
            given,
            "names a directory",
            Some(format!("{}/csi.sock", given.trim_end_matches('/'))),
        ));
    }
    if bytes.len() > SUN_PATH_MAX {
        let length = bytes.len();
        return Err(ProbeError::PathTooLong { path, length });
    }
    Ok(Endpoint::Unix(path))
}

fn tcp(given: &str, rest: &str) -> Result<Endpoint, ProbeError> {
    let (host, port) = if let Some(bracketed) = rest.strip_prefix('[') {
        bracketed
            .split_once("]:")
            .ok_or_else(|| invalid(given, "has no port", None))?
    } else {
        rest.rsplit_once(':')
            .ok_or_else(|| invalid(given, "has no port", None))?
    };
    if host.is_empty() {
        return Err(invalid(
            given,
            "has no host",
            Some(format!("tcp://localhost:{port}")),
        ));
    }
    if !rest.starts_with('[') && host.contains(':') {
        return Err(invalid(
            given,
            "has an IPv6 address without brackets",
            Some(format!("tcp://[{host}]:{port}")),
        ));
    }
    if !host
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"-._:%".contains(&b))
    {
        return Err(invalid(
            given,
            "has a host with characters that no host has",
            None,
        ));
    }
    match port.parse::<u16>() {
        Ok(port) if port != 0 => Ok(Endpoint::Tcp {
            host: host.to_owned(),
            port,
        }),
        _ => Err(invalid(given, "has no port between 1 and 65535", None)),
    }
}

fn unknown_scheme(text: &str, scheme: &str, rest: &str) -> ProbeError {
    let lower = scheme.to_ascii_lowercase();
    let (problem, better) = match lower.as_str() {
        "unix" | "tcp" => (
            "has a scheme in capitals",
            Some(format!("{lower}://{rest}")),
        ),
        "file" | "npipe" | "uds" => (
            "has a scheme that is none of unix and tcp",
            Some(format!("unix:///{}", rest.trim_start_matches('/'))),
        ),
        "http" | "https" | "dns" | "grpc" | "ipv4" => (
            "has a scheme that is none of unix and tcp",
            Some(format!("tcp://{}", rest.trim_matches('/'))),
        ),
        _ => ("has a scheme that is none of unix and tcp", None),
    };
    invalid(text, problem, better)
}

fn invalid(given: &str, problem: &'static str, did_you_mean: Option<String>) -> ProbeError {
    ProbeError::InvalidEndpoint {
        given: given.to_owned(),
        problem,
        did_you_mean,
    }
}

#[cfg(test)]
mod tests;
