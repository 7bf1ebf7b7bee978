//! Docker's ways to write a size, a port, a limit.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use longshore_engine::spec::{DeviceRequest, NetworkMode, PortBinding, Protocol, Ulimit};

use super::{Flag, FlagProblem};

/// `512`, `512b`, `64k`, `32M`, `1.5g`: bytes; powers of 1024.
#[must_use]
pub fn bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let text = text
        .strip_suffix("ib")
        .or_else(|| text.strip_suffix('b'))
        .unwrap_or(&text);
    let (number, shift) = match text.char_indices().next_back()? {
        (at, 'k') => (&text[..at], 10),
        (at, 'm') => (&text[..at], 20),
        (at, 'g') => (&text[..at], 30),
        (at, 't') => (&text[..at], 40),
        (at, 'p') => (&text[..at], 50),
        _ => (text, 0),
    };
    if !number.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(1 << shift);
    }
    let (whole, fraction) = number.split_once('.')?;
    if fraction.is_empty()
        || fraction.len() > 9
        || !fraction.bytes().all(|byte| byte.is_ascii_digit())
    {
        return None;
    }
    let scale = 10u64.checked_pow(u32::try_from(fraction.len()).ok()?)?;
    let part = u128::from(fraction.parse::<u64>().ok()?) * (1u128 << shift) / u128::from(scale);
    let whole = whole.parse::<u64>().ok()?.checked_mul(1 << shift)?;
    whole.checked_add(u64::try_from(part).ok()?)
}

/// `[[ip:]hostport[-end]:]containerport[-end][/proto]`, with an IPv6 address in brackets.
///
/// # Errors
/// What is wrong with it.
pub fn port(text: &str) -> Result<Vec<PortBinding>, &'static str> {
    let (rest, protocol) = protocol(text)?;
    let (host, container) = rest
        .rsplit_once(':')
        .map_or(("", rest), |(host, port)| (host, port));
    let container = range(container)?;
    let (ip, host_ports) = match host.rsplit_once(':') {
        Some((ip, ports)) => (Some(ip), ports),
        // `ip:` alone would be `ip::port`.
        None => (None, host),
    };
    let host_ip = match ip {
        None | Some("") => None,
        Some(ip) => {
            let bare = ip
                .strip_prefix('[')
                .and_then(|ip| ip.strip_suffix(']'))
                .unwrap_or(ip);
            Some(bare.parse::<IpAddr>().map_err(|_| "its address is none")?)
        }
    };
    let host_ports = match host_ports {
        "" => None,
        ports => Some(range(ports)?),
    };
    let count = container.clone().count();
    if host_ports
        .as_ref()
        .is_some_and(|ports| ports.clone().count() != count)
    {
        return Err("the ranges of the host and of the container differ in length");
    }
    let mut host_ports = host_ports.into_iter().flatten();
    Ok(container
        .map(|container_port| PortBinding {
            container_port,
            protocol,
            host_ip,
            host_port: host_ports.next(),
        })
        .collect())
}

pub(super) fn expose(flag: &Flag<'_>) -> Result<Vec<(u16, Protocol)>, FlagProblem> {
    let parse = || -> Result<Vec<_>, &'static str> {
        let (ports, protocol) = protocol(flag.value)?;
        Ok(range(ports)?.map(|port| (port, protocol)).collect())
    };
    parse().map_err(|problem| flag.wrong(problem))
}

fn protocol(text: &str) -> Result<(&str, Protocol), &'static str> {
    match text.split_once('/') {
        None => Ok((text, Protocol::Tcp)),
        Some((rest, protocol)) => {
            let known =
                Protocol::parse(protocol).ok_or("its protocol is none of tcp, udp and sctp")?;
            Ok((rest, known))
        }
    }
}

fn range(text: &str) -> Result<RangeInclusive<u16>, &'static str> {
    let one = |text: &str| match text.parse::<u16>() {
        Ok(0) | Err(_) => Err("a port is one of 1 to 65535"),
        Ok(port) => Ok(port),
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let range = one(first)?..=one(last)?;
    if range.is_empty() {
        Err("its range of ports runs backwards")
    } else {
        Ok(range)
    }
}

/// A number of processors with up to nine decimals.
pub(super) fn nano_cpus(flag: &Flag<'_>) -> Result<u64, FlagProblem> {
    const NANO: u64 = 1_000_000_000;
    let wrong = || flag.wrong("it must be a number of processors, as 1.5");
    let (whole, fraction) = flag.value.split_once('.').unwrap_or((flag.value, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return Err(wrong());
    }
    let whole = whole
        .parse::<u64>()
        .ok()
        .and_then(|whole| whole.checked_mul(NANO));
    let fraction = format!("{fraction:0<9}").parse::<u64>().ok();
    let total = whole
        .zip(fraction)
        .and_then(|(whole, fraction)| whole.checked_add(fraction));
    total.filter(|nanos| *nanos > 0).ok_or_else(wrong)
}

/// `name=soft[:hard]`.
pub(super) fn ulimit(flag: &Flag<'_>) -> Result<Ulimit, FlagProblem> {
    let wrong = || flag.wrong("it must be NAME=SOFT[:HARD], as nofile=1024:4096");
    let (name, limits) = flag.value.split_once('=').ok_or_else(wrong)?;
    let (soft, hard) = limits.split_once(':').unwrap_or((limits, limits));
    let one = |text: &str| text.parse::<i64>().ok().filter(|limit| *limit >= -1);
    let (soft, hard) = one(soft).zip(one(hard)).ok_or_else(wrong)?;
    let known = name.bytes().all(|byte| byte.is_ascii_lowercase()) && !name.is_empty();
    if !known {
        return Err(wrong());
    }
    if hard != -1 && (soft == -1 || soft > hard) {
        return Err(flag.wrong("its soft limit is above the hard one"));
    }
    Ok(Ulimit {
        name: name.to_owned(),
        soft,
        hard,
    })
}

/// `all`, a number, or `device=ID[,ID]`.
pub(super) fn gpus(flag: &Flag<'_>) -> Result<DeviceRequest, FlagProblem> {
    let mut request = DeviceRequest {
        capabilities: vec![vec!["gpu".to_owned()]],
        ..DeviceRequest::default()
    };
    let value = flag.value.trim_matches('"');
    if let Some(ids) = value.strip_prefix("device=") {
        request.device_ids = ids
            .split(',')
            .filter(|id| !id.is_empty())
            .map(str::to_owned)
            .collect();
        if request.device_ids.is_empty() {
            return Err(flag.wrong("it names no device"));
        }
    } else if value == "all" {
        request.count = Some(-1);
    } else {
        let count = value.parse::<i64>().ok().filter(|count| *count > 0);
        request.count =
            Some(count.ok_or_else(|| flag.wrong("it must be all, a number, or device=ID"))?);
    }
    Ok(request)
}

pub(super) fn network(flag: &Flag<'_>) -> Result<NetworkMode, FlagProblem> {
    match flag.value {
        "" => Err(flag.wrong("it needs a value")),
        "default" => Ok(NetworkMode::Default),
        "host" => Ok(NetworkMode::Host),
        "none" => Ok(NetworkMode::None),
        "bridge" => Ok(NetworkMode::Bridge),
        name => match name.split_once(':') {
            Some(("container", id)) if !id.is_empty() => Ok(NetworkMode::Container(id.to_owned())),
            Some(_) => Err(flag.wrong("it is no network")),
            None if name.contains([',', '=']) => {
                Err(flag.wrong("name the network alone; use ip and network-alias"))
            }
            None => Ok(NetworkMode::Named(name.to_owned())),
        },
    }
}
