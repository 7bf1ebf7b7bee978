//! What a container is to be: plain values, each with its field of the Engine API.

mod env;
mod mount;
mod network;
mod resources;

use std::collections::BTreeMap;
use std::time::Duration;

pub use env::EnvVar;
pub use mount::{Mount, MountKind, Propagation};
pub use network::{NetworkEndpoint, NetworkMode, PortBinding, Protocol};
pub use resources::{Device, DeviceRequest, Resources, Ulimit};

/// A container to be created: the body of `POST /containers/create`.
///
/// The comment of a field names its field of the Engine API. What is left at its default is not
/// sent, so the image's or the engine's own default holds, but for the restart policy: that is always
/// `no`. New fields may be added: write `..ContainerSpec::default()`.
///
/// `Debug` shows no value of the environment, of volume driver options and of
/// [`Self::extra_config`] and [`Self::extra_host_config`].
#[derive(Clone, Default, PartialEq)]
pub struct ContainerSpec {
    /// The container's name (query parameter `name`); the engine invents one where it is absent.
    pub name: Option<String>,
    /// `Image`: a reference or an id. It is not pulled: see [`crate::Engine::pull`].
    pub image: String,
    /// Query parameter `platform`, as `os[/arch[/variant]]`.
    pub platform: Option<String>,
    /// `Entrypoint`. `Some` of an empty list: none, though the image has one.
    pub entrypoint: Option<Vec<String>>,
    /// `Cmd`. `Some` of an empty list is the same as `None`: the image's.
    pub cmd: Option<Vec<String>>,
    /// `Env`. Of two variables with one name the later counts.
    pub env: Vec<EnvVar>,
    /// `Env` without `=`: variables of the image that the container is not to have.
    pub unset_env: Vec<String>,
    /// `Labels`.
    pub labels: BTreeMap<String, String>,
    /// `User`, as `user[:group]`, names or numbers.
    pub user: Option<String>,
    /// `HostConfig.GroupAdd`: additional groups, names or numbers.
    pub group_add: Vec<String>,
    /// `WorkingDir`: absolute.
    pub working_dir: Option<String>,
    /// `Hostname`. An engine refuses it together with the host's network or UTS namespace.
    pub hostname: Option<String>,
    /// `Domainname`.
    pub domain_name: Option<String>,
    /// `Tty`: a terminal as standard output and error; its logs are one raw stream.
    pub tty: bool,
    /// `OpenStdin`: a standard input that stays open; otherwise it is at its end from the start.
    pub open_stdin: bool,
    /// `StopSignal`, as `SIGTERM` or `15`; otherwise the image's, otherwise TERM.
    pub stop_signal: Option<String>,
    /// `StopTimeout`, sent in whole seconds rounded up: what a `stop` without a grace waits.
    pub stop_timeout: Option<Duration>,
    /// `Healthcheck.Test = ["NONE"]`: the image's own health check is not run.
    pub no_healthcheck: bool,

    /// `HostConfig.Mounts`, and `HostConfig.Binds` for what only that can say, see [`Mount`].
    pub mounts: Vec<Mount>,
    /// `HostConfig.VolumeDriver`: of the named volumes whose own driver is not set.
    pub volume_driver: Option<String>,
    /// `HostConfig.VolumesFrom`, as `container[:ro]`.
    pub volumes_from: Vec<String>,
    /// `HostConfig.Tmpfs`: path and options as of mount(8). See also [`MountKind::Tmpfs`].
    pub tmpfs: BTreeMap<String, String>,
    /// `HostConfig.ShmSize`: bytes of `/dev/shm`.
    pub shm_size: Option<u64>,
    /// `HostConfig.ReadonlyRootfs`.
    pub read_only_root: bool,
    /// `HostConfig.StorageOpt`: options of the storage driver.
    pub storage_options: BTreeMap<String, String>,

    /// `HostConfig.NetworkMode`.
    pub network: NetworkMode,
    /// `NetworkingConfig.EndpointsConfig` of the network that [`Self::network`] names.
    pub endpoint: NetworkEndpoint,
    /// `HostConfig.Dns`: addresses of name servers.
    pub dns: Vec<String>,
    /// `HostConfig.DnsSearch`.
    pub dns_search: Vec<String>,
    /// `HostConfig.DnsOptions`.
    pub dns_options: Vec<String>,
    /// `HostConfig.ExtraHosts`, as `name:address`.
    pub extra_hosts: Vec<String>,
    /// `HostConfig.PortBindings`, and `ExposedPorts` with them.
    pub ports: Vec<PortBinding>,
    /// `ExposedPorts` that are not bound.
    pub exposed_ports: Vec<(u16, Protocol)>,
    /// `HostConfig.PublishAllPorts`: every exposed port gets a port of the host.
    pub publish_all_ports: bool,

