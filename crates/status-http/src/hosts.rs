//! Which values of `Host` are ours. A page of somebody else's whose name is made to point here (DNS rebinding) names
//! itself, so names are refused but for our own; addresses cannot be pointed anywhere.

use std::net::IpAddr;

/// The names under which this machine may be asked, beside its addresses and `localhost`.
#[derive(Debug, Clone, Default)]
pub struct Hosts(Vec<String>);

impl Hosts {
    /// These names; case does not matter.
    #[must_use]
    pub fn new(names: impl IntoIterator<Item = String>) -> Self {
        let plain = |name: String| name.trim_end_matches('.').to_ascii_lowercase();
        Self(
            names
                .into_iter()
                .map(plain)
                .filter(|name| !name.is_empty())
                .collect(),
        )
    }

    /// Whether a `Host` of this value is meant for us. Any port is fine.
    #[must_use]
    pub fn allows(&self, host: &str) -> bool {
        let Some(name) = without_port(host) else {
            return false;
        };
        if let Some(inner) = name
            .strip_prefix('[')
            .and_then(|name| name.strip_suffix(']'))
        {
            return inner.parse::<std::net::Ipv6Addr>().is_ok();
        }
        if name.parse::<std::net::Ipv4Addr>().is_ok() {
            return true;
        }
        let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
        name == "localhost" || self.0.contains(&name)
    }
}

/// The host of `HOST`, `HOST:PORT`, `[V6]` or `[V6]:PORT`.
fn without_port(host: &str) -> Option<&str> {
    let end = if host.starts_with('[') {
        host.find(']')? + 1
    } else {
        host.find(':').unwrap_or(host.len())
    };
    let (name, port) = host.split_at(end);
    let port_is_fine = port.is_empty()
        || port
            .strip_prefix(':')
            .is_some_and(|port| port.parse::<u16>().is_ok() && !port.starts_with('+'));
    // The address of a peer is no name of ours, however it is written.
    let bare_v6 = name
        .parse::<IpAddr>()
        .is_ok_and(|address| address.is_ipv6());
    (port_is_fine && !bare_v6 && !name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_our_own_names_are_allowed() {
        let hosts = Hosts::new(["Node7.example.org.".to_owned(), String::new()]);
        for good in [
            "localhost",
            "LOCALHOST:9273",
            "127.0.0.1:9273",
            "10.1.2.3",
            "[::1]:9273",
            "[fe80::1]",
            "node7.example.org:9273",
            "NODE7.EXAMPLE.ORG",
            "localhost.:80",
        ] {
            assert!(hosts.allows(good), "{good}");
        }
        for bad in [
            "",
            ":80",
            "evil.example",
            "evil.example:9273",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "xlocalhost",
            "[::1",
            "[::1]x",
            "[evil]:1",
            "::1",
            "localhost:port",
            "localhost:+80",
            "localhost:80:80",
            "node7.example.org:99999",
            "0x7f.1",
            "user@localhost",
        ] {
            assert!(!hosts.allows(bad), "{bad}");
        }
        assert!(!Hosts::default().allows("."), "no name at all");
    }
}
