//! Into what a process container is made of: a process of this host, with the host's namespaces but that of mounts, below
//! cgroups that the agent makes.

use longshore_engine::Resources;
use longshore_nri_api::{
    CdiDevice, ContainerAdjustment, Field, Hooks, LinuxContainerAdjustment, LinuxDevice, LinuxRdt,
    LinuxResources, Wrapper, removed_key,
};
use longshore_task_spec::hooks::ProcessDraft;

use super::{env, mounts, oom_score, rlimits};
use crate::refusal::{Place, at};
use crate::resources::{self, When};
use crate::{HostDevices, Judge, NodeKind, Refusal};

/// `draft` as plugins want it.
///
/// # Errors
/// [`Refusal`]: what a process container cannot have.
pub fn process(
    mut draft: ProcessDraft,
    adjustment: &ContainerAdjustment,
    judge: &Judge<'_>,
    host: &dyn HostDevices,
) -> Result<ProcessDraft, Refusal> {
    let ContainerAdjustment {
        annotations,
        mounts: wanted_mounts,
        env: variables,
        hooks,
        linux,
        rlimits: limits,
        cdi_devices,
        args,
    } = adjustment;
    if let Some(key) = annotations.keys().next() {
        let why = "there is no OCI runtime that would read it";
        return Err(judge.refuse(at("annotations", Field::Annotations), key, why));
    }
    mounts::process(&mut draft.mounts, wanted_mounts, judge)?;
    // A process has no image that could have more variables.
    let _all_removed = env(&mut draft.env, variables);
    if let Some(hooks) = hooks.as_ref().filter(|hooks| **hooks != Hooks::default()) {
        let why = "there is no OCI runtime that would run it";
        return Err(judge.refuse(at("hooks", Field::OciHooks), first_hook(hooks), why));
    }
    if !args.is_empty() {
        draft.argv.clone_from(args);
    }
    rlimits(&mut draft.rlimits, limits, judge)?;
    if let Some(CdiDevice { name }) = cdi_devices.first() {
        let why = "a process container has the devices of the host";
        return Err(judge.refuse(at("CDI_devices", Field::CdiDevices), name, why));
    }
    if let Some(wanted) = linux {
        self::linux(&mut draft, wanted, judge, host)?;
    }
    Ok(draft)
}

