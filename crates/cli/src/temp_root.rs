//! A temporary root: a directory that goes with the process, also one that was killed, then with the next one.

use std::fs::File;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use longshore_paths::check_socket_path;

/// In a root, locked by whoever works there. A root whose file nobody holds was left by one that was killed.
const ALIVE: &str = "alive";

/// A directory of our own (0700) in `$TMPDIR`, else `/tmp`.
#[derive(Debug)]
pub(crate) struct TempRoot {
    path: PathBuf,
    removed: bool,
    /// Held locked.
    _alive: File,
}

impl TempRoot {
    /// Makes it, and removes those beside it that others of this user were killed in. A `$TMPDIR` too long for a
    /// socket's path is passed over for `/tmp`.
    pub(crate) fn new(prefix: &str) -> Result<Self> {
        let given = std::env::var_os("TMPDIR")
            .map(PathBuf::from)
            .filter(|dir| dir.is_absolute());
        // As long as the longest socket path below: <root>/r/csi/<16 digits>/csi.sock.
        let fits = |dir: &PathBuf| {
            let sample = format!("{prefix}XXXXXX/r/csi/0123456789abcdef/csi.sock");
            check_socket_path(&dir.join(sample)).is_ok()
        };
        let dir = given.filter(fits).unwrap_or_else(|| PathBuf::from("/tmp"));
        sweep(&dir, prefix);
        let template = dir.join(format!("{prefix}XXXXXX"));
        let path = nix::unistd::mkdtemp(&template)
            .with_context(|| format!("cannot create a directory in {}", dir.display()))?;
        let path = path
            .canonicalize()
            .with_context(|| format!("{}", path.display()))?;
        let alive = match hold(&path) {
            Ok(alive) => alive,
            Err(error) => {
                // There is nothing else in it.
                let _removed = std::fs::remove_dir_all(&path);
                return Err(error).with_context(|| format!("cannot lock {}", path.display()));
            }
        };
        Ok(Self {
            path,
            removed: false,
            _alive: alive,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves it where it is, for a person to look at.
    pub(crate) fn keep(mut self) -> PathBuf {
        self.removed = true;
        let _was_there = std::fs::remove_file(self.path.join(ALIVE));
        std::mem::take(&mut self.path)
    }

    /// Removes it with everything in it.
    pub(crate) fn remove(mut self) -> Result<()> {
        self.removed = true;
        remove(&self.path)
    }
}

impl Drop for TempRoot {
    /// The way out of a failure, where the failure is what is told.
    fn drop(&mut self) {
        if !self.removed
            && let Err(error) = remove(&self.path)
        {
            tracing::warn!("{error:#}");
        }
    }
}

fn remove(path: &Path) -> Result<()> {
    unmount_below(path)?;
    std::fs::remove_dir_all(path).with_context(|| format!("cannot remove {}", path.display()))
}

/// Makes the file that says so, which has its name only once it is locked.
#[expect(clippy::disallowed_methods, reason = "no state: nothing of it is read")]
fn hold(root: &Path) -> std::io::Result<File> {
    let early = root.join("alive.new");
    let alive = File::create(&early)?;
    alive.lock()?;
    std::fs::rename(&early, root.join(ALIVE))?;
    Ok(alive)
}

/// Removes the roots in `dir` that processes of this user were killed in. What cannot be removed stays.
fn sweep(dir: &Path, prefix: &str) {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    for entry in entries {
        let name = entry.file_name();
        let random = name.to_str().and_then(|name| name.strip_prefix(prefix));
        if random.is_none_or(|random| random.len() != 6) {
            continue;
        }
        let path = entry.path();
        if let Some(_locked) = left_alone(&path)
            && let Err(error) = remove(&path)
        {
            tracing::debug!("{error:#}");
        }
    }
}

/// The file of a root that is nobody's any more, now locked here: the root is this user's own, mode 0700.
fn left_alone(root: &Path) -> Option<File> {
    let meta = std::fs::symlink_metadata(root).ok()?;
    let ours = meta.is_dir()
        && meta.uid() == nix::unistd::geteuid().as_raw()
        && meta.mode() & 0o7777 == 0o700;
    if !ours {
        return None;
    }
    let alive = File::options()
        .read(true)
        .custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK)
        .open(root.join(ALIVE))
        .ok()?;
    alive.try_lock().ok()?;
    Some(alive)
}

/// Detaches whatever is mounted below `root`, innermost first, so that removing never reaches
/// into a mount.
pub(crate) fn unmount_below(root: &Path) -> Result<()> {
    let table =
        std::fs::read_to_string("/proc/self/mountinfo").context("cannot read the mounts")?;
    let mut mounts = mounts_below(&table, root);
    mounts.reverse();
    for mount in mounts {
        nix::mount::umount2(&mount, nix::mount::MntFlags::MNT_DETACH)
            .with_context(|| format!("cannot unmount {}", mount.display()))?;
    }
    Ok(())
}

/// The mount points below `root`, in the order of the table: outer before inner.
fn mounts_below(table: &str, root: &Path) -> Vec<PathBuf> {
    table
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(unescape)
        .filter(|mount| mount.starts_with(root))
        .collect()
}

/// `\040` and the like, as the kernel writes them.
fn unescape(field: &str) -> PathBuf {
    let bytes = field.as_bytes();
    let mut path = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let octal = bytes
            .get(at + 1..at + 4)
            .filter(|_| bytes[at] == b'\\')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match octal {
            Some(byte) => {
                path.push(byte);
                at += 4;
            }
            None => {
                path.push(bytes[at]);
                at += 1;
            }
        }
    }
    PathBuf::from(std::ffi::OsStr::from_bytes(&path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn mounts_below_a_root_are_found() {
        let table = "1 0 8:1 / / rw - ext4 a rw\n\
                     2 1 0:2 / /tmp/x rw - tmpfs b rw\n\
                     3 2 0:3 / /tmp/x/with\\040space rw - tmpfs c rw\n\
                     4 1 0:4 / /tmp/xy rw - tmpfs d rw\n";
        let found = mounts_below(table, Path::new("/tmp/x"));
        assert_eq!(found, [Path::new("/tmp/x"), Path::new("/tmp/x/with space")]);
    }

    #[test]
    fn a_root_whose_process_was_killed_goes_with_the_next_one_and_no_other_does() {
        let dir = tempfile::tempdir().unwrap();
        let root = |name: &str, mode: u32, alive: bool| {
            let path = dir.path().join(name);
            std::fs::create_dir(&path).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            if alive {
                std::fs::write(path.join(ALIVE), "").unwrap();
            }
            path
        };
        let killed = root("p-aaaaaa", 0o700, true);
        std::fs::write(killed.join("file"), "x").unwrap();
        let held = root("p-bbbbbb", 0o700, false);
        let lock = hold(&held).unwrap();
        let stay = [
            held.clone(),
            root("p-cccccc", 0o700, false),
            root("p-dddddd", 0o755, true),
            root("p-long-name", 0o700, true),
            root("q-aaaaaa", 0o700, true),
        ];
        let linked = root("p-eeeeee", 0o700, false);
        std::os::unix::fs::symlink("/dev/null", linked.join(ALIVE)).unwrap();
        sweep(dir.path(), "p-");
        assert!(!killed.exists());
        for path in stay.iter().chain([&linked]) {
            assert!(path.exists(), "{}", path.display());
        }
        drop(lock);
        sweep(dir.path(), "p-");
        assert!(!held.exists());
    }

    #[test]
    fn a_root_that_is_kept_is_not_swept() {
        let path = TempRoot::new("ls-kept-").unwrap().keep();
        sweep(path.parent().unwrap(), "ls-kept-");
        assert!(path.exists());
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn a_root_that_is_dropped_is_gone() {
        let root = TempRoot::new("ls-test-").unwrap();
        let path = root.path().to_owned();
        std::fs::write(path.join("file"), "x").unwrap();
        drop(root);
        assert!(!path.exists());
    }
}
