//! Into an engine's create request.

use longshore_engine::ContainerSpec;
use longshore_engine::spec::{Device, DeviceRequest};
use longshore_nri_api::{
    CdiDevice, ContainerAdjustment, Field, LinuxContainerAdjustment, LinuxDevice, Wrapper,
    removed_key,
};

use super::{env, keyed, mounts, namespaces, oom_score, rlimits, seccomp};
use crate::refusal::at;
use crate::resources::{self, When};
use crate::{HostDevices, Judge, NodeKind, Refusal};

/// `spec` as plugins want it.
///
/// # Errors
/// [`Refusal`]: what an engine cannot do.
pub fn engine(
    mut spec: ContainerSpec,
    adjustment: &ContainerAdjustment,
    judge: &Judge<'_>,
    host: &dyn HostDevices,
) -> Result<ContainerSpec, Refusal> {
    let ContainerAdjustment {
        annotations,
        mounts: wanted_mounts,
        env: variables,
        hooks,
        linux,
        rlimits: limits,
        cdi_devices: cdi,
        args,
    } = adjustment;
    let label = annotations.keys().find(|key| {
        let gone = removed_key(key).filter(|key| !annotations.contains_key(*key));
        gone.is_some_and(|key| !spec.annotations.contains_key(key) && spec.labels.contains_key(key))
    });
    if let Some(label) = label {
        let why = "it is a label of the container, and stays";
        return Err(judge.refuse(at("annotations", Field::Annotations), label, why));
    }
    keyed(&mut spec.annotations, annotations);
    mounts::engine(&mut spec, wanted_mounts, judge)?;
    let removed = env(&mut spec.env, variables);
    spec.unset_env.extend(removed);
    spec.unset_env
        .retain(|name| spec.env.iter().all(|variable| variable.name != *name));
    if let Some(hooks) = hooks.as_ref().filter(|hooks| **hooks != Default::default()) {
        let path = super::process::first_hook(hooks);
        let why = "an engine runs no OCI hooks of a single container";
        return Err(judge.refuse(at("hooks", Field::OciHooks), path, why));
    }
    if !args.is_empty() {
        // All words, in place of the image's entrypoint and its arguments.
        spec.entrypoint = Some(args.clone());
        spec.cmd = None;
    }
    rlimits(&mut spec.resources.ulimits, limits, judge)?;
    if spec
        .resources
        .ulimits
        .iter()
        .any(|limit| limit.name == "as")
    {
        let why = "an engine does not know it";
        return Err(judge.refuse(at("rlimits", Field::Rlimits), "RLIMIT_AS", why));
    }
    cdi_devices(&mut spec, cdi);
    if let Some(wanted) = linux {
        self::linux(&mut spec, wanted, judge, host)?;
    }
    Ok(spec)
}

fn linux(
    spec: &mut ContainerSpec,
    wanted: &LinuxContainerAdjustment,
    judge: &Judge<'_>,
    host: &dyn HostDevices,
) -> Result<(), Refusal> {
    let LinuxContainerAdjustment {
        devices: nodes,
        resources,
        cgroups_path,
        oom_score_adj,
        io_priority,
        seccomp_policy,
        namespaces: wanted_namespaces,
        sysctl,
        net_devices,
        scheduler,
        rdt,
        memory_policy,
    } = wanted;
    devices(spec, nodes, judge, host)?;
    if let Some(wanted) = resources {
        resources::apply(&mut spec.resources, wanted, judge, When::Creation)?;
    }
    if !cgroups_path.is_empty() {
        // Of systemd's form SLICE:PREFIX:NAME the slice; the engine names what is below.
        let parent = cgroups_path.split(':').next().unwrap_or_default();
        spec.cgroup_parent = Some(parent.to_owned());
    }
    if let Some(score) = oom_score(oom_score_adj.as_ref(), judge)? {
        spec.oom_score_adj = Some(score);
    }
    let refuse = |name, field, key: &str, why: &str| Err(judge.refuse(at(name, field), key, why));
    if io_priority.is_some() {
        let why = "an engine sets no I/O priority";
        return refuse("linux.io_priority", Field::IoPriority, "", why);
    }
    if let Some(policy) = seccomp_policy {
        seccomp::engine(spec, policy);
    }
    namespaces::engine(spec, wanted_namespaces, judge)?;
    keyed(&mut spec.sysctls, sysctl);
    // What is only removed is not there: an engine moves none.
    if let Some(device) = net_devices.keys().find(|key| removed_key(key).is_none()) {
        let why = "an engine moves no network devices";
        return refuse("linux.net_devices", Field::LinuxNetDevices, device, why);
    }
    if scheduler.is_some() {
        let why = "an engine sets no scheduling policy";
        return refuse("linux.scheduler", Field::LinuxSched, "", why);
    }
    if let Some(rdt) = rdt {
        let longshore_nri_api::LinuxRdt {
            clos_id,
            schemata,
            enable_monitoring,
            remove: _nothing_to_remove,
        } = rdt;
        let why = "an engine has no RDT";
        if clos_id.is_some() {
            return refuse("linux.rdt.clos_id", Field::RdtClosId, "", why);
        }
        if schemata.is_some() {
            return refuse("linux.rdt.schemata", Field::RdtSchemata, "", why);
        }
        if enable_monitoring.is_some() {
            let name = "linux.rdt.enable_monitoring";
            return refuse(name, Field::RdtEnableMonitoring, "", why);
        }
    }
    if memory_policy.is_some() {
        let why = "an engine sets no memory policy; resources.cpu.mems binds to nodes";
        return refuse("linux.memory_policy", Field::MemoryPolicy, "", why);
    }
    Ok(())
}

