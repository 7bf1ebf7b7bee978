//! Gives containers what annotations of their pod ask for, as the device injector of the NRI
//! repository does: devices, mounts, CDI devices, network devices, I/O priority, scheduling,
//! sysctls, memory policy.
//!
//! ```text
//! cargo run -p longshore-nri-stub --example device_injector -- --idx 10 --socket /var/run/nri/nri.sock
//! ```
//!
//! The value of an annotation is YAML. Its key can be narrowed to a container, as in
//! `devices.noderesource.dev/container.db`, or to the containers of the pod with `/pod`:
//!
//! ```text
//! devices.noderesource.dev:           [{path: /dev/nri-null, type: c, major: 1, minor: 3}]
//! mounts.noderesource.dev:            [{source: /home, destination: /host-home, type: bind, options: [bind, ro]}]
//! cdi-devices.noderesource.dev:       [vendor.com/class=device]
//! network-devices.noderesource.dev:   [{hostIf: eth1, name: eth0}]
//! io-priority.noderesource.dev:       {class: IOPRIO_CLASS_BE, priority: 3}
//! scheduling-policy.noderesource.dev: {policy: SCHED_FIFO, priority: 10, flags: [SCHED_FLAG_RESET_ON_FORK]}
//! sysctl.noderesource.dev:            {net.core.somaxconn: "1024"}
//! memory-policy.noderesource.dev:     {mode: MPOL_BIND, nodes: "0-1", flags: [MPOL_F_STATIC_NODES]}
//! ```
//!
//! The old suffix `.nri.io` works as well, except for `sysctl`. A value that cannot be understood
//! fails the creation of the container.

use std::collections::BTreeMap;
use std::process::ExitCode;

use longshore_nri_stub::api::{
    Container, ContainerAdjustment, IoPrioClass, LinuxDevice, LinuxMemoryPolicy, LinuxScheduler,
    LinuxSchedulerFlag, LinuxSchedulerPolicy, Mount, MpolFlag, MpolMode, PodSandbox,
};
use longshore_nri_stub::{HandlerError, plugin};
use serde::Deserialize;
use serde::de::DeserializeOwned;

mod common;

#[derive(Deserialize)]
struct Device {
    path: String,
    r#type: String,
    #[serde(default)]
    major: i64,
    #[serde(default)]
    minor: i64,
    #[serde(default)]
    file_mode: u32,
    #[serde(default)]
    uid: u32,
    #[serde(default)]
    gid: u32,
}

#[derive(Deserialize)]
struct HostMount {
    source: String,
    destination: String,
    #[serde(default)]
    r#type: String,
    #[serde(default)]
    options: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NetDevice {
    host_if: String,
    name: String,
}

#[derive(Deserialize)]
struct IoPriority {
    class: String,
    #[serde(default)]
    priority: i32,
}

#[derive(Deserialize)]
struct Scheduling {
    policy: String,
    #[serde(default)]
    nice: i32,
    #[serde(default)]
    priority: i32,
    #[serde(default)]
    flags: Vec<String>,
    #[serde(default)]
    runtime: u64,
    #[serde(default)]
    deadline: u64,
    #[serde(default)]
    period: u64,
}

#[derive(Deserialize)]
struct MemoryPolicy {
    mode: String,
    #[serde(default)]
    nodes: String,
    #[serde(default)]
    flags: Vec<String>,
}

/// The plugin.
pub(crate) struct Injector;

#[plugin]
impl Injector {
    async fn create_container(
        &self,
        pod: PodSandbox,
        container: Container,
    ) -> Result<ContainerAdjustment, HandlerError> {
        let asked = Asked {
            annotations: &pod.annotations,
            container: &container.name,
        };
        let mut adjustment = ContainerAdjustment::default();
        for device in asked.for_list::<Device>("devices")? {
            adjustment.add_device(device.into());
        }
        for mount in asked.for_list::<HostMount>("mounts")? {
            adjustment.add_mount(mount.into());
        }
        for name in asked.for_list::<String>("cdi-devices")? {
            adjustment.add_cdi_device(name);
        }
        for device in asked.for_list::<NetDevice>("network-devices")? {
            adjustment.add_net_device(device.host_if, device.name);
        }
        if let Some(asked) = asked.for_value::<IoPriority>("io-priority")? {
            let class = known(IoPrioClass::from_str_name, &asked.class)?;
            adjustment.set_io_priority(class, asked.priority);
        }
        if let Some(asked) = asked.for_value::<Scheduling>("scheduling-policy")? {
            adjustment.set_scheduler(asked.try_into()?);
        }
        let sysctls = asked.for_value::<BTreeMap<String, String>>("sysctl")?;
        for (key, value) in sysctls.unwrap_or_default() {
            adjustment.set_sysctl(key, value);
        }
        if let Some(asked) = asked.for_value::<MemoryPolicy>("memory-policy")? {
            adjustment.set_memory_policy(asked.try_into()?);
        }
        if adjustment != ContainerAdjustment::default() {
            common::say(&format_args!("{}/{}: adjusted", pod.name, container.name));
        }
        Ok(adjustment)
    }
}

/// What the annotations of a pod ask for one of its containers.
struct Asked<'a> {
    annotations: &'a BTreeMap<String, String>,
    container: &'a str,
}

