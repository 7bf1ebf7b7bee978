use std::collections::HashSet;
use std::path::{Path, PathBuf};

use longshore_nri_api::{LinuxDevice, LinuxDeviceCgroup, Wrapper};
use oci_spec::runtime::{
    LinuxDevice as OciDevice, LinuxDeviceCgroup as OciRule, LinuxDeviceType, Spec,
};

use crate::keyed::{Change, change, path, text};
use crate::{ApplyError, linux};

const FIELD: &str = "linux.devices";
const RULES: &str = "linux.resources.devices";

/// Applies device nodes; each that is added is allowed in the device cgroup, too.
pub(crate) fn apply(spec: &mut Spec, devices: &[LinuxDevice]) -> Result<(), ApplyError> {
    if devices.is_empty() {
        return Ok(());
    }
    let mut gone = HashSet::new();
    let mut added: Vec<OciDevice> = Vec::new();
    let mut rules = Vec::new();
    for device in devices {
        match change(FIELD, &device.path)? {
            Change::Remove(path) => {
                gone.insert(normal(Path::new(path)));
            }
            Change::Add(added_path) => {
                path(FIELD, added_path)?;
                gone.insert(normal(Path::new(added_path)));
                let node = oci(device)?;
                rules.extend(allow(&node));
                added.push(node);
            }
        }
    }
    let mut seen = HashSet::new();
    added.reverse();
    added.retain(|device| seen.insert(normal(device.path())));
    added.reverse();

    let linux = linux::part(spec);
    if let Some(all) = linux.devices_mut() {
        all.retain(|device| !gone.contains(&normal(device.path())));
    }
    if !added.is_empty() {
        linux
            .devices_mut()
            .get_or_insert_default()
            .append(&mut added);
    }
    append_rules(spec, rules);
    Ok(())
}

/// Appends rules of the device cgroup.
pub(crate) fn rules(spec: &mut Spec, rules: &[LinuxDeviceCgroup]) -> Result<(), ApplyError> {
    let rules = rules.iter().map(rule).collect::<Result<Vec<_>, _>>()?;
    append_rules(spec, rules);
    Ok(())
}

/// Appends each rule once. The last rule that matches a device decides, so an equal rule further
/// up says nothing any more and goes; that makes appending idempotent.
fn append_rules(spec: &mut Spec, mut rules: Vec<OciRule>) {
    if rules.is_empty() {
        return;
    }
    let key = |rule: &OciRule| (rule.allow(), rule.to_string());
    let mut seen = HashSet::new();
    rules.reverse();
    rules.retain(|rule| seen.insert(key(rule)));
    rules.reverse();
    let resources = linux::part(spec).resources_mut().get_or_insert_default();
    let all = resources.devices_mut().get_or_insert_default();
    all.retain(|rule| !seen.contains(&key(rule)));
    all.append(&mut rules);
}

fn oci(device: &LinuxDevice) -> Result<OciDevice, ApplyError> {
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
        "b" => LinuxDeviceType::B,
        "c" => LinuxDeviceType::C,
        "u" => LinuxDeviceType::U,
        "p" => LinuxDeviceType::P,
        other => return Err(ApplyError::unknown(FIELD, other)),
    };
    let mut node = OciDevice::default();
    node.set_path(PathBuf::from(path))
        .set_typ(kind)
        .set_major(*major)
        .set_minor(*minor)
        .set_file_mode(file_mode.get())
        .set_uid(uid.get())
        .set_gid(gid.get());
    Ok(node)
}

/// The rule that allows what the mode of the node allows; none for a pipe, which has no numbers.
fn allow(node: &OciDevice) -> Option<OciRule> {
    if node.typ() == LinuxDeviceType::P {
        return None;
    }
    // Only b and c exist for the device cgroup; u is an unbuffered c.
    let (kind, mknod) = match node.typ() {
        LinuxDeviceType::B => (LinuxDeviceType::B, "m"),
        _ => (LinuxDeviceType::C, ""),
    };
    let mode = node.file_mode().unwrap_or(0o666);
    let read = if mode & 0o444 == 0 { "" } else { "r" };
    let write = if mode & 0o222 == 0 { "" } else { "w" };
    let access = format!("{read}{write}{mknod}");
    if access.is_empty() {
        return None;
    }
    let mut rule = OciRule::default();
    rule.set_allow(true)
        .set_typ(Some(kind))
        .set_major(Some(node.major()))
        .set_minor(Some(node.minor()))
        .set_access(Some(access));
    Some(rule)
}

fn rule(rule: &LinuxDeviceCgroup) -> Result<OciRule, ApplyError> {
    let LinuxDeviceCgroup {
        allow,
        r#type,
        major,
        minor,
        access,
    } = rule;
    let kind = match r#type.as_str() {
        "" => None,
        "a" => Some(LinuxDeviceType::A),
        "b" => Some(LinuxDeviceType::B),
        "c" => Some(LinuxDeviceType::C),
        other => return Err(ApplyError::unknown(RULES, other)),
    };
    text(RULES, access)?;
    if access.chars().any(|letter| !"rwm".contains(letter)) {
        return Err(ApplyError::invalid(
            RULES,
            access,
            "is not made of r, w and m",
        ));
    }
    let mut rule = OciRule::default();
    rule.set_allow(*allow)
        .set_typ(kind)
        .set_major(major.get())
        .set_minor(minor.get())
        .set_access((!access.is_empty()).then(|| access.clone()));
    Ok(rule)
}

fn normal(path: &Path) -> PathBuf {
    path.components().collect()
}
