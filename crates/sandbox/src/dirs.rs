//! Directories by handle: what root does below names that others can plant.
//!
//! Everything here goes component by component from an open directory and follows no symbolic
//! link, so that a name that is swapped under us leads to an error and never to another place.

use std::ffi::{CStr, CString, OsStr};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Component, Path};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, OpenHow, ResolveFlag, openat, openat2, renameat};
use nix::sys::stat::{FileStat, Mode, SFlag, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

/// The deepest tree that [`remove_tree`] goes down.
const MAX_DEPTH: usize = 256;
/// How many names are tried for what is set aside.
const MAX_ASIDE: u32 = 1000;

const DIRECTORY: OFlag = OFlag::O_DIRECTORY
    .union(OFlag::O_NOFOLLOW)
    .union(OFlag::O_CLOEXEC)
    .union(OFlag::O_RDONLY);

/// Opens a directory by a path that only we can write to.
///
/// # Errors
/// ELOOP or ENOTDIR when its last component is a symbolic link or no directory.
pub fn open(path: &Path) -> io::Result<OwnedFd> {
    Ok(nix::fcntl::open(path, DIRECTORY, Mode::empty())?)
}

/// Opens the directory `name` in `dir`.
///
/// # Errors
/// ELOOP or ENOTDIR when it is a symbolic link or no directory; what openat(2) says.
pub fn open_at(dir: impl AsFd, name: impl AsRef<OsStr>) -> io::Result<OwnedFd> {
    Ok(openat(dir, name.as_ref(), DIRECTORY, Mode::empty())?)
}

/// Opens the plain file `name` in `dir` for reading, without waiting for anybody.
///
/// # Errors
/// ELOOP when it is a symbolic link, EINVAL when it is no plain file; what openat(2) says.
pub fn read_at(dir: impl AsFd, name: &str) -> io::Result<File> {
    let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
    let file = File::from(openat(dir, name, flags, Mode::empty())?);
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(Errno::EINVAL.into())
    }
}

/// Opens the directory `name` in `dir`, which is made first when it is not there; says whether it
/// was made.
///
/// # Errors
/// As [`open_at`]; what mkdirat(2) says.
pub fn ensure_at(
    dir: impl AsFd,
    name: impl AsRef<OsStr>,
    mode: u32,
) -> io::Result<(OwnedFd, bool)> {
    let name = name.as_ref();
    let made = match mkdirat(dir.as_fd(), name, Mode::from_bits_truncate(mode)) {
        Ok(()) => true,
        Err(Errno::EEXIST) => false,
        Err(error) => return Err(error.into()),
    };
    Ok((open_at(dir, name)?, made))
}

/// Opens the directory at the relative path `below` of `dir`, making what is missing.
///
/// # Errors
/// EINVAL when the path is absolute or has a `..`; as [`ensure_at`].
pub fn ensure_below(dir: impl AsFd, below: &Path, mode: u32) -> io::Result<OwnedFd> {
    let mut current = dir.as_fd().try_clone_to_owned()?;
    for component in below.components() {
        match component {
            Component::Normal(name) => current = ensure_at(&current, name, mode)?.0,
            Component::CurDir => {}
            _ => return Err(Errno::EINVAL.into()),
        }
    }
    Ok(current)
}