impl Asked<'_> {
    /// The narrowest annotation wins, and of two equally narrow ones the one with the new suffix.
    fn text(&self, what: &str) -> Option<&str> {
        let scopes = [
            format!("/container.{}", self.container),
            "/pod".to_owned(),
            String::new(),
        ];
        let suffixes: &[&str] = match what {
            "sysctl" => &["noderesource.dev"],
            _ => &["noderesource.dev", "nri.io"],
        };
        scopes.iter().find_map(|scope| {
            suffixes.iter().find_map(|suffix| {
                self.annotations
                    .get(&format!("{what}.{suffix}{scope}"))
                    .map(String::as_str)
            })
        })
    }

    fn for_value<T: DeserializeOwned>(&self, what: &str) -> Result<Option<T>, HandlerError> {
        let Some(text) = self.text(what) else {
            return Ok(None);
        };
        serde_saphyr::from_str(text)
            .map(Some)
            .map_err(|error| format!("invalid annotation {what} {text:?}: {error}").into())
    }

    fn for_list<T: DeserializeOwned>(&self, what: &str) -> Result<Vec<T>, HandlerError> {
        if self.text(what).is_some_and(str::is_empty) {
            return Ok(Vec::new());
        }
        Ok(self.for_value(what)?.unwrap_or_default())
    }
}

impl From<Device> for LinuxDevice {
    fn from(device: Device) -> Self {
        let given = |value: u32| (value != 0).then_some(value);
        Self {
            path: device.path,
            r#type: device.r#type,
            major: device.major,
            minor: device.minor,
            file_mode: given(device.file_mode).map(Into::into),
            uid: given(device.uid).map(Into::into),
            gid: given(device.gid).map(Into::into),
        }
    }
}

impl From<HostMount> for Mount {
    fn from(mount: HostMount) -> Self {
        Self {
            source: mount.source,
            destination: mount.destination,
            r#type: mount.r#type,
            options: mount.options,
        }
    }
}

impl TryFrom<Scheduling> for LinuxScheduler {
    type Error = HandlerError;

    fn try_from(asked: Scheduling) -> Result<Self, HandlerError> {
        let flags = asked
            .flags
            .iter()
            .map(|flag| known(LinuxSchedulerFlag::from_str_name, flag).map(i32::from));
        Ok(Self {
            policy: known(LinuxSchedulerPolicy::from_str_name, &asked.policy)?.into(),
            nice: asked.nice,
            priority: asked.priority,
            flags: flags.collect::<Result<_, _>>()?,
            runtime: asked.runtime,
            deadline: asked.deadline,
            period: asked.period,
        })
    }
}

impl TryFrom<MemoryPolicy> for LinuxMemoryPolicy {
    type Error = HandlerError;

    fn try_from(asked: MemoryPolicy) -> Result<Self, HandlerError> {
        let flags = asked
            .flags
            .iter()
            .map(|flag| known(MpolFlag::from_str_name, flag).map(i32::from));
        Ok(Self {
            mode: known(MpolMode::from_str_name, &asked.mode)?.into(),
            nodes: asked.nodes,
            flags: flags.collect::<Result<_, _>>()?,
        })
    }
}

fn known<T>(parse: fn(&str) -> Option<T>, name: &str) -> Result<T, HandlerError> {
    parse(name).ok_or_else(|| format!("{name:?} is no name that NRI knows").into())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    common::run(Injector).await
}
