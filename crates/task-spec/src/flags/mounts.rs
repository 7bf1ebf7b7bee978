//! Docker's ways to write a mount: `--volume`, `--mount`, `--device`.

use std::collections::BTreeMap;

use longshore_engine::spec::{Device, Propagation};
use longshore_engine::{Mount, MountKind};

use super::values::bytes;
use super::{Flag, FlagProblem};
use crate::map::is_volume_name;

/// `[source:]target[:options]`.
pub(super) fn volume(flag: &Flag<'_>) -> Result<Mount, FlagProblem> {
    let parts: Vec<&str> = flag.value.split(':').collect();
    let (source, target, options) = match parts[..] {
        [target] => (None, target, ""),
        [source, target] => (Some(source), target, ""),
        [source, target, options] => (Some(source), target, options),
        _ => {
            return Err(flag.wrong(
                "it must be [SOURCE:]TARGET[:OPTIONS]; use --mount for a path with a colon",
            ));
        }
    };
    if !target.starts_with('/') {
        return Err(flag.wrong("the path in the container must be absolute"));
    }
    let mut mount = match source {
        None => anonymous(target),
        Some(source) if source.starts_with('/') => Mount::bind(source, target),
        Some(name) if is_volume_name(name) => Mount::volume(name, target),
        Some(_) => {
            return Err(flag.wrong("the source must be an absolute path or the name of a volume"));
        }
    };
    for option in options.split(',').filter(|option| !option.is_empty()) {
        if !volume_option(&mut mount, option) {
            return Err(flag.wrong(format!(
                "the option {option:?} is unknown, or not one of this kind of mount"
            )));
        }
    }
    Ok(mount)
}

fn volume_option(mount: &mut Mount, option: &str) -> bool {
    match (option, &mut mount.kind) {
        ("ro" | "readonly", _) => mount.read_only = true,
        ("rw", _) => mount.read_only = false,
        ("z", MountKind::Bind { relabel, .. }) => *relabel = Some(true),
        ("Z", MountKind::Bind { relabel, .. }) => *relabel = Some(false),
        ("nocopy", MountKind::Volume { no_copy, .. }) => *no_copy = true,
        (name, MountKind::Bind { propagation, .. }) => match propagation_of(name) {
            Some(known) => *propagation = Some(known),
            None => return false,
        },
        _ => return false,
    }
    true
}

fn anonymous(target: &str) -> Mount {
    let mut mount = Mount::volume("", target);
    if let MountKind::Volume { name, .. } = &mut mount.kind {
        *name = None;
    }
    mount
}

fn propagation_of(name: &str) -> Option<Propagation> {
    [
        Propagation::Private,
        Propagation::RPrivate,
        Propagation::Shared,
        Propagation::RShared,
        Propagation::Slave,
        Propagation::RSlave,
    ]
    .into_iter()
    .find(|known| known.as_str() == name)
}

