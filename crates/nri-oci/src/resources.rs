use longshore_nri_api::{HugepageLimit, LinuxCpu, LinuxMemory, LinuxPids, LinuxResources, Wrapper};
use oci_spec::runtime::{
    LinuxHugepageLimit, LinuxPids as OciPids, LinuxResources as OciResources, Spec,
};

use crate::keyed::text;
use crate::{ApplyError, device, linux};

/// Applies everything but the classes, for which the runtime's functions are needed.
pub(crate) fn apply(spec: &mut Spec, wanted: &LinuxResources) -> Result<(), ApplyError> {
    let LinuxResources {
        memory,
        cpu,
        hugepage_limits,
        blockio_class: _,
        rdt_class: _,
        unified,
        devices,
        pids,
    } = wanted;
    if let Some(wanted) = memory.filter(|memory| *memory != LinuxMemory::default()) {
        memory_limits(resources(spec), &wanted);
    }
    if let Some(wanted) = cpu.as_ref().filter(|cpu| **cpu != LinuxCpu::default()) {
        cpu_shares(resources(spec), wanted)?;
    }
    if !hugepage_limits.is_empty() {
        hugepages(resources(spec), hugepage_limits)?;
    }
    device::rules(spec, devices)?;
    if !unified.is_empty() {
        const FIELD: &str = "linux.resources.unified";
        let all = resources(spec).unified_mut().get_or_insert_default();
        for (key, value) in unified {
            text(FIELD, key)?;
            text(FIELD, value)?;
            // The names of files below the container's cgroup.
            if key.is_empty() || key.contains('/') || key == ".." || key == "." {
                return Err(ApplyError::invalid(FIELD, key, "is not a file of a cgroup"));
            }
            all.insert(key.clone(), value.clone());
        }
    }
    pids.as_ref().map_or(Ok(()), |pids| pids_limit(spec, *pids))
}

fn resources(spec: &mut Spec) -> &mut OciResources {
    linux::part(spec).resources_mut().get_or_insert_default()
}

/// A limit without a swap limit sets both, so that no swap comes on top.
fn memory_limits(resources: &mut OciResources, wanted: &LinuxMemory) {
    let LinuxMemory {
        limit,
        reservation,
        swap,
        kernel,
        kernel_tcp,
        swappiness,
        disable_oom_killer,
        use_hierarchy,
    } = wanted;
    let memory = resources.memory_mut().get_or_insert_default();
    if let Some(limit) = limit.get() {
        memory.set_limit(Some(limit)).set_swap(Some(limit));
    }
    if swap.is_some() {
        memory.set_swap(swap.get());
    }
    if reservation.is_some() {
        memory.set_reservation(reservation.get());
    }
    if kernel.is_some() {
        memory.set_kernel(kernel.get());
    }
    if kernel_tcp.is_some() {
        memory.set_kernel_tcp(kernel_tcp.get());
    }
    if swappiness.is_some() {
        memory.set_swappiness(swappiness.get());
    }
    if disable_oom_killer.is_some() {
        memory.set_disable_oom_killer(disable_oom_killer.get());
    }
    if use_hierarchy.is_some() {
        memory.set_use_hierarchy(use_hierarchy.get());
    }
}

fn cpu_shares(resources: &mut OciResources, wanted: &LinuxCpu) -> Result<(), ApplyError> {
    let LinuxCpu {
        shares,
        quota,
        period,
        realtime_runtime,
        realtime_period,
        cpus,
        mems,
    } = wanted;
    text("linux.resources.cpu.cpus", cpus)?;
    text("linux.resources.cpu.mems", mems)?;
    let cpu = resources.cpu_mut().get_or_insert_default();
    if shares.is_some() {
        cpu.set_shares(shares.get());
    }
    if quota.is_some() {
        cpu.set_quota(quota.get());
    }
    if period.is_some() {
        cpu.set_period(period.get());
    }
    if realtime_runtime.is_some() {
        cpu.set_realtime_runtime(realtime_runtime.get());
    }
    if realtime_period.is_some() {
        cpu.set_realtime_period(realtime_period.get());
    }
    if !cpus.is_empty() {
        cpu.set_cpus(Some(cpus.clone()));
    }
    if !mems.is_empty() {
        cpu.set_mems(Some(mems.clone()));
    }
    Ok(())
}

/// A limit replaces that of the same page size.
fn hugepages(resources: &mut OciResources, wanted: &[HugepageLimit]) -> Result<(), ApplyError> {
    const FIELD: &str = "linux.resources.hugepage_limits";
    let all = resources.hugepage_limits_mut().get_or_insert_default();
    for HugepageLimit { page_size, limit } in wanted {
        text(FIELD, page_size)?;
        if page_size.is_empty() {
            return Err(ApplyError::invalid(FIELD, page_size, "names nothing"));
        }
        let value = i64::try_from(*limit)
            .map_err(|_| ApplyError::out_of_range(FIELD, limit, "0 to 2^63 - 1 bytes"))?;
        match all.iter_mut().find(|old| old.page_size() == page_size) {
            Some(old) => {
                old.set_limit(value);
            }
            None => {
                let mut new = LinuxHugepageLimit::default();
                new.set_page_size(page_size.clone()).set_limit(value);
                all.push(new);
            }
        }
    }
    Ok(())
}

/// 0 and -1 take the limit away.
fn pids_limit(spec: &mut Spec, LinuxPids { limit }: LinuxPids) -> Result<(), ApplyError> {
    match limit {
        1.. => {
            let mut pids = OciPids::default();
            pids.set_limit(limit);
            resources(spec).set_pids(Some(pids));
        }
        0 | -1 => {
            let linux = spec.linux_mut().as_mut();
            if let Some(resources) = linux.and_then(|linux| linux.resources_mut().as_mut()) {
                resources.set_pids(None);
            }
        }
        _ => {
            return Err(ApplyError::out_of_range(
                "linux.resources.pids",
                limit,
                "-1 (no limit) and more",
            ));
        }
    }
    Ok(())
}
