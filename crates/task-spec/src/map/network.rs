//! The network, its ports, its resolvers, the host name.

use longshore_engine::ContainerSpec;
use longshore_engine::spec::{NetworkMode, PortBinding, Protocol};
use longshore_mesos_api::v1::container_info::DockerInfo;
use longshore_mesos_api::v1::container_info::docker_info::{Network, PortMapping};
use longshore_mesos_api::v1::network_info::IpAddress;
use longshore_mesos_api::v1::{ContainerInfo, NetworkInfo, TaskInfo};

use crate::error::{missing, refused};
use crate::{TaskContext, TaskSpecError};

pub(super) fn map(
    info: &ContainerInfo,
    docker: &DockerInfo,
    task: &TaskInfo,
    spec: &mut ContainerSpec,
) -> Result<(), TaskSpecError> {
    // The default of the message is HOST, and an unknown number is not.
    let kind = docker.network.map_or(Ok(Network::Host), Network::try_from);
    let kind = kind.map_err(|_| {
        let number = docker.network.unwrap_or_default();
        refused(
            "container.docker.network",
            number,
            "it is none of HOST, BRIDGE, NONE and USER",
        )
    })?;
    spec.network = match kind {
        Network::Host => NetworkMode::Host,
        Network::Bridge => NetworkMode::Bridge,
        Network::None => NetworkMode::None,
        Network::User => NetworkMode::Named(user_network(info)?),
    };
    for (index, network) in info.network_infos.iter().enumerate() {
        network_info(index, network, kind, spec)?;
    }
    spec.hostname.clone_from(&info.hostname);
    for (index, mapping) in docker.port_mappings.iter().enumerate() {
        let binding = port(index, mapping, task)?;
        if spec.ports.contains(&binding) {
            return Err(refused(
                format!("container.docker.port_mappings[{index}]"),
                format!("{} to {}", mapping.host_port, mapping.container_port),
                "it is there twice",
            ));
        }
        spec.ports.push(binding);
    }
    Ok(())
}

/// Once the parameters have had their say: what depends on the network that it has become.
pub(super) fn finish(
    info: &ContainerInfo,
    docker: &DockerInfo,
    context: &TaskContext,
    spec: &mut ContainerSpec,
) -> Result<(), TaskSpecError> {
    let outside = matches!(
        spec.network,
        NetworkMode::Host | NetworkMode::None | NetworkMode::Container(_)
    );
    if outside && let Some(mapping) = docker.port_mappings.first() {
        return Err(refused(
            "container.docker.port_mappings[0]",
            format!("{}:{}", mapping.host_port, mapping.container_port),
            format!(
                "a container in the network {:?} has no ports of its own",
                shown(&spec.network)
            ),
        ));
    }
    if outside && (!spec.ports.is_empty() || spec.publish_all_ports) {
        return Err(refused(
            "container.docker.parameters",
            "publish",
            format!(
                "a container in the network {:?} has no ports of its own: leave the port out, or take another network",
                shown(&spec.network)
            ),
        ));
    }
    if matches!(spec.network, NetworkMode::Host)
        && let Some(name) = &info.hostname
    {
        return Err(refused(
            "container.hostname",
            name,
            "a container in the host's network has the host's name",
        ));
    }
    let own = !spec.dns.is_empty() || !spec.dns_search.is_empty() || !spec.dns_options.is_empty();
    let default = match &spec.network {
        _ if own => None,
        NetworkMode::Bridge => context.default_dns.bridge(),
        NetworkMode::Named(name) => context.default_dns.user(name),
        _ => None,
    };
    if let Some(dns) = default {
        spec.dns.clone_from(&dns.nameservers);
        spec.dns_search.clone_from(&dns.search);
        spec.dns_options.clone_from(&dns.options);
    }
    Ok(())
}

fn shown(network: &NetworkMode) -> String {
    network.to_api().unwrap_or_else(|| "default".to_owned())
}

fn user_network(info: &ContainerInfo) -> Result<String, TaskSpecError> {
    let field = "container.network_infos";
    let [network] = info.network_infos.as_slice() else {
        let count = info.network_infos.len();
        return Err(refused(
            field,
            count,
            "container.docker.network is USER: exactly one is needed, with the name",
        ));
    };
    match network.name.as_deref() {
        None | Some("") => Err(missing(
            format!("{field}[0].name"),
            "container.docker.network is USER: name it",
        )),
        // These have networks of their own kind, and an engine would take them for those.
        Some(name @ ("host" | "bridge" | "none" | "default")) => Err(refused(
            format!("{field}[0].name"),
            name,
            "that is no user network: write it as container.docker.network",
        )),
        Some(name) if name.contains([':', '\0']) => Err(refused(
            format!("{field}[0].name"),
            name,
            "that is no name of a network",
        )),
        Some(name) => Ok(name.to_owned()),
    }
}