/// `type=bind,source=..,target=..[,readonly][,..]`.
pub(super) fn mount(flag: &Flag<'_>) -> Result<Mount, FlagProblem> {
    let mut fields: BTreeMap<&str, &str> = BTreeMap::new();
    let mut driver_options = BTreeMap::new();
    for field in flag.value.split(',') {
        let (key, value) = field.split_once('=').unwrap_or((field, "true"));
        let key = match key {
            "src" => "source",
            "dst" | "destination" => "target",
            "ro" => "readonly",
            key => key,
        };
        if key == "volume-opt" {
            let (name, value) = value.split_once('=').unwrap_or((value, ""));
            driver_options.insert(name.to_owned(), value.to_owned());
        } else if fields.insert(key, value).is_some() {
            return Err(flag.wrong_pair(format!("its {key} is given twice")));
        }
    }
    let target = fields
        .remove("target")
        .filter(|target| target.starts_with('/'));
    let target = target.ok_or_else(|| flag.wrong_pair("it needs target=, an absolute path"))?;
    let source = fields.remove("source");
    let read_only = taken(flag, &mut fields, "readonly")?;
    let kind =
        match fields.remove("type").unwrap_or("volume") {
            "bind" => {
                let source = source.filter(|source| source.starts_with('/'));
                MountKind::Bind {
                    source: source
                        .ok_or_else(|| flag.wrong_pair("a bind needs source=, an absolute path"))?
                        .to_owned(),
                    create_source: false,
                    propagation: match fields.remove("bind-propagation") {
                        None => None,
                        Some(name) => {
                            let known = propagation_of(name);
                            Some(known.ok_or_else(|| {
                                flag.wrong_pair("its bind-propagation is unknown")
                            })?)
                        }
                    },
                    non_recursive: taken(flag, &mut fields, "bind-nonrecursive")?,
                    relabel: None,
                }
            }
            "volume" => {
                if let Some(name) = source.filter(|name| !is_volume_name(name)) {
                    return Err(flag.wrong_pair(format!("{name:?} is no name of a volume")));
                }
                MountKind::Volume {
                    name: source.map(str::to_owned),
                    driver: fields.remove("volume-driver").map(str::to_owned),
                    driver_options: std::mem::take(&mut driver_options),
                    labels: BTreeMap::new(),
                    no_copy: taken(flag, &mut fields, "volume-nocopy")?,
                    subpath: fields.remove("volume-subpath").map(str::to_owned),
                }
            }
            "tmpfs" => {
                let size = fields.remove("tmpfs-size");
                let mode = fields.remove("tmpfs-mode");
                let wrong = || flag.wrong_pair("its tmpfs-size or tmpfs-mode cannot be read");
                MountKind::Tmpfs {
                    size: size.map(|size| bytes(size).ok_or_else(wrong)).transpose()?,
                    mode: mode
                        .map(|mode| u32::from_str_radix(mode, 8).map_err(|_| wrong()))
                        .transpose()?,
                }
            }
            _ => return Err(flag.wrong_pair("its type is none of bind, volume and tmpfs")),
        };
    if let Some(key) = fields
        .keys()
        .next()
        .copied()
        .or(driver_options.keys().next().map(|_| "volume-opt"))
    {
        return Err(flag.wrong_pair(format!(
            "{key} is unknown, or not one of this type of mount"
        )));
    }
    Ok(Mount {
        target: target.to_owned(),
        read_only,
        kind,
    })
}

fn taken(
    flag: &Flag<'_>,
    fields: &mut BTreeMap<&str, &str>,
    key: &str,
) -> Result<bool, FlagProblem> {
    match fields.remove(key) {
        None | Some("false" | "0") => Ok(false),
        Some("true" | "1" | "") => Ok(true),
        Some(_) => Err(flag.wrong_pair(format!("its {key} is either true or false"))),
    }
}

/// `host[:container][:permissions]`.
pub(super) fn device(flag: &Flag<'_>) -> Result<Device, FlagProblem> {
    let parts: Vec<&str> = flag.value.split(':').collect();
    let (host, container, permissions) = match parts[..] {
        [host] => (host, host, "rwm"),
        [host, second] if second.starts_with('/') => (host, second, "rwm"),
        [host, permissions] => (host, host, permissions),
        [host, container, permissions] => (host, container, permissions),
        _ => return Err(flag.wrong("it must be HOST[:CONTAINER][:PERMISSIONS]")),
    };
    if !host.starts_with('/') || !container.starts_with('/') {
        return Err(flag.wrong("its paths must be absolute"));
    }
    if permissions.is_empty() || !permissions.chars().all(|c| "rwm".contains(c)) {
        return Err(flag.wrong("its permissions are one or more of r, w and m"));
    }
    Ok(Device {
        path_on_host: host.to_owned(),
        path_in_container: container.to_owned(),
        permissions: permissions.to_owned(),
    })
}
