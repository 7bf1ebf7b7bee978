//! Answers as engines write them: members may be absent, null, or of a type of Podman's own.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

/// Null is as absent.
fn nothing<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(
    from: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// A list of words, which some engines give as one word.
#[derive(Deserialize)]
#[serde(untagged)]
enum Words {
    Many(Vec<String>),
    One(String),
}

fn words<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    Ok(match Option::deserialize(from)? {
        Some(Words::Many(words)) => words,
        Some(Words::One(word)) if !word.is_empty() => vec![word],
        _ => Vec::new(),
    })
}

/// A moment as text or as seconds.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Moment {
    Seconds(i64),
    Text(String),
}

macro_rules! answer {
    ($(#[$meta:meta])* $name:ident { $($(#[$attribute:meta])* $field:ident: $type:ty = $key:literal),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Default, Deserialize)]
        #[serde(default)]
        pub(super) struct $name {
            $($(#[$attribute])* #[serde(rename = $key, deserialize_with = "nothing")] pub(super) $field: $type,)*
        }
    };
}

answer!(Version {
    version: String = "Version",
    os: String = "Os",
    arch: String = "Arch",
    components: Vec<Component> = "Components",
});
answer!(Component {
    name: String = "Name",
});

answer!(Created {
    id: String = "Id",
    warnings: Vec<String> = "Warnings",
});
answer!(Warnings {
    warnings: Vec<String> = "Warnings",
});
answer!(Waited {
    code: i64 = "StatusCode",
    error: Option<WaitError> = "Error",
});
answer!(WaitError {
    message: String = "Message",
});

answer!(Container {
    id: String = "Id",
    name: String = "Name",
    created: Option<Moment> = "Created",
    image: String = "Image",
    state: State = "State",
    restart_count: i64 = "RestartCount",
    config: Config = "Config",
    host: HostConfig = "HostConfig",
    log_path: String = "LogPath",
    network: NetworkSettings = "NetworkSettings",
    mounts: Vec<MountPoint> = "Mounts",
});
answer!(State {
    status: String = "Status",
    pid: i64 = "Pid",
    exit_code: i64 = "ExitCode",
    oom_killed: bool = "OOMKilled",
    error: String = "Error",
    started_at: String = "StartedAt",
    finished_at: String = "FinishedAt",
    health: Option<Health> = "Health",
});
answer!(Health {
    status: String = "Status",
});
answer!(HostConfig {
    network_mode: String = "NetworkMode",
    log: LogConfig = "LogConfig",
});
answer!(LogConfig {
    driver: String = "Type",
});
answer!(NetworkSettings {
    sandbox_key: String = "SandboxKey",
    networks: BTreeMap<String, Option<Network>> = "Networks",
    ports: BTreeMap<String, Option<Vec<Port>>> = "Ports",
});
answer!(Network {
    id: String = "NetworkID",
    ipv4: String = "IPAddress",
    ipv6: String = "GlobalIPv6Address",
    gateway: String = "Gateway",
    mac_address: String = "MacAddress",
    aliases: Vec<String> = "Aliases",
});
answer!(Port {
    ip: String = "HostIp",
    port: String = "HostPort",
});
answer!(MountPoint {
    kind: String = "Type",
    name: String = "Name",
    source: String = "Source",
    destination: String = "Destination",
    writable: bool = "RW",
    propagation: String = "Propagation",
});

/// `Config` of a container or of an image.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct Config {
    #[serde(deserialize_with = "nothing")]
    pub(super) image: String,
    #[serde(deserialize_with = "nothing")]
    pub(super) labels: BTreeMap<String, String>,
    #[serde(deserialize_with = "nothing")]
    pub(super) env: Vec<String>,
    #[serde(deserialize_with = "words")]
    pub(super) entrypoint: Vec<String>,
    #[serde(deserialize_with = "words")]
    pub(super) cmd: Vec<String>,
    #[serde(deserialize_with = "nothing")]
    pub(super) working_dir: String,
    #[serde(deserialize_with = "nothing")]
    pub(super) user: String,
    #[serde(deserialize_with = "nothing")]
    pub(super) tty: bool,
    pub(super) stop_signal: Option<serde_json::Value>,
    pub(super) stop_timeout: Option<i64>,
    #[serde(deserialize_with = "nothing")]
    pub(super) volumes: BTreeMap<String, serde::de::IgnoredAny>,
    #[serde(deserialize_with = "nothing")]
    pub(super) exposed_ports: BTreeMap<String, serde::de::IgnoredAny>,
    #[serde(deserialize_with = "nothing")]
    pub(super) healthcheck: Healthcheck,
}
answer!(Healthcheck {
    test: Vec<String> = "Test",
});

answer!(Image {
    id: String = "Id",
    tags: Vec<String> = "RepoTags",
    digests: Vec<String> = "RepoDigests",
    created: Option<Moment> = "Created",
    size: i64 = "Size",
    os: String = "Os",
    arch: String = "Architecture",
    config: Config = "Config",
});

answer!(Summary {
    id: String = "Id",
    names: Vec<String> = "Names",
    image: String = "Image",
    state: String = "State",
    labels: BTreeMap<String, String> = "Labels",
    created: Option<Moment> = "Created",
});

answer!(ExecCreated { id: String = "Id" });
answer!(ExecInspect {
    running: bool = "Running",
    exit_code: Option<i64> = "ExitCode",
    pid: i64 = "Pid",
    container: String = "ContainerID",
});

answer!(EventMessage {
    kind: String = "Type",
    action: String = "Action",
    actor: Actor = "Actor",
    time_nano: i64 = "timeNano",
    time: i64 = "time",
});
answer!(Actor {
    id: String = "ID",
    attributes: BTreeMap<String, Option<String>> = "Attributes",
});

answer!(PullMessage {
    status: String = "status",
    id: String = "id",
    progress: Progress = "progressDetail",
    error: String = "error",
    detail: PullError = "errorDetail",
});
answer!(Progress {
    current: u64 = "current",
    total: u64 = "total",
});
answer!(PullError {
    message: String = "message",
});