    /// Limits, shares and devices.
    pub resources: Resources,
    /// `HostConfig.OomScoreAdj`: -1000 to 1000.
    pub oom_score_adj: Option<i32>,
    /// `HostConfig.Init`: a small init as the container's first process, which reaps.
    pub init: Option<bool>,
    /// `HostConfig.Runtime`: the OCI runtime by the engine's name for it.
    pub runtime: Option<String>,
    /// `HostConfig.CgroupParent`.
    pub cgroup_parent: Option<String>,

    /// `HostConfig.Privileged`.
    pub privileged: bool,
    /// `HostConfig.CapAdd`: names with or without `CAP_`, or `ALL`.
    pub cap_add: Vec<String>,
    /// `HostConfig.CapDrop`.
    pub cap_drop: Vec<String>,
    /// `HostConfig.SecurityOpt`, as `no-new-privileges`, `seccomp=..`, `apparmor=..`, `label=..`.
    pub security_options: Vec<String>,
    /// `HostConfig.Sysctls`.
    pub sysctls: BTreeMap<String, String>,
    /// `HostConfig.PidMode`: `host` or `container:ID`.
    pub pid_mode: Option<String>,
    /// `HostConfig.IpcMode`: `none`, `private`, `shareable`, `host` or `container:ID`.
    pub ipc_mode: Option<String>,
    /// `HostConfig.UTSMode`: `host`.
    pub uts_mode: Option<String>,
    /// `HostConfig.UsernsMode`: `host`.
    pub userns_mode: Option<String>,
    /// `HostConfig.CgroupnsMode`: `private` or `host`.
    pub cgroupns_mode: Option<String>,
    /// `HostConfig.MaskedPaths`: in place of the engine's list.
    pub masked_paths: Option<Vec<String>>,
    /// `HostConfig.ReadonlyPaths`: in place of the engine's list.
    pub read_only_paths: Option<Vec<String>>,

    /// `HostConfig.LogConfig`; otherwise the engine's default driver.
    pub log: Option<LogDriver>,
    /// `HostConfig.AutoRemove`: the engine removes the container once it has exited, and with it
    /// the exit status.
    pub auto_remove: bool,
    /// `HostConfig.Annotations`, handed to the OCI runtime. From API 1.43.
    pub annotations: BTreeMap<String, String>,

    /// More members of `HostConfig`, as JSON. One that a field above has set is refused.
    pub extra_host_config: BTreeMap<String, serde_json::Value>,
    /// More members of the body itself. One that a field above has set is refused.
    pub extra_config: BTreeMap<String, serde_json::Value>,
}

/// `HostConfig.LogConfig`: what the engine does with standard output and error.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogDriver {
    /// `Type`: `json-file`, `local`, `journald`, `none`, ..
    pub driver: String,
    /// `Config`: the driver's options (`max-size`, `max-file`, ..).
    pub options: BTreeMap<String, String>,
}

impl ContainerSpec {
    /// A container of `image` with everything else left to the image and the engine.
    #[must_use]
    pub fn new(image: impl Into<String>) -> Self {
        Self {
            image: image.into(),
            ..Self::default()
        }
    }
}

impl std::fmt::Debug for ContainerSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // What tells containers apart in a log; the rest is in the body that is sent.
        f.debug_struct("ContainerSpec")
            .field("name", &self.name)
            .field("image", &self.image)
            .field("entrypoint", &self.entrypoint)
            .field("cmd", &self.cmd)
            .field("env", &self.env)
            .field("labels", &self.labels)
            .field("user", &self.user)
            .field("working_dir", &self.working_dir)
            .field("mounts", &self.mounts)
            .field("network", &self.network)
            .field("ports", &self.ports)
            .field("resources", &self.resources)
            .field("privileged", &self.privileged)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_no_secret() {
        let spec = ContainerSpec {
            env: vec![EnvVar::new("TOKEN", "hunter2")],
            mounts: vec![Mount {
                target: "/data".into(),
                read_only: false,
                kind: MountKind::Volume {
                    name: Some("v".into()),
                    driver: Some("cifs".into()),
                    driver_options: [("password".to_owned(), "hunter2".to_owned())].into(),
                    labels: BTreeMap::new(),
                    no_copy: false,
                    subpath: None,
                },
            }],
            extra_config: [("X".to_owned(), "hunter2".into())].into(),
            extra_host_config: [("X".to_owned(), "hunter2".into())].into(),
            ..ContainerSpec::new("busybox")
        };
        let shown = format!("{spec:?}");
        assert!(
            shown.contains("TOKEN") && shown.contains("password"),
            "{shown}"
        );
        assert!(!shown.contains("hunter2"), "{shown}");
    }
}
