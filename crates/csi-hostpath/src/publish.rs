//! Making a volume appear at a path, and disappear from it.
//!
//! ```text
//!   at the path           bind                          link
//!   nothing               mkdir, bind                   symlink
//!   an empty directory    bind                          rmdir, symlink
//!   this volume           done (if as writable)         done
//!   anything else         refused                       refused
//! ```

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, symlink},
    path::Path,
};

use tonic::Status;

use crate::{
    error::io_status,
    mounts::{bind, is_readonly, same_dir, unbind},
};

/// How volumes are published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PublishBy {
    /// A bind mount: needs CAP_SYS_ADMIN.
    BindMount,
    /// A symbolic link, for a process that may not mount. It cannot be read-only.
    SymbolicLink,
}

impl PublishBy {
    /// As the manifest and the volume context say it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BindMount => "bind-mount",
            Self::SymbolicLink => "symbolic-link",
        }
    }
}

/// What is at a path, seen from a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Nothing,
    EmptyDirectory,
    /// The volume itself, bound or linked.
    Bound,
    Linked,
    Other,
}

pub(crate) fn look(target: &Path, data: &Path) -> Result<Found, Status> {
    let meta = match fs::symlink_metadata(target) {
        Ok(meta) => meta,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(io_status("look at", target, &error)),
    };
    if meta.is_symlink() {
        let ours = fs::read_link(target).is_ok_and(|to| to == data);
        return Ok(if ours { Found::Linked } else { Found::Other });
    }
    if same_dir(target, data) {
        return Ok(Found::Bound);
    }
    if meta.is_dir() && fs::read_dir(target).is_ok_and(|mut entries| entries.next().is_none()) {
        return Ok(Found::EmptyDirectory);
    }
    Ok(Found::Other)
}

/// Makes `data` appear at `target`. Calling it again is no error.
pub(crate) fn appear(
    data: &Path,
    target: &Path,
    readonly: bool,
    by: PublishBy,
) -> Result<(), Status> {
    match (look(target, data)?, by) {
        (Found::Bound, PublishBy::BindMount) if is_readonly(target) == readonly => Ok(()),
        (Found::Bound | Found::Linked, PublishBy::BindMount) => {
            Err(Status::already_exists(format!(
                "{} has this volume with other flags: unpublish it first",
                target.display()
            )))
        }
        (Found::Bound | Found::Linked, PublishBy::SymbolicLink) if !readonly => Ok(()),
        (Found::Other, _) => Err(Status::failed_precondition(format!(
            "{} exists and is no empty directory",
            target.display()
        ))),
        (_, PublishBy::SymbolicLink) if readonly => Err(Status::failed_precondition(
            "read-only needs a bind mount, and this driver runs without CAP_SYS_ADMIN",
        )),
        (found, PublishBy::BindMount) => {
            if found == Found::Nothing {
                fs::DirBuilder::new()
                    .mode(0o755)
                    .create(target)
                    .map_err(|error| io_status("create", target, &error))?;
            }
            bind(data, target, readonly).map_err(|error| {
                if found == Found::Nothing {
                    drop(fs::remove_dir(target));
                }
                io_status("mount on", target, &error)
            })
        }
        (found, PublishBy::SymbolicLink) => {
            if found == Found::EmptyDirectory {
                fs::remove_dir(target).map_err(|error| io_status("remove", target, &error))?;
            }
            symlink(data, target).map_err(|error| io_status("link", target, &error))
        }
    }
}

/// Makes `data` disappear from `target`; `keep` leaves an empty directory there (the caller made it). Nothing there is
/// no error; anything but the volume is left alone and refused.
pub(crate) fn disappear(data: &Path, target: &Path, keep: bool) -> Result<(), Status> {
    // A volume may have been bound over itself.
    for _ in 0..16 {
        match look(target, data)? {
            Found::Nothing => return Ok(()),
            Found::Bound => unbind(target).map_err(|error| io_status("unmount", target, &error))?,
            Found::Linked => {
                fs::remove_file(target).map_err(|error| io_status("remove", target, &error))?;
                if keep {
                    fs::create_dir(target).map_err(|error| io_status("create", target, &error))?;
                }
                return Ok(());
            }
            Found::EmptyDirectory if keep => return Ok(()),
            Found::EmptyDirectory => {
                return fs::remove_dir(target).map_err(|error| io_status("remove", target, &error));
            }
            Found::Other => {
                return Err(Status::failed_precondition(format!(
                    "{} is not this volume and is left alone",
                    target.display()
                )));
            }
        }
    }
    Err(Status::internal(format!(
        "{} has too many mounts",
        target.display()
    )))
}