/// What a network can be asked for beside its name. Nothing is passed over.
fn network_info(
    index: usize,
    network: &NetworkInfo,
    kind: Network,
    spec: &mut ContainerSpec,
) -> Result<(), TaskSpecError> {
    let field = |name: &str| format!("container.network_infos[{index}].{name}");
    if let Some(name) = &network.name
        && kind != Network::User
    {
        return Err(refused(
            field("name"),
            name,
            format!(
                "container.docker.network is {}: set it to USER",
                kind.as_str_name()
            ),
        ));
    }
    if let Some(group) = network.groups.first() {
        return Err(refused(
            field("groups"),
            group,
            "an engine has no groups of networks",
        ));
    }
    if let Some(label) = network
        .labels
        .as_ref()
        .and_then(|labels| labels.labels.first())
    {
        return Err(refused(
            field("labels"),
            &label.key,
            "an engine puts no labels on a container's network",
        ));
    }
    if let Some(mapping) = network.port_mappings.first() {
        return Err(refused(
            field("port_mappings"),
            format!("{}:{}", mapping.host_port, mapping.container_port),
            "write it as container.docker.port_mappings",
        ));
    }
    for address in &network.ip_addresses {
        // Without an address it asks for any of that protocol, which every network gives.
        if let Some(text) = &address.ip_address {
            static_address(&field("ip_addresses"), text, address, kind, spec)?;
        }
    }
    Ok(())
}

fn static_address(
    field: &str,
    text: &str,
    address: &IpAddress,
    kind: Network,
    spec: &mut ContainerSpec,
) -> Result<(), TaskSpecError> {
    use longshore_mesos_api::v1::network_info::Protocol;
    use std::net::IpAddr;
    if kind != Network::User {
        return Err(refused(
            field,
            text,
            "only a user network gives an address that is asked for",
        ));
    }
    let parsed: IpAddr = text
        .parse()
        .map_err(|_| refused(field, text, "it is no address"))?;
    let named = address.protocol.map(Protocol::try_from);
    let (slot, wanted) = match parsed {
        IpAddr::V4(_) => (&mut spec.endpoint.ipv4_address, Protocol::IPv4),
        IpAddr::V6(_) => (&mut spec.endpoint.ipv6_address, Protocol::IPv6),
    };
    if named.is_some_and(|named| named != Ok(wanted)) {
        return Err(refused(
            field,
            text,
            "it is not of the protocol that it names",
        ));
    }
    if let Some(first) = slot {
        return Err(refused(
            field,
            text,
            format!("{first} of the same family is asked for too"),
        ));
    }
    *slot = Some(parsed.to_string());
    Ok(())
}

fn port(
    index: usize,
    mapping: &PortMapping,
    task: &TaskInfo,
) -> Result<PortBinding, TaskSpecError> {
    let field = |name: &str| format!("container.docker.port_mappings[{index}].{name}");
    let number = |name: &str, port: u32| match u16::try_from(port) {
        Ok(0) | Err(_) => Err(refused(field(name), port, "it is not one of 1 to 65535")),
        Ok(port) => Ok(port),
    };
    let host_port = number("host_port", mapping.host_port)?;
    let offered = task
        .resources
        .iter()
        .filter(|resource| resource.name == "ports")
        .filter_map(|resource| resource.ranges.as_ref())
        .flat_map(|ranges| &ranges.range)
        .any(|range| (range.begin..=range.end).contains(&u64::from(host_port)));
    if !offered {
        return Err(refused(
            field("host_port"),
            host_port,
            "it is not in the ports that the task has as a resource",
        ));
    }
    let protocol = match mapping.protocol.as_deref() {
        None => Protocol::Tcp,
        Some(text) => Protocol::parse(text)
            .ok_or_else(|| refused(field("protocol"), text, "it is none of tcp, udp and sctp"))?,
    };
    Ok(PortBinding {
        container_port: number("container_port", mapping.container_port)?,
        protocol,
        host_ip: None,
        host_port: Some(host_port),
    })
}
