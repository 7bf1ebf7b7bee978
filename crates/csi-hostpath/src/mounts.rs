//! What the kernel says about mounts, and mounting through handles.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Read},
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::{
            ffi::{OsStrExt, OsStringExt},
            fs::MetadataExt,
        },
    },
    path::{Path, PathBuf},
};

use nix::{
    fcntl::{OFlag, open},
    mount::{MntFlags, MsFlags, mount, umount2},
    sys::{
        stat::Mode,
        statvfs::{FsFlags, fstatvfs},
    },
};

/// More than any sane machine's mount table.
const MAX_MOUNTINFO: u64 = 64 * 1024 * 1024;

/// CAP_SYS_ADMIN's bit in `CapEff`.
const SYS_ADMIN: u64 = 1 << 21;

/// Whether this process may mount.
pub(crate) fn may_mount() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask & SYS_ADMIN != 0)
}

/// A directory, opened without following a link in its last component.
pub(crate) fn open_dir(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlag::O_PATH | OFlag::O_DIRECTORY | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC;
    Ok(open(path, flags, Mode::empty())?)
}

/// Binds a directory over another one, both through handles.
pub(crate) fn bind(source: &Path, target: &Path, readonly: bool) -> io::Result<()> {
    let (source, over) = (open_dir(source)?, open_dir(target)?);
    let none = None::<&str>;
    mount(
        Some(&through(&source)),
        &through(&over),
        none,
        MsFlags::MS_BIND,
        none,
    )?;
    if readonly {
        let flags = MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        // The handle is of what lies below; the mount on top has to be opened anew.
        let remounted =
            open_dir(target).and_then(|top| Ok(mount(none, &through(&top), none, flags, none)?));
        if let Err(error) = remounted {
            // The read-only failure is what the caller hears of.
            let _ = umount2(target, MntFlags::UMOUNT_NOFOLLOW);
            return Err(error);
        }
    }
    Ok(())
}

/// Takes the topmost mount off a path.
pub(crate) fn unbind(target: &Path) -> io::Result<()> {
    Ok(umount2(target, MntFlags::UMOUNT_NOFOLLOW)?)
}

fn through(handle: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", handle.as_raw_fd()))
}

/// Whether both are the same directory; a link at `path` itself is not followed.
pub(crate) fn same_dir(path: &Path, directory: &Path) -> bool {
    match (fs::symlink_metadata(path), fs::symlink_metadata(directory)) {
        (Ok(a), Ok(b)) => a.is_dir() && (a.dev(), a.ino()) == (b.dev(), b.ino()),
        _ => false,
    }
}

pub(crate) fn is_readonly(path: &Path) -> bool {
    open_dir(path)
        .and_then(|dir| Ok(fstatvfs(&dir)?))
        .is_ok_and(|vfs| vfs.flags().contains(FsFlags::ST_RDONLY))
}

/// A mount point strictly below `directory` or at it.
pub(crate) fn mounted_below(directory: &Path) -> io::Result<Option<PathBuf>> {
    let directory = fs::canonicalize(directory)?;
    let mut table = Vec::new();
    File::open("/proc/self/mountinfo")?
        .take(MAX_MOUNTINFO)
        .read_to_end(&mut table)?;
    Ok(mount_points(&table).find(|point| point.starts_with(&directory)))
}

/// The fifth field of each line of `mountinfo`.
fn mount_points(table: &[u8]) -> impl Iterator<Item = PathBuf> {
    table
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(|field| PathBuf::from(unescape(field)))
}

/// Blank, tab, newline and backslash are written as `\ooo`.
fn unescape(field: &[u8]) -> OsString {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((first, tail)) = rest.split_first() {
        let octal = tail
            .get(..3)
            .filter(|_| *first == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match octal {
            Some(byte) => {
                out.push(byte);
                rest = &tail[3..];
            }
            None => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    OsString::from_vec(out)
}

/// Bytes of a path, for hashing.
pub(crate) fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_are_read_from_the_table_with_their_escapes() {
        let table = b"36 35 98:0 /mnt1 /mnt/a rw - ext3 /dev/root rw\n\
            37 35 98:0 / /mnt/with\\040blank\\134x rw - ext3 /dev/root rw\n\
            short line\n";
        let points: Vec<_> = mount_points(table).collect();
        assert_eq!(
            points,
            [Path::new("/mnt/a"), Path::new("/mnt/with blank\\x")]
        );
    }

    #[test]
    fn a_root_is_below_itself_and_a_fresh_directory_has_nothing_below() {
        assert!(mounted_below(Path::new("/")).unwrap().is_some());
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(mounted_below(dir.path()).unwrap(), None);
    }

    #[test]
    fn a_link_is_not_the_directory_it_leads_to() {
        let dir = tempfile::tempdir().unwrap();
        let (real, link) = (dir.path().join("real"), dir.path().join("link"));
        fs::create_dir(&real).unwrap();
        std::os::unix::fs::symlink(&real, &link).unwrap();
        assert!(same_dir(&real, &real));
        assert!(!same_dir(&link, &real));
        open_dir(&link).unwrap_err();
    }
}
