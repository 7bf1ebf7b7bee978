//! Mounts, with their options as of mount(8) and the OCI runtime spec.

use longshore_engine::spec::Propagation;
use longshore_engine::{ContainerSpec, Mount, MountKind};
use longshore_nri_api::{Field, Mount as NriMount, removed_key};

use crate::refusal::at;
use crate::{Judge, Refusal};

/// What an engine mounts by itself: it cannot be told not to.
const OF_THE_ENGINE: [&str; 6] = [
    "/proc",
    "/sys",
    "/dev",
    "/dev/pts",
    "/dev/mqueue",
    "/sys/fs/cgroup",
];

/// Mounts of an engine's container: removed first, then added in place of what is there.
pub(super) fn engine(
    spec: &mut ContainerSpec,
    wanted: &[NriMount],
    judge: &Judge<'_>,
) -> Result<(), Refusal> {
    for mount in wanted {
        let target = removed_key(&mount.destination).unwrap_or(&mount.destination);
        if OF_THE_ENGINE.contains(&target) {
            let why = "the engine itself mounts something there";
            return Err(refuse(judge, mount, why));
        }
    }
    for target in wanted.iter().filter_map(|it| removed_key(&it.destination)) {
        spec.mounts.retain(|mount| mount.target != target);
        spec.tmpfs.remove(target);
    }
    for mount in added(wanted) {
        let NriMount {
            destination,
            r#type,
            source: _,
            options,
        } = mount;
        spec.mounts.retain(|known| known.target != *destination);
        spec.tmpfs.remove(destination);
        if r#type == "tmpfs" {
            spec.tmpfs.insert(destination.clone(), options.join(","));
        } else {
            spec.mounts
                .push(bind(mount).map_err(|why| refuse(judge, mount, &why))?);
        }
    }
    Ok(())
}

/// Mounts of a process: binds alone.
pub(super) fn process(
    target: &mut Vec<Mount>,
    wanted: &[NriMount],
    judge: &Judge<'_>,
) -> Result<(), Refusal> {
    for destination in wanted.iter().filter_map(|it| removed_key(&it.destination)) {
        target.retain(|mount| mount.target != destination);
    }
    for wanted in added(wanted) {
        let mut mount = bind(wanted).map_err(|why| refuse(judge, wanted, &why))?;
        let MountKind::Bind {
            propagation,
            non_recursive,
            ..
        } = &mut mount.kind
        else {
            continue;
        };
        *propagation = match propagation {
            None | Some(Propagation::Private | Propagation::RPrivate) => None,
            Some(Propagation::Shared | Propagation::RShared) => Some(Propagation::RShared),
            Some(Propagation::Slave | Propagation::RSlave) => {
                let why = "a process container has mounts that propagate both ways or not at all";
                return Err(refuse(judge, wanted, why));
            }
        };
        // What lies below comes along in any case.
        *non_recursive = false;
        target.retain(|known| known.target != mount.target);
        target.push(mount);
    }
    Ok(())
}

fn added(wanted: &[NriMount]) -> impl Iterator<Item = &NriMount> {
    wanted
        .iter()
        .filter(|mount| removed_key(&mount.destination).is_none())
}

fn refuse(judge: &Judge<'_>, mount: &NriMount, why: &str) -> Refusal {
    judge.refuse(at("mounts", Field::Mounts), &mount.destination, why)
}

/// A bind mount, by its type or its options.
fn bind(mount: &NriMount) -> Result<Mount, String> {
    let NriMount {
        destination,
        r#type,
        source,
        options,
    } = mount;
    let has = |option: &str| options.iter().any(|it| it == option);
    let is_bind = match r#type.as_str() {
        "bind" => true,
        "" | "none" => has("bind") || has("rbind"),
        _ => false,
    };
    if !is_bind {
        return Err(format!(
            "only bind and tmpfs can be mounted, not the type {type:?}"
        ));
    }
    let mut propagation = None;
    let mut read_only = false;
    for option in options {
        match option.as_str() {
            "bind" | "rbind" => {}
            "ro" => read_only = true,
            "rw" => read_only = false,
            "private" => propagation = Some(Propagation::Private),
            "rprivate" => propagation = Some(Propagation::RPrivate),
            "shared" => propagation = Some(Propagation::Shared),
            "rshared" => propagation = Some(Propagation::RShared),
            "slave" => propagation = Some(Propagation::Slave),
            "rslave" => propagation = Some(Propagation::RSlave),
            other => {
                return Err(format!(
                    "a bind mount has the options bind, rbind, ro, rw and those of propagation, not {other:?}"
                ));
            }
        }
    }
    Ok(Mount {
        target: destination.clone(),
        read_only,
        kind: MountKind::Bind {
            source: source.clone(),
            // A source that is not there is a mistake.
            create_source: false,
            propagation,
            non_recursive: !has("rbind"),
            relabel: None,
        },
    })
}
