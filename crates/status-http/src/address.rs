//! Where it is listened: loopback unless something else is said.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use crate::StatusHttpError;

/// An address and port to listen on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListenAddress(SocketAddr);

impl ListenAddress {
    /// As the system wants it.
    #[must_use]
    pub fn socket(self) -> SocketAddr {
        self.0
    }

    /// Whether others than this machine can reach it.
    #[must_use]
    pub fn is_open(self) -> bool {
        !self.0.ip().to_canonical().is_loopback()
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Reads `PORT` or `:PORT` (loopback), or `ADDRESS:PORT`. Names of hosts are none: what they stand for may change.
///
/// # Errors
/// [`StatusHttpError::Address`].
pub fn parse_address(text: &str) -> Result<ListenAddress, StatusHttpError> {
    let refused = |reason| StatusHttpError::Address {
        text: text.to_owned(),
        reason,
    };
    let bare = text.strip_prefix(':').unwrap_or(text);
    if !bare.is_empty() && bare.bytes().all(|byte| byte.is_ascii_digit()) {
        let port = bare
            .parse()
            .map_err(|_| refused("a port is at most 65535"))?;
        return Ok(ListenAddress(SocketAddr::new(
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            port,
        )));
    }
    if let Some(port) = text.strip_prefix("localhost:") {
        let port = port
            .parse()
            .map_err(|_| refused("a port is a number up to 65535"))?;
        return Ok(ListenAddress(SocketAddr::new(
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            port,
        )));
    }
    let parsed = text.parse();
    parsed
        .map(ListenAddress)
        .map_err(|_| refused("an address and a port are wanted"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_loopback() {
        for (text, address, open) in [
            ("9273", "127.0.0.1:9273", false),
            (":9273", "127.0.0.1:9273", false),
            ("localhost:80", "127.0.0.1:80", false),
            ("127.8.0.1:1", "127.8.0.1:1", false),
            ("[::1]:9273", "[::1]:9273", false),
            ("[::ffff:127.0.0.1]:1", "[::ffff:127.0.0.1]:1", false),
            ("0.0.0.0:9273", "0.0.0.0:9273", true),
            ("[::]:9273", "[::]:9273", true),
            ("10.0.0.7:9273", "10.0.0.7:9273", true),
        ] {
            let parsed = parse_address(text).unwrap();
            assert_eq!(
                (parsed.to_string().as_str(), parsed.is_open()),
                (address, open),
                "{text}"
            );
        }
        for bad in [
            "",
            ":",
            "65536",
            ":-1",
            "node:9273",
            "127.0.0.1",
            "::1:x",
            "http://127.0.0.1:1",
            "localhost:",
        ] {
            let error = parse_address(bad).unwrap_err().to_string();
            assert!(error.contains("write \"9273\""), "{bad}: {error}");
        }
    }
}
