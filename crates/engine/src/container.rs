use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::Bytes;

use crate::spec::{EnvVar, Protocol};
use crate::time::EngineTime;

/// What `GET /containers/ID/json` says of a container.
///
/// Words of the engine that we do not know are kept as text, never refused; a field that an engine
/// leaves out or sets to null is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContainerInfo {
    /// `Id`.
    pub id: String,
    /// `Name`, without the leading slash.
    pub name: String,
    /// `Created`.
    pub created: Option<EngineTime>,
    /// `Image`: the id of the image.
    pub image_id: String,
    /// `Config.Image`: the reference it was created from.
    pub image: String,
    /// `State`.
    pub state: ContainerState,
    /// `RestartCount`.
    pub restart_count: i64,
    /// `Config.Labels`.
    pub labels: BTreeMap<String, String>,
    /// `Config.Env`.
    pub env: Vec<EnvVar>,
    /// `Config.Entrypoint`.
    pub entrypoint: Vec<String>,
    /// `Config.Cmd`.
    pub cmd: Vec<String>,
    /// `Config.WorkingDir`.
    pub working_dir: String,
    /// `Config.User`.
    pub user: String,
    /// `Config.Tty`.
    pub tty: bool,
    /// `Config.StopSignal`.
    pub stop_signal: Option<String>,
    /// `Config.StopTimeout`, in seconds.
    pub stop_timeout: Option<i64>,
    /// `HostConfig.NetworkMode`.
    pub network_mode: String,
    /// `HostConfig.LogConfig.Type`.
    pub log_driver: String,
    /// `LogPath`: where the engine keeps its log, if in a file.
    pub log_path: Option<String>,
    /// `NetworkSettings.SandboxKey`: a path that names the container's network namespace.
    pub sandbox_key: Option<String>,
    /// `NetworkSettings.Networks`.
    pub networks: BTreeMap<String, NetworkInfo>,
    /// `NetworkSettings.Ports` that are bound.
    pub ports: Vec<PublishedPort>,
    /// `Mounts`.
    pub mounts: Vec<MountInfo>,
    pub(crate) raw: RawJson,
}

/// The answer as it came. It holds secrets, so `Debug` shows nothing of it.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct RawJson(pub(crate) Bytes);

impl std::fmt::Debug for RawJson {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

/// `State` of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContainerState {
    /// `Status`.
    pub status: ContainerStatus,
    /// `Pid` of its first process on the host; none when it does not run.
    pub pid: Option<i32>,
    /// `ExitCode` of its last run; 0 before the first.
    pub exit_code: i64,
    /// `OOMKilled`: a process of it (not always the first one) was killed for lack of memory.
    pub oom_killed: bool,
    /// `Error`: why its last start failed.
    pub error: String,
    /// `StartedAt`; none when it never was.
    pub started_at: Option<EngineTime>,
    /// `FinishedAt`; none when it never did.
    pub finished_at: Option<EngineTime>,
    /// `Health.Status` of the image's own health check: `starting`, `healthy`, `unhealthy`.
    pub health: Option<String>,
}

/// `State.Status`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ContainerStatus {
    /// It was never started.
    Created,
    /// It runs.
    Running,
    /// Its processes are frozen.
    Paused,
    /// It has exited and the engine will start it again.
    Restarting,
    /// It is being removed.
    Removing,
    /// It has exited.
    Exited,
    /// Its removal failed half way.
    Dead,
    /// A word that is none of the above.
    Other(String),
}

impl ContainerStatus {
    /// From the engine's word; Podman's own words are those of Docker that mean the same.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        match text {
            "created" | "configured" | "initialized" => Self::Created,
            "running" | "stopping" => Self::Running,
            "paused" => Self::Paused,
            "restarting" => Self::Restarting,
            "removing" => Self::Removing,
            "exited" | "stopped" => Self::Exited,
            "dead" => Self::Dead,
            other => Self::Other(other.to_owned()),
        }
    }

    /// True when its first process is there: it runs, is paused, or is a word we do not know.
    #[must_use]
    pub fn may_have_process(&self) -> bool {
        matches!(
            self,
            Self::Running | Self::Paused | Self::Restarting | Self::Other(_)
        )
    }
}