/// What `name` in `dir` is, or `None`; a symbolic link is not followed.
///
/// # Errors
/// What fstatat(2) says.
pub fn kind_at(dir: impl AsFd, name: impl AsRef<OsStr>) -> io::Result<Option<FileStat>> {
    match fstatat(dir, name.as_ref(), AtFlags::AT_SYMLINK_NOFOLLOW) {
        Ok(stat) => Ok(Some(stat)),
        Err(Errno::ENOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether a stat is one of a file of this type.
pub fn is(stat: &FileStat, kind: SFlag) -> bool {
    SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits()) == kind
}

/// Renames what stands in the way to `<name>.aside-<n>`, whatever it is.
///
/// # Errors
/// What renameat(2) says; EEXIST when there are a thousand already.
pub fn set_aside(dir: impl AsFd, name: &str) -> io::Result<()> {
    for n in 0..MAX_ASIDE {
        let aside = format!("{name}.aside-{n}");
        if kind_at(dir.as_fd(), &aside)?.is_none() {
            renameat(dir.as_fd(), name, dir.as_fd(), aside.as_str())?;
            return Ok(());
        }
    }
    Err(Errno::EEXIST.into())
}

/// Deletes what is named `name` in `dir`, with all that is below it, and crosses no mount point,
/// bind mounts of the same file system included. Says whether all of it is gone.
///
/// # Errors
/// The first failure that is no mount; what can be deleted is deleted all the same.
pub fn remove_tree(dir: impl AsFd, name: &OsStr) -> io::Result<bool> {
    let Some(name) = CString::new(name.as_encoded_bytes()).ok() else {
        return Err(Errno::EINVAL.into());
    };
    remove(dir.as_fd(), &name, 0)
}

fn remove(dir: impl AsFd, name: &CStr, depth: usize) -> io::Result<bool> {
    match unlinkat(dir.as_fd(), name, UnlinkatFlags::NoRemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => return Ok(true),
        // A mount on a file.
        Err(Errno::EBUSY) => return Ok(false),
        Err(Errno::EISDIR | Errno::EPERM) => {}
        Err(error) => return Err(error.into()),
    }
    if depth >= MAX_DEPTH {
        return Err(Errno::ELOOP.into());
    }
    let how = OpenHow::new().flags(DIRECTORY).resolve(
        ResolveFlag::RESOLVE_NO_XDEV
            | ResolveFlag::RESOLVE_NO_SYMLINKS
            | ResolveFlag::RESOLVE_BENEATH,
    );
    let inner = match openat2(dir.as_fd(), name, how) {
        Ok(inner) => inner,
        Err(Errno::EXDEV) => return Ok(false),
        Err(Errno::ENOENT) => return Ok(true),
        Err(error) => return Err(error.into()),
    };
    let mut complete = true;
    let mut failure = None;
    for entry in names(&inner)? {
        match remove(&inner, &entry, depth + 1) {
            Ok(gone) => complete &= gone,
            Err(error) => failure = failure.or(Some(error)),
        }
    }
    if let Some(error) = failure {
        return Err(error);
    }
    if !complete {
        return Ok(false);
    }
    match unlinkat(dir, name, UnlinkatFlags::RemoveDir) {
        Ok(()) | Err(Errno::ENOENT) => Ok(true),
        Err(Errno::EBUSY) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// The names in a directory, without `.` and `..`.
///
/// # Errors
/// What getdents(2) says.
pub fn names(dir: impl AsFd) -> io::Result<Vec<CString>> {
    let handle = openat(dir, ".", DIRECTORY, Mode::empty())?;
    let mut names = Vec::new();
    for entry in Dir::from_fd(handle)?.iter() {
        let entry = entry?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            names.push(name.to_owned());
        }
    }
    Ok(names)
}

/// The disk use of a tree in bytes of blocks, and its newest modification in seconds since the
/// epoch (of the directory and what is directly in it). Stops counting at `budget` entries.
pub fn usage(dir: impl AsFd, budget: &mut usize) -> (u64, i64) {
    fn walk(dir: impl AsFd, depth: usize, budget: &mut usize, newest: &mut i64) -> u64 {
        let mut bytes = 0;
        for name in names(dir.as_fd()).unwrap_or_default() {
            if *budget == 0 {
                break;
            }
            *budget -= 1;
            let Ok(stat) = fstatat(dir.as_fd(), name.as_c_str(), AtFlags::AT_SYMLINK_NOFOLLOW)
            else {
                continue;
            };
            bytes += u64::try_from(stat.st_blocks).unwrap_or_default() * 512;
            if depth == 0 {
                *newest = (*newest).max(stat.st_mtime);
            }
            if is(&stat, SFlag::S_IFDIR) && depth < MAX_DEPTH {
                let how = OpenHow::new()
                    .flags(DIRECTORY)
                    .resolve(ResolveFlag::RESOLVE_NO_XDEV | ResolveFlag::RESOLVE_NO_SYMLINKS);
                if let Ok(inner) = openat2(dir.as_fd(), name.as_c_str(), how) {
                    bytes += walk(&inner, depth + 1, budget, newest);
                }
            }
        }
        bytes
    }
    let mut newest = nix::sys::stat::fstat(dir.as_fd()).map_or(0, |stat| stat.st_mtime);
    let bytes = walk(dir, 0, budget, &mut newest);
    (bytes, newest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_planted_link_is_never_followed() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink("elsewhere", root.path().join("sandbox")).unwrap();
        let dir = open(root.path()).unwrap();
        assert!(open_at(&dir, "sandbox").is_err());
        assert!(ensure_at(&dir, "sandbox", 0o750).is_err());
        assert!(ensure_below(&dir, Path::new("sandbox/x"), 0o750).is_err());
        assert!(ensure_below(&dir, Path::new("../x"), 0o750).is_err());
        set_aside(&dir, "sandbox").unwrap();
        assert!(ensure_at(&dir, "sandbox", 0o750).unwrap().1);
        assert!(root.path().join("sandbox.aside-0").is_symlink());
    }

    #[test]
    fn removing_a_tree_deletes_links_and_not_what_they_point_to() {
        let root = tempfile::tempdir().unwrap();
        let deep = root.path().join("tree/a/b");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::create_dir(root.path().join("kept")).unwrap();
        std::fs::write(root.path().join("kept/file"), "x").unwrap();
        std::os::unix::fs::symlink("../../../kept", deep.join("link")).unwrap();
        let dir = open(root.path()).unwrap();
        assert!(remove_tree(&dir, OsStr::new("tree")).unwrap());
        assert!(!root.path().join("tree").exists());
        assert!(root.path().join("kept/file").exists());
        assert!(
            remove_tree(&dir, OsStr::new("tree")).unwrap(),
            "gone is gone"
        );
    }

    #[test]
    fn removing_a_tree_crosses_no_mount() {
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let mounted = root.path().join("tree/mounted");
        std::fs::create_dir_all(&mounted).unwrap();
        let source = root.path().join("source");
        std::fs::create_dir(&source).unwrap();
        std::fs::write(source.join("file"), "x").unwrap();
        nix::mount::mount(
            Some(&source),
            &mounted,
            None::<&str>,
            nix::mount::MsFlags::MS_BIND,
            None::<&str>,
        )
        .unwrap();
        let dir = open(root.path()).unwrap();
        let complete = remove_tree(&dir, OsStr::new("tree"));
        nix::mount::umount(&mounted).unwrap();
        assert!(!complete.unwrap());
        assert!(source.join("file").exists());
        assert!(mounted.exists());
    }
}
