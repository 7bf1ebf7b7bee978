//! Answers of the wire as values of ours.

use bytes::Bytes;

use super::wire::{self, Moment};
use crate::container::{
    ContainerInfo, ContainerState, ContainerStatus, ContainerSummary, MountInfo, NetworkInfo,
    PublishedPort, RawJson,
};
use crate::event::Event;
use crate::exec::ExecInfo;
use crate::exit::Exit;
use crate::image::ImageInfo;
use crate::spec::{EnvVar, Protocol};
use crate::time::EngineTime;

impl Moment {
    fn time(&self) -> Option<EngineTime> {
        match self {
            Self::Seconds(seconds) => {
                Some(EngineTime::from_nanos(seconds.checked_mul(1_000_000_000)?))
            }
            Self::Text(text) => EngineTime::parse(text),
        }
    }
}

fn set(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn pid(number: i64) -> Option<i32> {
    i32::try_from(number).ok().filter(|pid| *pid > 0)
}

/// A name of ours begins with no slash.
fn bare(name: &str) -> String {
    name.strip_prefix('/').unwrap_or(name).to_owned()
}

/// Docker writes a name, Podman a number.
fn signal(value: Option<serde_json::Value>) -> Option<String> {
    match value? {
        serde_json::Value::String(text) => set(text),
        serde_json::Value::Number(number) if number.as_i64() != Some(0) => Some(number.to_string()),
        _ => None,
    }
}

fn env(texts: &[String]) -> Vec<EnvVar> {
    texts.iter().map(|text| EnvVar::parse(text)).collect()
}

pub(super) fn container(raw: Bytes, answer: wire::Container) -> ContainerInfo {
    let (config, host) = (answer.config, answer.host);
    let ports = answer.network.ports;
    ContainerInfo {
        id: answer.id,
        name: bare(&answer.name),
        created: answer.created.and_then(|created| created.time()),
        image_id: answer.image,
        image: config.image,
        state: state(answer.state),
        restart_count: answer.restart_count,
        labels: config.labels,
        env: env(&config.env),
        entrypoint: config.entrypoint,
        cmd: config.cmd,
        working_dir: config.working_dir,
        user: config.user,
        tty: config.tty,
        stop_signal: signal(config.stop_signal),
        stop_timeout: config.stop_timeout,
        network_mode: host.network_mode,
        log_driver: host.log.driver,
        log_path: set(answer.log_path),
        sandbox_key: set(answer.network.sandbox_key),
        networks: (answer.network.networks)
            .into_iter()
            .map(|(name, place)| (name, network(place.unwrap_or_default())))
            .collect(),
        ports: ports
            .iter()
            .flat_map(|(port, bindings)| published(port, bindings.as_deref()))
            .collect(),
        mounts: answer.mounts.into_iter().map(mount).collect(),
        raw: RawJson(raw),
    }
}

fn state(state: wire::State) -> ContainerState {
    ContainerState {
        status: ContainerStatus::parse(&state.status),
        pid: pid(state.pid),
        exit_code: state.exit_code,
        oom_killed: state.oom_killed,
        error: state.error,
        started_at: EngineTime::parse(&state.started_at),
        finished_at: EngineTime::parse(&state.finished_at),
        health: state.health.and_then(|health| set(health.status)),
    }
}

fn network(place: wire::Network) -> NetworkInfo {
    NetworkInfo {
        network_id: place.id,
        ipv4: place.ipv4.parse().ok(),
        ipv6: place.ipv6.parse().ok(),
        gateway: place.gateway.parse().ok(),
        mac_address: place.mac_address,
        aliases: place.aliases,
    }
}

/// `"80/tcp": [{"HostIp": "0.0.0.0", "HostPort": "8080"}]`
fn published(port: &str, bindings: Option<&[wire::Port]>) -> Vec<PublishedPort> {
    let (number, protocol) = port.split_once('/').unwrap_or((port, "tcp"));
    let (Ok(container_port), Some(protocol)) = (number.parse(), Protocol::parse(protocol)) else {
        return Vec::new();
    };
    let known = bindings.unwrap_or_default().iter().filter_map(|binding| {
        Some(PublishedPort {
            container_port,
            protocol,
            host_ip: binding.ip.parse().ok(),
            host_port: binding.port.parse().ok()?,
        })
    });
    known.collect()
}

fn mount(mount: wire::MountPoint) -> MountInfo {
    MountInfo {
        kind: mount.kind,
        name: set(mount.name),
        source: mount.source,
        destination: mount.destination,
        writable: mount.writable,
        propagation: mount.propagation,
    }
}

pub(super) fn image(answer: wire::Image) -> ImageInfo {
    let config = answer.config;
    ImageInfo {
        id: answer.id,
        tags: answer.tags,
        digests: answer.digests,
        created: answer.created.and_then(|created| created.time()),
        size: u64::try_from(answer.size).unwrap_or(0),
        os: answer.os,
        arch: answer.arch,
        env: env(&config.env),
        entrypoint: config.entrypoint,
        cmd: config.cmd,
        user: config.user,
        working_dir: config.working_dir,
        labels: config.labels,
        stop_signal: signal(config.stop_signal),
        volumes: config.volumes.into_keys().collect(),
        exposed_ports: config.exposed_ports.into_keys().collect(),
        has_healthcheck: config
            .healthcheck
            .test
            .first()
            .is_some_and(|first| first != "NONE"),
    }
}

pub(super) fn summary(answer: wire::Summary) -> ContainerSummary {
    ContainerSummary {
        id: answer.id,
        names: answer.names.iter().map(|name| bare(name)).collect(),
        image: answer.image,
        status: ContainerStatus::parse(&answer.state),
        labels: answer.labels,
        created: answer.created.and_then(|created| created.time()),
    }
}

pub(super) fn exit(answer: wire::Waited) -> Exit {
    Exit {
        code: answer.code,
        error: answer.error.and_then(|error| set(error.message)),
    }
}

pub(super) fn exec(answer: wire::ExecInspect) -> ExecInfo {
    ExecInfo {
        running: answer.running,
        // Podman says 0 while it runs.
        exit_code: answer.exit_code.filter(|_| !answer.running),
        pid: pid(answer.pid).filter(|_| answer.running),
        container: answer.container,
    }
}

pub(super) fn event(message: wire::EventMessage) -> Event {
    let time = if message.time_nano == 0 {
        message.time.saturating_mul(1_000_000_000)
    } else {
        message.time_nano
    };
    // `exec_create: sh -c ..` and `health_status: healthy`: the latter is a word, the former a
    // command line, which may hold a secret.
    let action = match message.action.split_once(':') {
        Some((word, _)) if word.starts_with("exec_") => word.to_owned(),
        _ => message.action,
    };
    let attributes = message
        .actor
        .attributes
        .into_iter()
        .map(|(name, value)| (name, value.unwrap_or_default()));
    Event {
        kind: message.kind,
        action,
        id: message.actor.id,
        attributes: attributes.collect(),
        time: EngineTime::from_nanos(time),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(json: &str) -> Result<ImageInfo, serde_json::Error> {
        let text = format!(r#"{{"Id":"sha256:1","Config":{json}}}"#);
        serde_json::from_str(&text).map(image)
    }

    /// `Config` is read, whatever `ContainerConfig` an older engine adds.
    #[test]
    fn dx31_an_images_entrypoint_and_environment_are_read_in_every_form() {
        let image = config("{}").unwrap();
        assert!(image.entrypoint.is_empty() && image.env.is_empty());
        let image = config(r#"{"Entrypoint":null,"Env":null}"#).unwrap();
        assert!(image.entrypoint.is_empty() && image.env.is_empty());
        assert!(config("null").unwrap().entrypoint.is_empty());
        let image = config(
            r#"{"Entrypoint":["/bin/sh","-c"],"Env":["A=1","A=2","B=","C"]},"ContainerConfig":{"Env":["X=1"]}"#,
        );
        let image = image.unwrap();
        assert_eq!(image.entrypoint, ["/bin/sh", "-c"]);
        // A name may be there twice: both are told, and it is for whoever uses them to choose.
        let named: Vec<_> = image.env.iter().map(|known| known.name.as_str()).collect();
        assert_eq!(named[..3], ["A", "A", "B"]);
        for wrong in [
            r#"{"Entrypoint":7}"#,
            r#"{"Entrypoint":{"a":1}}"#,
            r#"{"Entrypoint":[1]}"#,
            r#"{"Env":"A=1"}"#,
            r#"{"Env":[1]}"#,
        ] {
            assert!(config(wrong).is_err(), "{wrong}");
        }
    }
}