/// A container's place in one network.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NetworkInfo {
    /// `NetworkID`.
    pub network_id: String,
    /// `IPAddress`.
    pub ipv4: Option<Ipv4Addr>,
    /// `GlobalIPv6Address`.
    pub ipv6: Option<Ipv6Addr>,
    /// `Gateway`.
    pub gateway: Option<IpAddr>,
    /// `MacAddress`.
    pub mac_address: String,
    /// `Aliases`.
    pub aliases: Vec<String>,
}

/// A port of a container on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PublishedPort {
    /// The container's port.
    pub container_port: u16,
    /// Its protocol.
    pub protocol: Protocol,
    /// `HostIp`.
    pub host_ip: Option<IpAddr>,
    /// `HostPort`.
    pub host_port: u16,
}

/// Something that is mounted into a container.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MountInfo {
    /// `Type`: `bind`, `volume`, `tmpfs`, ..
    pub kind: String,
    /// `Name` of a volume.
    pub name: Option<String>,
    /// `Source` on the host.
    pub source: String,
    /// `Destination` in the container.
    pub destination: String,
    /// `RW`.
    pub writable: bool,
    /// `Propagation`.
    pub propagation: String,
}

impl ContainerInfo {
    /// The engine's whole answer as JSON, with the values in `Config.Env` replaced by `<redacted>`
    /// and those of volume drivers' options too.
    #[must_use]
    pub fn redacted_json(&self) -> String {
        // It was read once already.
        let mut raw = serde_json::from_slice(&self.raw.0).unwrap_or_default();
        redact(&mut raw);
        raw.to_string()
    }
}

const REDACTED: &str = "<redacted>";

/// Podman repeats the command that created the container, and with it the environment.
fn redact(raw: &mut serde_json::Value) {
    let Some(config) = raw.get_mut("Config") else {
        return;
    };
    if let Some(env) = config.get_mut("Env").and_then(|env| env.as_array_mut()) {
        for variable in env {
            let name = variable.as_str().and_then(|text| text.split_once('='));
            if let Some((name, _)) = name {
                *variable = format!("{name}={REDACTED}").into();
            }
        }
    }
    if let Some(command) = config.get_mut("CreateCommand") {
        *command = serde_json::Value::Null;
    }
    if let Some(mounts) = raw
        .get_mut("HostConfig")
        .and_then(|host| host.get_mut("Mounts"))
        .and_then(|mounts| mounts.as_array_mut())
    {
        for mount in mounts {
            let options = mount
                .get_mut("VolumeOptions")
                .and_then(|volume| volume.get_mut("DriverConfig"))
                .and_then(|driver| driver.get_mut("Options"))
                .and_then(|options| options.as_object_mut());
            for value in options.into_iter().flat_map(serde_json::Map::values_mut) {
                *value = REDACTED.into();
            }
        }
    }
}

/// One line of a list of containers.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContainerSummary {
    /// `Id`.
    pub id: String,
    /// `Names`, without the leading slash.
    pub names: Vec<String>,
    /// `Image`, as the user named it.
    pub image: String,
    /// `State`.
    pub status: ContainerStatus,
    /// `Labels`.
    pub labels: BTreeMap<String, String>,
    /// `Created`.
    pub created: Option<EngineTime>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn values_of_the_environment_and_of_volume_drivers_are_redacted() {
        let mut raw = json!({
            "Config": {"Env": ["PATH=/bin", "TOKEN=hunter2", "EMPTY"], "CreateCommand": ["podman", "-e", "TOKEN=hunter2"]},
            "HostConfig": {"Mounts": [{"Type": "volume", "VolumeOptions": {"DriverConfig": {"Options": {"password": "hunter2"}}}}]},
        });
        redact(&mut raw);
        let text = raw.to_string();
        assert!(!text.contains("hunter2"), "{text}");
        assert!(
            text.contains("TOKEN=<redacted>") && text.contains("EMPTY"),
            "{text}"
        );
        for mut odd in [
            json!(null),
            json!([]),
            json!({"Config": null}),
            json!({"Config": {"Env": [1, null]}}),
        ] {
            redact(&mut odd);
        }
    }
}