fn linux(
    draft: &mut ProcessDraft,
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
        namespaces,
        sysctl,
        net_devices,
        scheduler,
        rdt,
        memory_policy,
    } = wanted;
    devices(nodes, judge, host)?;
    if let Some(wanted) = resources {
        limits(&mut draft.resources, wanted, judge)?;
    }
    if let Some(score) = oom_score(oom_score_adj.as_ref(), judge)? {
        draft.oom_score_adj = Some(score);
    }
    let refuse = |place: Place, key: &str, why: &str| Err(judge.refuse(place, key, why));
    if !cgroups_path.is_empty() {
        let place = at("linux.cgroups_path", Field::CgroupsPath);
        return refuse(place, cgroups_path, "the agent has cgroups of its own");
    }
    if io_priority.is_some() {
        let place = at("linux.io_priority", Field::IoPriority);
        return refuse(place, "", "the agent sets no I/O priority");
    }
    if seccomp_policy.is_some() {
        let place = at("linux.seccomp_policy", Field::SeccompPolicy);
        return refuse(place, "", "the agent filters no system calls");
    }
    // What is removed is the host's already.
    if let Some(namespace) = namespaces
        .iter()
        .find(|it| removed_key(&it.r#type).is_none())
    {
        let place = at("linux.namespaces", Field::Namespace);
        let why = "a process container has the host's namespaces";
        return refuse(place, &namespace.r#type, why);
    }
    if let Some(key) = sysctl.keys().find(|key| removed_key(key).is_none()) {
        let place = at("linux.sysctl", Field::Sysctl);
        return refuse(place, key, "it would be the host's");
    }
    if let Some(device) = net_devices.keys().find(|key| removed_key(key).is_none()) {
        let place = at("linux.net_devices", Field::LinuxNetDevices);
        let why = "a process container has the host's network";
        return refuse(place, device, why);
    }
    if scheduler.is_some() {
        let place = at("linux.scheduler", Field::LinuxSched);
        return refuse(place, "", "the agent sets no scheduling policy");
    }
    if let Some(rdt) = rdt {
        let LinuxRdt {
            clos_id,
            schemata,
            enable_monitoring,
            remove: _nothing_to_remove,
        } = rdt;
        for (name, field, is_set) in [
            ("linux.rdt.clos_id", Field::RdtClosId, clos_id.is_some()),
            ("linux.rdt.schemata", Field::RdtSchemata, schemata.is_some()),
            (
                "linux.rdt.enable_monitoring",
                Field::RdtEnableMonitoring,
                enable_monitoring.is_some(),
            ),
        ] {
            if is_set {
                return refuse(at(name, field), "", "the agent has no RDT");
            }
        }
    }
    if memory_policy.is_some() {
        let place = at("linux.memory_policy", Field::MemoryPolicy);
        return refuse(place, "", "the agent sets no memory policy");
    }
    Ok(())
}

/// The agent's cgroups limit processors and memory.
fn limits(
    target: &mut Resources,
    wanted: &LinuxResources,
    judge: &Judge<'_>,
) -> Result<(), Refusal> {
    let mut next = target.clone();
    resources::apply(&mut next, wanted, judge, When::Creation)?;
    let of = |name, field| at(name, field);
    for (place, is_changed) in [
        (
            of("linux.resources.memory.swap", Field::MemSwapLimit),
            // A limit of memory brings one of swap along, which is not meant here.
            wanted.memory.as_ref().is_some_and(|memory| {
                memory
                    .swap
                    .get()
                    .is_some_and(|swap| Some(swap) != target.memory_swap)
            }),
        ),
        (
            of("linux.resources.memory.swappiness", Field::MemSwappiness),
            next.memory_swappiness != target.memory_swappiness,
        ),
        (
            of(
                "linux.resources.memory.disable_oom_killer",
                Field::MemDisableOomKiller,
            ),
            next.oom_kill_disable != target.oom_kill_disable,
        ),
        (
            of(
                "linux.resources.cpu.realtime_runtime",
                Field::CpuRealtimeRuntime,
            ),
            next.cpu_realtime_runtime != target.cpu_realtime_runtime,
        ),
        (
            of(
                "linux.resources.cpu.realtime_period",
                Field::CpuRealtimePeriod,
            ),
            next.cpu_realtime_period != target.cpu_realtime_period,
        ),
        (
            of("linux.resources.cpu.cpus", Field::CpuSetCpUs),
            next.cpuset_cpus != target.cpuset_cpus,
        ),
        (
            of("linux.resources.cpu.mems", Field::CpuSetMems),
            next.cpuset_mems != target.cpuset_mems,
        ),
        (
            of("linux.resources.pids", Field::PidsLimit),
            next.pids_limit != target.pids_limit,
        ),
        (
            of("linux.resources.devices", Field::None),
            next.device_cgroup_rules != target.device_cgroup_rules,
        ),
    ] {
        if is_changed {
            let why = "the agent limits processors and memory alone";
            return Err(judge.refuse(place, "", why));
        }
    }
    next.memory_swap = target.memory_swap;
    *target = next;
    Ok(())
}

/// A process sees the host's devices: one that is there under its own path needs nothing.
fn devices(
    wanted: &[LinuxDevice],
    judge: &Judge<'_>,
    host: &dyn HostDevices,
) -> Result<(), Refusal> {
    for device in wanted {
        let refuse = |why: &str| {
            let place = at("linux.devices", Field::Devices);
            Err(judge.refuse(place, &device.path, why))
        };
        let kind = match device.r#type.as_str() {
            "c" | "u" => NodeKind::Char,
            _ => NodeKind::Block,
        };
        if let Some(path) = removed_key(&device.path) {
            if host.at(path).is_some() {
                return refuse("a process container has the devices of the host");
            }
            continue;
        }
        let numbers = (kind, device.major, device.minor);
        let node = host.at(&device.path);
        if node.is_none_or(|node| (node.kind, node.major, node.minor) != numbers) {
            return refuse(
                "a process container has the devices of the host, and this is none there",
            );
        }
    }
    Ok(())
}

/// What names hooks: the first of them.
pub(super) fn first_hook(hooks: &Hooks) -> String {
    let Hooks {
        prestart,
        create_runtime,
        create_container,
        start_container,
        poststart,
        poststop,
    } = hooks;
    [
        prestart,
        create_runtime,
        create_container,
        start_container,
        poststart,
        poststop,
    ]
    .into_iter()
    .flatten()
    .next()
    .map(|hook| hook.path.clone())
    .unwrap_or_default()
}
