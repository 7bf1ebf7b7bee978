//! Volumes of a container, in a mount namespace of its own (Linux 5.2, CAP_SYS_ADMIN).
//!
//! ```text
//!  host ns   clone each source tree (still in the host's peer groups)
//!  unshare   a copy of all mounts
//!  "/"       made a slave: what the host mounts later appears inside, nothing goes out
//!  clones    private ones made slaves too; shared ones (BIDIRECTIONAL) left in the host's group
//!  attach    each clone over its target
//! ```
//!
//! The clones are taken before the slave step because a clone of a slave could never carry a mount
//! back to the host.

use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use longshore_sandbox::dirs;
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::{Mode, SFlag, fstat};

use super::sys;
use crate::record::{MountSpec, Spec};

const NONE: Option<&str> = None;

/// Makes `path` a mount whose mounts are seen in other namespaces, in the caller's namespace. A
/// path that lies on a shared mount already is left as it is; any other becomes a bind mount of
/// itself, which stays: others may be using it.
///
/// # Errors
/// EPERM without CAP_SYS_ADMIN; what mount(2) says.
pub(crate) fn ensure_shared(path: &Path) -> io::Result<()> {
    let path = fs::canonicalize(path)?;
    let table = fs::read_to_string("/proc/self/mountinfo")?;
    let (at, shared) = mount_of(&table, &path).ok_or(Errno::ENOENT)?;
    if shared {
        return Ok(());
    }
    if at != path {
        mount(Some(&path), &path, NONE, MsFlags::MS_BIND, NONE)?;
    }
    mount(NONE, &path, NONE, MsFlags::MS_SHARED, NONE)?;
    Ok(())
}

/// The mount points of a mountinfo table (proc(5)).
pub(crate) fn points(table: &str) -> impl Iterator<Item = PathBuf> {
    table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(unescape)
}

/// The mount point that `path` lies on, and whether it is shared. The last line wins: later mounts
/// cover earlier ones.
fn mount_of(table: &str, path: &Path) -> Option<(PathBuf, bool)> {
    let mut found: Option<(PathBuf, bool)> = None;
    for line in table.lines() {
        let mut fields = line.split(' ');
        let Some(point) = fields.nth(4).map(unescape) else {
            continue;
        };
        let shared = fields
            .skip(1)
            .take_while(|field| *field != "-")
            .any(|field| field.starts_with("shared:"));
        let longer = found
            .as_ref()
            .is_none_or(|(at, _)| point.components().count() >= at.components().count());
        if path.starts_with(&point) && longer {
            found = Some((point, shared));
        }
    }
    found
}

/// Undoes the octal escapes of mountinfo (space, tab, newline, backslash).
fn unescape(field: &str) -> PathBuf {
    let mut text = field.to_owned();
    for (escaped, plain) in [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ] {
        text = text.replace(escaped, plain);
    }
    PathBuf::from(text)
}

/// Enters a new mount namespace with the volumes of `spec` in place and gives the handle of the
/// sandbox in it.
///
/// # Errors
/// A text that names the volume.
pub(super) fn enter(spec: &Spec) -> Result<OwnedFd, String> {
    let mut trees = Vec::with_capacity(spec.mounts.list.len());
    for volume in &spec.mounts.list {
        let tree = clone_source(&volume.source).map_err(|error| describe(volume, &error))?;
        trees.push((volume, tree));
    }
    unshare(CloneFlags::CLONE_NEWNS)
        .map_err(|error| format!("cannot make a mount namespace: {error}"))?;
    mount(NONE, "/", NONE, MsFlags::MS_REC | MsFlags::MS_SLAVE, NONE)
        .map_err(|error| format!("cannot make / a slave of the host: {error}"))?;
    // A handle opened before belongs to the host's namespace, where the volumes are not.
    let sandbox = dirs::open(&spec.sandbox_base)
        .and_then(|base| dirs::ensure_below(base, &spec.sandbox, 0o750))
        .map_err(|error| format!("cannot open the sandbox: {error}"))?;
    for (volume, tree) in trees {
        attach(volume, tree.as_fd(), &sandbox).map_err(|error| describe(volume, &error))?;
    }
    // What is mounted at the sandbox's own place hides the directory we hold; look again.
    dirs::open(&spec.sandbox_base)
        .and_then(|base| dirs::ensure_below(base, &spec.sandbox, 0o750))
        .map_err(|error| format!("cannot open the sandbox: {error}"))
}

fn describe(volume: &MountSpec, error: &io::Error) -> String {
    format!(
        "cannot mount the volume {} at {}: {error}",
        volume.source.display(),
        volume.target.display()
    )
}

fn clone_source(source: &Path) -> io::Result<OwnedFd> {
    let handle = nix::fcntl::open(source, OFlag::O_PATH | OFlag::O_CLOEXEC, Mode::empty())?;
    sys::open_tree_clone(handle.as_fd())
}

fn attach(volume: &MountSpec, tree: impl AsFd, sandbox: &OwnedFd) -> io::Result<()> {
    let tree = tree.as_fd();
    let directory = dirs::is(&fstat(tree)?, SFlag::S_IFDIR);
    let target = open_target(&volume.target, sandbox, directory)?;
    if volume.read_only {
        sys::set_read_only(tree)?;
    }
    sys::move_mount(tree, target.as_fd())?;
    if !volume.shared {
        // The clone came out of the host's peer group; reach it through its handle, not by a name.
        let place = format!("/proc/self/fd/{}", tree.as_raw_fd());
        mount(
            NONE,
            place.as_str(),
            NONE,
            MsFlags::MS_REC | MsFlags::MS_SLAVE,
            NONE,
        )?;
    }
    Ok(())
}

/// Opens the place that a volume is mounted over, making it when it is not there. Below the
/// sandbox, whose owner can plant names, no link is followed; an absolute path is the operator's.
fn open_target(target: &Path, sandbox: &OwnedFd, directory: bool) -> io::Result<OwnedFd> {
    let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
        return Err(Errno::EINVAL.into());
    };
    let parent = if target.is_absolute() {
        fs::create_dir_all(parent)?;
        nix::fcntl::open(
            parent,
            OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC,
            Mode::empty(),
        )?
    } else {
        dirs::ensure_below(sandbox, parent, 0o755)?
    };
    if directory {
        dirs::ensure_at(&parent, name, 0o755)?;
    } else if dirs::kind_at(&parent, name)?.is_none() {
        let flags = OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_CLOEXEC;
        openat(&parent, name, flags, Mode::from_bits_truncate(0o644))?;
    }
    let flags = OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    Ok(openat(&parent, name, flags, Mode::empty())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_of_a_path_is_the_longest_and_last_one() {
        let table = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda rw
23 22 0:5 / /run rw - tmpfs tmpfs rw
24 23 0:6 / /run/a\\040b rw master:3 shared:9 - tmpfs tmpfs rw
25 22 0:7 / /run rw master:4 - tmpfs tmpfs rw
broken";
        for (path, expected) in [
            ("/etc", Some(("/", true))),
            ("/run/x", Some(("/run", false))),
            ("/run/a b/c", Some(("/run/a b", true))),
            ("/running", Some(("/", true))),
        ] {
            let expected = expected.map(|(at, shared)| (PathBuf::from(at), shared));
            assert_eq!(mount_of(table, Path::new(path)), expected, "{path}");
        }
        assert_eq!(mount_of("", Path::new("/")), None);
    }
}
