use std::collections::HashSet;
use std::path::{Path, PathBuf};

use longshore_nri_api::Mount;
use oci_spec::runtime::{Mount as OciMount, Spec};

use crate::keyed::{Change, change, path, text};
use crate::{ApplyError, Propagation, Refusal, linux};

const FIELD: &str = "mounts";

/// Applies mounts: a mount replaces what the spec mounts at its destination; afterwards parents
/// come before what is mounted within them.
pub(crate) fn apply(
    spec: &mut Spec,
    mounts: &[Mount],
    propagation_of: impl Fn(&Path) -> Result<Propagation, Refusal>,
) -> Result<(), ApplyError> {
    if mounts.is_empty() {
        return Ok(());
    }
    let mut gone = HashSet::new();
    let mut added: Vec<OciMount> = Vec::new();
    for mount in mounts {
        match change(FIELD, &mount.destination)? {
            Change::Remove(destination) => {
                gone.insert(normal(destination));
            }
            Change::Add(destination) => {
                path(FIELD, destination)?;
                share(spec, mount, &propagation_of)?;
                gone.insert(normal(destination));
                added.push(oci(mount)?);
            }
        }
    }
    // Of two at one destination the later one stays, as if one replaced the other.
    let mut seen = HashSet::new();
    added.reverse();
    added.retain(|mount| seen.insert(normal_path(mount.destination())));
    added.reverse();

    let all = spec.mounts_mut().get_or_insert_default();
    all.retain(|mount| !gone.contains(&normal_path(mount.destination())));
    all.append(&mut added);
    all.sort_by_cached_key(|mount| {
        let destination = normal_path(mount.destination());
        (destination.components().count(), destination)
    });
    Ok(())
}

fn oci(mount: &Mount) -> Result<OciMount, ApplyError> {
    let Mount {
        destination,
        r#type,
        source,
        options,
    } = mount;
    text(FIELD, r#type)?;
    text(FIELD, source)?;
    for option in options {
        text(FIELD, option)?;
    }
    let mut mount = OciMount::default();
    mount
        .set_destination(PathBuf::from(destination))
        .set_typ(some(r#type))
        .set_source(some(source).map(PathBuf::from))
        .set_options((!options.is_empty()).then(|| options.clone()));
    Ok(mount)
}

/// A mount that is to share with the host needs a host that shares, and a root that passes it on.
fn share(
    spec: &mut Spec,
    mount: &Mount,
    propagation_of: impl Fn(&Path) -> Result<Propagation, Refusal>,
) -> Result<(), ApplyError> {
    // The last one wins, as with mount(8).
    let asked = mount
        .options
        .iter()
        .rev()
        .find_map(|option| match option.as_str() {
            "shared" | "rshared" => Some(Propagation::Shared),
            "slave" | "rslave" => Some(Propagation::Slave),
            "private" | "rprivate" | "unbindable" | "runbindable" => Some(Propagation::Private),
            _ => None,
        });
    let (Some(asked), wanted, root) = (match asked {
        Some(Propagation::Shared) => (asked, "shared", "rshared"),
        Some(Propagation::Slave) => (asked, "shared or slave", "rslave"),
        _ => (None, "", ""),
    }) else {
        return Ok(());
    };
    let source = Path::new(&mount.source);
    let found = propagation_of(source).map_err(ApplyError::refused(FIELD, &mount.destination))?;
    if found < asked {
        return Err(ApplyError::NotPropagated {
            destination: mount.destination.clone(),
            source_path: mount.source.clone(),
            wanted,
        });
    }
    let linux = linux::part(spec);
    let has = match linux.rootfs_propagation().as_deref() {
        Some("shared" | "rshared") => Propagation::Shared,
        Some("slave" | "rslave") => Propagation::Slave,
        _ => Propagation::Private,
    };
    if has < asked {
        linux.set_rootfs_propagation(Some(root.to_owned()));
    }
    Ok(())
}

fn some(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

/// Without doubled and trailing slashes and without `.`.
fn normal(path: &str) -> PathBuf {
    normal_path(Path::new(path))
}

fn normal_path(path: &Path) -> PathBuf {
    path.components().collect()
}
