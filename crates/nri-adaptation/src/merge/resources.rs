//! Resources: claims for what is set, and laying it over what is there.

use longshore_nri_api::{
    Conflict, Field, HugepageLimit, LinuxCpu, LinuxMemory, LinuxResources, OwningPlugins,
};

use super::Compat;
use super::keyed::Claimant;

/// Claims everything that `wanted` sets; device rules have no owner.
pub(super) fn claim(
    who: Claimant<'_>,
    wanted: &LinuxResources,
    owners: &mut OwningPlugins,
) -> Result<(), Conflict> {
    for (field, set) in simple_fields(wanted) {
        if set {
            who.claim_simple(owners, field)?;
        }
    }
    for limit in &wanted.hugepage_limits {
        who.claim(owners, Field::HugepageLimits, &limit.page_size, false)?;
    }
    for file in wanted.unified.keys() {
        who.claim(owners, Field::CgroupsUnified, file, false)?;
    }
    Ok(())
}

pub(crate) fn simple_fields(wanted: &LinuxResources) -> [(Field, bool); 18] {
    let memory = wanted.memory.unwrap_or_default();
    let nothing = LinuxCpu::default();
    let cpu = wanted.cpu.as_ref().unwrap_or(&nothing);
    [
        (Field::MemLimit, memory.limit.is_some()),
        (Field::MemReservation, memory.reservation.is_some()),
        (Field::MemSwapLimit, memory.swap.is_some()),
        (Field::MemKernelLimit, memory.kernel.is_some()),
        (Field::MemTcpLimit, memory.kernel_tcp.is_some()),
        (Field::MemSwappiness, memory.swappiness.is_some()),
        (
            Field::MemDisableOomKiller,
            memory.disable_oom_killer.is_some(),
        ),
        (Field::MemUseHierarchy, memory.use_hierarchy.is_some()),
        (Field::CpuShares, cpu.shares.is_some()),
        (Field::CpuQuota, cpu.quota.is_some()),
        (Field::CpuPeriod, cpu.period.is_some()),
        (Field::CpuRealtimeRuntime, cpu.realtime_runtime.is_some()),
        (Field::CpuRealtimePeriod, cpu.realtime_period.is_some()),
        (Field::CpuSetCpUs, !cpu.cpus.is_empty()),
        (Field::CpuSetMems, !cpu.mems.is_empty()),
        (Field::BlockioClass, wanted.blockio_class.is_some()),
        (Field::RdtClass, wanted.rdt_class.is_some()),
        (Field::PidsLimit, wanted.pids.is_some()),
    ]
}

/// Lays what `wanted` sets over `target`; what it does not set stays. Device rules stay out:
/// only adjustments have them, and they add up.
pub(super) fn overlay(wanted: &LinuxResources, target: &mut LinuxResources, compat: Compat) {
    if let Some(memory) = &wanted.memory {
        overlay_memory(memory, target.memory.get_or_insert_default());
    }
    if let Some(cpu) = &wanted.cpu {
        overlay_cpu(cpu, target.cpu.get_or_insert_default());
    }
    for limit in &wanted.hugepage_limits {
        set_hugepages(&mut target.hugepage_limits, limit, compat);
    }
    target.unified.extend(
        wanted
            .unified
            .iter()
            .map(|(file, value)| (file.clone(), value.clone())),
    );
    if wanted.blockio_class.is_some() {
        target.blockio_class.clone_from(&wanted.blockio_class);
    }
    if wanted.rdt_class.is_some() {
        target.rdt_class.clone_from(&wanted.rdt_class);
    }
    if wanted.pids.is_some() {
        target.pids = wanted.pids;
    }
}

/// One limit for each page size; Go appends and leaves the old one beside it.
fn set_hugepages(limits: &mut Vec<HugepageLimit>, limit: &HugepageLimit, compat: Compat) {
    if compat == Compat::Correct {
        limits.retain(|other| other.page_size != limit.page_size);
    }
    limits.push(limit.clone());
}

macro_rules! overlay_set {
    ($from:ident, $to:ident: $($field:ident),*) => {$(
        if $from.$field.is_some() {
            $to.$field = $from.$field;
        }
    )*};
}

fn overlay_memory(from: &LinuxMemory, to: &mut LinuxMemory) {
    overlay_set!(from, to: limit, reservation, swap, kernel, kernel_tcp, swappiness,
        disable_oom_killer, use_hierarchy);
}

fn overlay_cpu(from: &LinuxCpu, to: &mut LinuxCpu) {
    overlay_set!(from, to: shares, quota, period, realtime_runtime, realtime_period);
    for (wanted, target) in [(&from.cpus, &mut to.cpus), (&from.mems, &mut to.mems)] {
        if !wanted.is_empty() {
            target.clone_from(wanted);
        }
    }
}
