use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

/// `HostConfig.NetworkMode`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NetworkMode {
    /// The engine's default, which is a bridge unless it was started otherwise.
    #[default]
    Default,
    /// `host`: the host's own network.
    Host,
    /// `none`: a loopback alone.
    None,
    /// `bridge`: the engine's default bridge.
    Bridge,
    /// A network by its name or id.
    Named(String),
    /// `container:ID`: the network of another container.
    Container(String),
}

impl NetworkMode {
    /// The engine's word for it; none for [`Self::Default`].
    #[must_use]
    pub fn to_api(&self) -> Option<String> {
        match self {
            Self::Default => None,
            Self::Host => Some("host".to_owned()),
            Self::None => Some("none".to_owned()),
            Self::Bridge => Some("bridge".to_owned()),
            Self::Named(name) => Some(name.clone()),
            Self::Container(id) => Some(format!("container:{id}")),
        }
    }
}

/// `NetworkingConfig.EndpointsConfig.*`: the container's place in its network. Engines take most of
/// it for a [`NetworkMode::Named`] network only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NetworkEndpoint {
    /// `Aliases`: more names for it in that network.
    pub aliases: Vec<String>,
    /// `IPAMConfig.IPv4Address`.
    pub ipv4_address: Option<String>,
    /// `IPAMConfig.IPv6Address`.
    pub ipv6_address: Option<String>,
    /// `IPAMConfig.LinkLocalIPs`.
    pub link_local_ips: Vec<String>,
    /// `MacAddress`.
    pub mac_address: Option<String>,
    /// `DriverOpts`.
    pub driver_options: BTreeMap<String, String>,
}

/// One port of the container on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortBinding {
    /// The container's port.
    pub container_port: u16,
    /// Its protocol.
    pub protocol: Protocol,
    /// The host's address; otherwise all of them.
    pub host_ip: Option<IpAddr>,
    /// The host's port; otherwise one that is free.
    pub host_port: Option<u16>,
}

/// The protocol of a port.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Protocol {
    /// TCP.
    #[default]
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        })
    }
}

impl Protocol {
    /// From the engine's word for it, in any case.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Tcp, Self::Udp, Self::Sctp]
            .into_iter()
            .find(|known| known.to_string().eq_ignore_ascii_case(text))
    }
}