fn cdi_devices(spec: &mut ContainerSpec, wanted: &[CdiDevice]) {
    let requests = &mut spec.resources.device_requests;
    for CdiDevice { name } in wanted {
        let is_cdi = |request: &&mut DeviceRequest| request.driver.as_deref() == Some("cdi");
        match requests.iter_mut().find(is_cdi) {
            Some(request) if request.device_ids.contains(name) => {}
            Some(request) => request.device_ids.push(name.clone()),
            None => requests.push(DeviceRequest {
                driver: Some("cdi".to_owned()),
                device_ids: vec![name.clone()],
                ..DeviceRequest::default()
            }),
        }
    }
}

/// An engine takes a node of the host by its path, with the owner and the permissions that it has there.
fn devices(
    spec: &mut ContainerSpec,
    wanted: &[LinuxDevice],
    judge: &Judge<'_>,
    host: &dyn HostDevices,
) -> Result<(), Refusal> {
    let all = &mut spec.resources.devices;
    for path in wanted.iter().filter_map(|device| removed_key(&device.path)) {
        all.retain(|device| device.path_in_container != path);
    }
    for device in wanted
        .iter()
        .filter(|device| removed_key(&device.path).is_none())
    {
        let added = one_device(device, host)
            .map_err(|why| judge.refuse(at("linux.devices", Field::Devices), &device.path, why))?;
        all.retain(|known| known.path_in_container != added.path_in_container);
        all.push(added);
    }
    Ok(())
}

fn one_device(device: &LinuxDevice, host: &dyn HostDevices) -> Result<Device, String> {
    let LinuxDevice {
        path,
        r#type,
        major,
        minor,
        file_mode,
        uid,
        gid,
    } = device;
    let kind = match r#type.as_str() {
        "c" | "u" => NodeKind::Char,
        "b" => NodeKind::Block,
        other => {
            return Err(format!(
                "an engine takes devices of the types c and b, not {other:?}"
            ));
        }
    };
    let is_it = |path: &String| {
        let node = host.at(path);
        node.is_some_and(|node| (node.kind, node.major, node.minor) == (kind, *major, *minor))
    };
    let found = Some(path.clone()).filter(is_it);
    let found = found.or_else(|| host.find(kind, *major, *minor).filter(is_it));
    let node = found.and_then(|path| Some((host.at(&path)?, path)));
    let Some((node, path_on_host)) = node else {
        return Err(format!(
            "an engine takes a node of this host, and none with the numbers {major}:{minor} was found"
        ));
    };
    // Only the permission bits: the others are the type.
    let mode = file_mode.get().map(|mode| mode & 0o7777);
    let other = [
        ("mode", mode.is_some_and(|mode| mode != node.mode)),
        ("owner", uid.get().is_some_and(|uid| uid != node.uid)),
        ("group", gid.get().is_some_and(|gid| gid != node.gid)),
    ];
    if let Some((what, _)) = other.iter().find(|(_, differs)| *differs) {
        return Err(format!(
            "an engine gives it the {what} of {path_on_host}, which is another one; leave it out"
        ));
    }
    let can = |bits: u32| mode.is_none_or(|mode| mode & bits != 0);
    let mut permissions = String::new();
    for (letter, has) in [
        ('r', can(0o444)),
        ('w', can(0o222)),
        ('m', kind == NodeKind::Block),
    ] {
        if has {
            permissions.push(letter);
        }
    }
    if permissions.is_empty() {
        return Err("its mode lets nobody use it".to_owned());
    }
    Ok(Device {
        path_on_host,
        path_in_container: path.clone(),
        permissions,
    })
}
