use std::collections::BTreeMap;
use std::path::PathBuf;

use longshore_nri_api::{
    LinuxMemoryPolicy, LinuxNamespace, LinuxNetDevice, LinuxRdt, MpolFlag, MpolMode, Wrapper,
};
use oci_spec::runtime::{
    Linux, LinuxBlockIo, LinuxIntelRdt, LinuxMemoryPolicy as OciMemoryPolicy,
    LinuxNamespace as OciNamespace, LinuxNamespaceType, LinuxNetDevice as OciNetDevice,
    MemoryPolicyFlagType, MemoryPolicyModeType, Spec,
};

use crate::ApplyError;
use crate::keyed::{self, Change, change, text};

/// The Linux part of the spec, made empty when there is none.
pub(crate) fn part(spec: &mut Spec) -> &mut Linux {
    spec.linux_mut().get_or_insert_with(|| {
        let mut linux = Linux::default();
        linux
            .set_resources(None)
            .set_namespaces(None)
            .set_masked_paths(None)
            .set_readonly_paths(None);
        linux
    })
}

pub(crate) fn cgroups_path(spec: &mut Spec, path: &str) -> Result<(), ApplyError> {
    if path.is_empty() {
        return Ok(());
    }
    text("linux.cgroups_path", path)?;
    part(spec).set_cgroups_path(Some(PathBuf::from(path)));
    Ok(())
}

/// A namespace replaces that of its type; without one of its type the host's is shared.
pub(crate) fn namespaces(spec: &mut Spec, namespaces: &[LinuxNamespace]) -> Result<(), ApplyError> {
    const FIELD: &str = "linux.namespaces";
    if namespaces.is_empty() {
        return Ok(());
    }
    let mut removed = Vec::new();
    let mut added: Vec<OciNamespace> = Vec::new();
    for LinuxNamespace { r#type, path } in namespaces {
        let kind =
            |name| LinuxNamespaceType::try_from(name).map_err(|_| ApplyError::unknown(FIELD, name));
        match change(FIELD, r#type)? {
            Change::Remove(name) => removed.push(kind(name)?),
            Change::Add(name) => {
                text(FIELD, path)?;
                let mut namespace = OciNamespace::default();
                namespace
                    .set_typ(kind(name)?)
                    .set_path((!path.is_empty()).then(|| PathBuf::from(path)));
                added.retain(|other| other.typ() != namespace.typ());
                added.push(namespace);
            }
        }
    }
    let all = part(spec).namespaces_mut().get_or_insert_default();
    let stays = |old: &OciNamespace| {
        !removed.contains(&old.typ()) || added.iter().any(|new| new.typ() == old.typ())
    };
    all.retain(stays);
    for namespace in added {
        match all.iter_mut().find(|old| old.typ() == namespace.typ()) {
            Some(old) => *old = namespace,
            None => all.push(namespace),
        }
    }
    Ok(())
}

pub(crate) fn net_devices(
    spec: &mut Spec,
    devices: &BTreeMap<String, LinuxNetDevice>,
) -> Result<(), ApplyError> {
    const FIELD: &str = "linux.net_devices";
    if devices.is_empty() {
        return Ok(());
    }
    let mut entries = Vec::with_capacity(devices.len());
    for (host, LinuxNetDevice { name }) in devices {
        text(FIELD, name)?;
        let mut device = OciNetDevice::default();
        device.set_name((!name.is_empty()).then(|| name.clone()));
        entries.push((host, device));
    }
    keyed::apply(FIELD, entries, part(spec).net_devices_mut())
}

pub(crate) fn memory_policy(
    spec: &mut Spec,
    policy: Option<&LinuxMemoryPolicy>,
) -> Result<(), ApplyError> {
    const FIELD: &str = "linux.memory_policy";
    let Some(LinuxMemoryPolicy { mode, nodes, flags }) = policy else {
        return Ok(());
    };
    text(FIELD, nodes)?;
    let known = MpolMode::try_from(*mode).map_err(|_| ApplyError::unknown(FIELD, mode))?;
    let mode = match known {
        MpolMode::MpolDefault => MemoryPolicyModeType::MpolDefault,
        MpolMode::MpolPreferred => MemoryPolicyModeType::MpolPreferred,
        MpolMode::MpolBind => MemoryPolicyModeType::MpolBind,
        MpolMode::MpolInterleave => MemoryPolicyModeType::MpolInterleave,
        MpolMode::MpolLocal => MemoryPolicyModeType::MpolLocal,
        MpolMode::MpolPreferredMany => MemoryPolicyModeType::MpolPreferredMany,
        MpolMode::MpolWeightedInterleave => MemoryPolicyModeType::MpolWeightedInterleave,
    };
    let flags = flags
        .iter()
        .map(|flag| {
            let known = MpolFlag::try_from(*flag)
                .map_err(|_| ApplyError::unknown("linux.memory_policy.flags", flag))?;
            Ok(match known {
                MpolFlag::MpolFStaticNodes => MemoryPolicyFlagType::MpolFStaticNodes,
                MpolFlag::MpolFRelativeNodes => MemoryPolicyFlagType::MpolFRelativeNodes,
                MpolFlag::MpolFNumaBalancing => MemoryPolicyFlagType::MpolFNumaBalancing,
            })
        })
        .collect::<Result<Vec<_>, ApplyError>>()?;
    let mut policy = OciMemoryPolicy::default();
    policy
        .set_mode(mode)
        .set_nodes((!nodes.is_empty()).then(|| nodes.clone()))
        .set_flags((!flags.is_empty()).then_some(flags));
    part(spec).set_memory_policy(Some(policy));
    Ok(())
}

pub(crate) fn block_io(spec: &mut Spec, block_io: Option<LinuxBlockIo>) {
    if block_io.is_none() && has_no_linux(spec) {
        return;
    }
    let resources = part(spec).resources_mut();
    if block_io.is_some() || resources.is_some() {
        resources.get_or_insert_default().set_block_io(block_io);
    }
}

pub(crate) fn intel_rdt(spec: &mut Spec, rdt: Option<LinuxIntelRdt>) {
    if rdt.is_none() && has_no_linux(spec) {
        return;
    }
    part(spec).set_intel_rdt(rdt);
}

fn has_no_linux(spec: &Spec) -> bool {
    spec.linux().is_none()
}

/// Removing comes first; what is set beside it is all that the container then has.
pub(crate) fn rdt(spec: &mut Spec, rdt: Option<&LinuxRdt>) -> Result<(), ApplyError> {
    const FIELD: &str = "linux.rdt";
    let Some(LinuxRdt {
        clos_id,
        schemata,
        enable_monitoring,
        remove,
    }) = rdt
    else {
        return Ok(());
    };
    if *remove {
        intel_rdt(spec, None);
    }
    if clos_id.is_none() && schemata.is_none() && enable_monitoring.is_none() {
        return Ok(());
    }
    let rdt = part(spec).intel_rdt_mut().get_or_insert_default();
    if let Some(id) = clos_id.get() {
        text(FIELD, &id)?;
        rdt.set_clos_id((!id.is_empty()).then_some(id));
    }
    if let Some(lines) = schemata.get() {
        for line in &lines {
            text(FIELD, line)?;
        }
        rdt.set_schemata(Some(lines));
    }
    if let Some(enable) = enable_monitoring.get() {
        rdt.set_enable_monitoring(Some(enable));
    }
    Ok(())
}
