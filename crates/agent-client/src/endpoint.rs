use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use crate::AgentError;

/// Where an agent's operator API is: `http://HOST:PORT[/PATH]`, `https://HOST:PORT[/PATH]` or
/// `unix:///PATH/OF/SOCKET`.
///
/// The path of the API is `/api/v1` unless given; a Mesos agent also answers at
/// `/slave(N)/api/v1`. [`Display`](fmt::Display) gives a form that parses to the same endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AgentEndpoint {
    transport: Transport,
    path: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Transport {
    /// `host` is without the brackets of an IPv6 address.
    Tcp {
        host: String,
        port: u16,
        tls: bool,
    },
    Unix(PathBuf),
}

/// The path that every agent serves the API at.
const API_PATH: &str = "/api/v1";

impl AgentEndpoint {
    /// The API on a Unix socket.
    #[must_use]
    pub fn unix(socket: impl Into<PathBuf>) -> Self {
        Self {
            transport: Transport::Unix(socket.into()),
            path: API_PATH.to_owned(),
        }
    }

    /// The same with another path, which begins with a slash.
    pub(crate) fn with_path(mut self, path: String) -> Self {
        self.path = path;
        self
    }

    /// True for `https://`.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        matches!(self.transport, Transport::Tcp { tls: true, .. })
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The value of the `Host` header.
    pub(crate) fn authority(&self) -> String {
        match &self.transport {
            Transport::Tcp { host, port, .. } if host.contains(':') => format!("[{host}]:{port}"),
            Transport::Tcp { host, port, .. } => format!("{host}:{port}"),
            Transport::Unix(_) => "localhost".to_owned(),
        }
    }
}

impl fmt::Display for AgentEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.transport {
            Transport::Tcp { tls, .. } => {
                let scheme = if *tls { "https" } else { "http" };
                write!(f, "{scheme}://{}{}", self.authority(), self.path)
            }
            Transport::Unix(socket) => write!(f, "unix://{}", socket.display()),
        }
    }
}

impl FromStr for AgentEndpoint {
    type Err = AgentError;

    fn from_str(given: &str) -> Result<Self, AgentError> {
        let refuse = |reason| AgentError::Endpoint {
            given: given.to_owned(),
            reason,
        };
        if given.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(refuse("it contains spaces or control characters"));
        }
        if let Some(socket) = given.strip_prefix("unix://") {
            return if socket.starts_with('/') && socket.len() > 1 {
                Ok(Self::unix(socket))
            } else {
                Err(refuse(
                    "the path of the socket must be absolute: unix:///path/agent.sock",
                ))
            };
        }
        let (tls, rest) = if let Some(rest) = given.strip_prefix("http://") {
            (false, rest)
        } else if let Some(rest) = given.strip_prefix("https://") {
            (true, rest)
        } else {
            return Err(refuse("it must begin with http://, https:// or unix:///"));
        };
        let (authority, path) = match rest.find('/') {
            Some(at) if rest.len() > at + 1 => (&rest[..at], &rest[at..]),
            Some(at) => (&rest[..at], API_PATH),
            None => (rest, API_PATH),
        };
        if authority.contains('@') {
            return Err(refuse("credentials do not belong into the address"));
        }
        if path.contains(['?', '#']) || path.parse::<http::uri::PathAndQuery>().is_err() {
            return Err(refuse("the path is not valid"));
        }
        let (host, port) = authority
            .rsplit_once(':')
            .ok_or_else(|| refuse("the port is missing, usually 5051"))?;
        let host = match host.strip_prefix('[') {
            Some(inner) => inner
                .strip_suffix(']')
                .filter(|inner| inner.parse::<std::net::Ipv6Addr>().is_ok())
                .ok_or_else(|| refuse("the IPv6 address is not valid"))?,
            None if host.contains(':') => {
                return Err(refuse("an IPv6 address must be written in brackets"));
            }
            None => host,
        };
        let host_is_valid = host.contains(':')
            || host
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
        if host.is_empty() || !host_is_valid {
            return Err(refuse("the host is not valid"));
        }
        let port = port
            .parse()
            .ok()
            .filter(|port| *port != 0)
            .ok_or_else(|| refuse("the port must be a number from 1 to 65535"))?;
        Ok(Self {
            transport: Transport::Tcp {
                host: host.to_owned(),
                port,
                tls,
            },
            path: path.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn format_and_parse_are_inverse() {
        for text in [
            "http://127.0.0.1:5051/api/v1",
            "http://agent-1.example:5051/slave(1)/api/v1",
            "https://[::1]:5051/api/v1",
            "unix:///run/longshore/agent/agent.sock",
        ] {
            let endpoint: AgentEndpoint = text.parse().unwrap();
            assert_eq!(endpoint.to_string(), text);
            assert_eq!(endpoint.is_tls(), text.starts_with("https"));
        }
    }

    #[test]
    fn the_api_path_is_the_default() {
        for text in ["http://h:5051", "http://h:5051/"] {
            assert_eq!(text.parse::<AgentEndpoint>().unwrap().path(), "/api/v1");
        }
    }

    #[test]
    fn what_is_wrong_is_said_with_what_to_do() {
        for (text, reason) in [
            ("", "must begin with http://"),
            ("localhost:5051", "must begin with http://"),
            ("unix://run/agent.sock", "must be absolute"),
            ("unix:///", "must be absolute"),
            ("http://host", "port is missing"),
            ("http://host:0", "1 to 65535"),
            ("http://host:70000", "1 to 65535"),
            ("http://:5051", "host is not valid"),
            ("http://ho%st:5051", "host is not valid"),
            ("http://::1:5051", "in brackets"),
            ("http://[::g]:5051", "IPv6"),
            ("http://user:secret@h:5051", "credentials"),
            ("http://h:5051/a b", "spaces"),
            ("http://h:5051/a?b", "path is not valid"),
        ] {
            let error = text.parse::<AgentEndpoint>().unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }

    proptest::proptest! {
        #[test]
        fn what_parses_prints_as_itself(text in "(http|https|unix)://[a-z0-9/:.\\[\\]-]{0,30}") {
            if let Ok(endpoint) = text.parse::<AgentEndpoint>() {
                let again: AgentEndpoint = endpoint.to_string().parse().unwrap();
                proptest::prop_assert_eq!(again, endpoint);
            }
        }
    }
}
