//! What Mesos' docker containerizer passes over: capabilities, namespaces, seccomp, resource limits, terminals.

use longshore_engine::ContainerSpec;
use longshore_engine::spec::Ulimit;
use longshore_mesos_api::v1::capability_info::Capability;
use longshore_mesos_api::v1::linux_info::IpcMode;
use longshore_mesos_api::v1::r_limit_info::r_limit::Type as RLimitType;
use longshore_mesos_api::v1::{CapabilityInfo, ContainerInfo, LinuxInfo, RLimitInfo};

use crate::TaskSpecError;
use crate::error::refused;

const MIB: u64 = 1024 * 1024;

pub(super) fn map(info: &ContainerInfo, spec: &mut ContainerSpec) -> Result<(), TaskSpecError> {
    if let Some(linux) = &info.linux_info {
        linux_info(linux, spec)?;
    }
    if let Some(limits) = &info.rlimit_info {
        ulimits(limits, spec)?;
    }
    if let Some(tty) = &info.tty_info {
        // Its output is one stream then: standard output.
        spec.tty = true;
        if let Some(size) = &tty.window_size {
            let size = serde_json::json!([size.rows, size.columns]);
            spec.extra_host_config
                .insert("ConsoleSize".to_owned(), size);
        }
    }
    Ok(())
}

fn linux_info(linux: &LinuxInfo, spec: &mut ContainerSpec) -> Result<(), TaskSpecError> {
    capabilities(linux, spec)?;
    if linux.share_pid_namespace() {
        spec.pid_mode = Some("host".to_owned());
    }
    if let Some(seccomp) = &linux.seccomp {
        match (&seccomp.profile_name, seccomp.unconfined()) {
            (Some(name), _) => {
                return Err(refused(
                    "container.linux_info.seccomp.profile_name",
                    name,
                    "the profiles of an agent are not the engine's: use the docker parameter `security-opt`",
                ));
            }
            (None, true) => spec.security_options.push("seccomp=unconfined".to_owned()),
            (None, false) => {}
        }
    }
    let ipc = linux.ipc_mode.map(IpcMode::try_from);
    spec.ipc_mode = match ipc {
        None | Some(Ok(IpcMode::Unknown)) => None,
        Some(Ok(IpcMode::Private)) => Some("private".to_owned()),
        Some(Ok(IpcMode::ShareParent)) => Some("host".to_owned()),
        Some(Err(_)) => {
            let number = linux.ipc_mode.unwrap_or_default();
            return Err(refused(
                "container.linux_info.ipc_mode",
                number,
                "it is neither PRIVATE nor SHARE_PARENT",
            ));
        }
    };
    if let Some(mib) = linux.shm_size {
        if ipc != Some(Ok(IpcMode::Private)) {
            return Err(refused(
                "container.linux_info.shm_size",
                mib,
                "it needs the ipc_mode PRIVATE",
            ));
        }
        spec.shm_size = Some(u64::from(mib) * MIB);
    }
    Ok(())
}

/// Exactly these: all others are dropped. An engine has one set, so two that differ cannot be served.
#[expect(deprecated, reason = "old schedulers still send `capability_info`")]
fn capabilities(linux: &LinuxInfo, spec: &mut ContainerSpec) -> Result<(), TaskSpecError> {
    let given = [
        ("capability_info", &linux.capability_info),
        ("bounding_capabilities", &linux.bounding_capabilities),
        ("effective_capabilities", &linux.effective_capabilities),
    ];
    let mut chosen: Option<(&str, Vec<String>)> = None;
    for (name, info) in given {
        let Some(info) = info else {
            continue;
        };
        let field = format!("container.linux_info.{name}");
        let names = capability_names(&field, info)?;
        match &chosen {
            Some((first, others)) if *others != names => {
                return Err(refused(
                    field,
                    names.join(","),
                    format!("an engine has one set of capabilities, and {first} is another"),
                ));
            }
            _ => chosen = Some((name, names)),
        }
    }
    if let Some((_, names)) = chosen {
        spec.cap_drop = vec!["ALL".to_owned()];
        spec.cap_add = names;
    }
    Ok(())
}

fn capability_names(field: &str, info: &CapabilityInfo) -> Result<Vec<String>, TaskSpecError> {
    let mut names = Vec::new();
    for number in &info.capabilities {
        match Capability::try_from(*number) {
            Ok(Capability::Unknown) | Err(_) => {
                return Err(refused(field, number, "it is no capability"));
            }
            Ok(known) => names.push(format!("CAP_{}", known.as_str_name())),
        }
    }
    names.sort();
    names.dedup();
    Ok(names)
}

fn ulimits(info: &RLimitInfo, spec: &mut ContainerSpec) -> Result<(), TaskSpecError> {
    for (index, limit) in info.rlimits.iter().enumerate() {
        let field = format!("container.rlimit_info.rlimits[{index}]");
        let name = match limit.r#type.map(RLimitType::try_from) {
            Some(Ok(RLimitType::RlmtAs)) => {
                return Err(refused(
                    field,
                    "RLMT_AS",
                    "an engine does not limit the address space: limit mem",
                ));
            }
            Some(Ok(kind)) if kind != RLimitType::Unknown => kind
                .as_str_name()
                .trim_start_matches("RLMT_")
                .to_ascii_lowercase(),
            _ => {
                return Err(refused(
                    field,
                    limit.r#type.unwrap_or_default(),
                    "it is no resource limit",
                ));
            }
        };
        let (soft, hard) = match (limit.soft, limit.hard) {
            (None, None) => (-1, -1),
            (Some(soft), Some(hard)) if soft <= hard => (finite(soft), finite(hard)),
            (soft, hard) => {
                let shown = format!("{name} soft {soft:?} hard {hard:?}");
                return Err(refused(
                    field,
                    shown,
                    "both are needed, and soft must not be above hard",
                ));
            }
        };
        if spec
            .resources
            .ulimits
            .iter()
            .any(|known| known.name == name)
        {
            return Err(refused(field, name, "it is given twice"));
        }
        spec.resources.ulimits.push(Ulimit { name, soft, hard });
    }
    Ok(())
}

/// What no signed number holds is no limit.
fn finite(limit: u64) -> i64 {
    i64::try_from(limit).unwrap_or(-1)
}
