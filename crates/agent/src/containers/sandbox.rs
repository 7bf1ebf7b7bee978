//! Sandboxes: made before a launch, deleted by REMOVE or when they are old or many.
//!
//! ```text
//!  <state_dir>/containers/<id>[/containers/<child id> ..]    0750, the container's user
//!  <state_dir>/containers/.gone-<n>                          being deleted
//! ```
//!
//! The owner of a sandbox can plant names in it, so a nested one is reached by handle, component by
//! component. A sandbox with a mount below it is never touched.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use longshore_paths::ContainerId;
use longshore_sandbox::dirs;
use nix::errno::Errno;
use nix::fcntl::renameat;
use nix::sys::stat::{Mode, fchmod, fstat};
use nix::unistd::{Gid, Uid, fchown};

use crate::options::SandboxGc;
use crate::record::User;
use crate::service::{Output, READ_MAX, Slice};

const CONTAINERS: &str = "containers";
/// A dot: no container id begins with one.
const GONE: &str = ".gone-";
/// How many directory entries a look at the sizes visits at most.
const ENTRIES: usize = 1_000_000;

/// The directory of all sandboxes.
#[derive(Debug)]
pub(crate) struct Sandboxes {
    state_dir: PathBuf,
    base: OwnedFd,
    next: AtomicU64,
}

/// A sandbox that was renamed away and is to be deleted.
#[derive(Debug)]
pub(crate) struct Gone(String);

impl Sandboxes {
    /// Opens the directory, making what is missing with mode 0711: whoever a container runs as must
    /// get to its own sandbox, and not see the others.
    ///
    /// # Errors
    /// What the file system says.
    pub(crate) fn open(state_dir: &Path) -> io::Result<Self> {
        use std::os::unix::fs::DirBuilderExt as _;

        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o711)
            .create(state_dir)?;
        let state_dir = std::fs::canonicalize(state_dir)?;
        let (base, made) = dirs::ensure_at(dirs::open(&state_dir)?, CONTAINERS, 0o711)?;
        if made {
            fchmod(&base, Mode::from_bits_truncate(0o711))?;
        }
        Ok(Self {
            state_dir,
            base,
            next: AtomicU64::new(0),
        })
    }

    /// The directory that sandboxes are reached from: only we can write to it.
    pub(crate) fn base(&self) -> PathBuf {
        self.state_dir.join(CONTAINERS)
    }

    /// The way from [`base`](Self::base) to a sandbox.
    pub(crate) fn below(id: &ContainerId) -> PathBuf {
        let mut path = PathBuf::new();
        for (depth, value) in id.values().into_iter().enumerate() {
            if depth > 0 {
                path.push(CONTAINERS);
            }
            path.push(value);
        }
        path
    }

    /// The absolute path of a sandbox.
    pub(crate) fn path(&self, id: &ContainerId) -> PathBuf {
        self.base().join(Self::below(id))
    }

    /// Makes the sandbox of a container, or takes the one that is there; says whether it was made.
    /// What stands in its place is set aside.
    ///
    /// One that is there already will do on a read-only file system, too.
    ///
    /// # Errors
    /// ENOSPC, EROFS and so on, with nothing left behind.
    pub(crate) fn make(&self, id: &ContainerId, user: Option<&User>) -> io::Result<bool> {
        let parent = self.parent_of(id, true)?;
        let name = id.value();
        let (sandbox, made) = match dirs::ensure_at(&parent, name, 0o750) {
            Ok(found) => found,
            Err(error) if matches!(error.raw_os_error(), Some(libc::ELOOP | libc::ENOTDIR)) => {
                dirs::set_aside(&parent, name)?;
                dirs::ensure_at(&parent, name, 0o750)?
            }
            Err(error) => return Err(error),
        };
        let owned = fchmod(&sandbox, Mode::from_bits_truncate(0o750)).and_then(|()| match user {
            Some(user) => {
                let (uid, gid) = (Uid::from_raw(user.uid), Gid::from_raw(user.gid));
                fchown(&sandbox, Some(uid), Some(gid))
            }
            None => Ok(()),
        });
        if let Err(error) = owned {
            if error == Errno::EROFS && !made && is_as_wanted(&sandbox, user)? {
                return Ok(false);
            }
            if made {
                let _kept = dirs::remove_tree(&parent, OsStr::new(name));
            }
            return Err(error.into());
        }
        Ok(made)
    }

    /// Reads at most `length` bytes of an output file.
    ///
    /// # Errors
    /// ENOENT, ELOOP, ENOTDIR, EINVAL (not a plain file); what read(2) says.
    pub(crate) fn read(&self, output: &Output, offset: u64, length: u64) -> io::Result<Slice> {
        let sandbox = dirs::open_at(self.parent_of(&output.id, false)?, output.id.value())?;
        let file = dirs::read_at(&sandbox, output.stream.as_str())?;
        let size = file.metadata()?.len();
        let length = length.min(READ_MAX).min(size.saturating_sub(offset));
        let mut data = vec![0; usize::try_from(length).unwrap_or_default()];
        let mut read = 0;
        // Shorter than it was when somebody has cut it meanwhile.
        while read < data.len() {
            let at = offset.saturating_add(u64::try_from(read).unwrap_or_default());
            match file.read_at(&mut data[read..], at) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        data.truncate(read);
        Ok(Slice { size, data })
    }

    /// Deletes the sandbox of a container that was never started.
    pub(crate) fn unmake(&self, id: &ContainerId) {
        if let Ok(parent) = self.parent_of(id, false) {
            let _kept = dirs::remove_tree(parent, OsStr::new(id.value()));
        }
    }

    /// Renames a sandbox away, so that its id can be launched again while it is being deleted.
    /// `None` when there is none.
    ///
    /// # Errors
    /// EBUSY when something is mounted below it; what renameat(2) says.
    pub(crate) fn take_away(&self, id: &ContainerId) -> io::Result<Option<Gone>> {
        if mounted_below(&self.path(id))? {
            return Err(Errno::EBUSY.into());
        }
        let parent = match self.parent_of(id, false) {
            Ok(parent) => parent,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        for _ in 0..1000 {
            let n = self.next.fetch_add(1, Ordering::Relaxed);
            let gone = format!("{GONE}{}-{n}", std::process::id());
            if dirs::kind_at(&self.base, &gone)?.is_some() {
                continue;
            }
            return match renameat(&parent, id.value(), &self.base, gone.as_str()) {
                Ok(()) => Ok(Some(Gone(gone))),
                Err(Errno::ENOENT) => Ok(None),
                Err(error) => Err(error.into()),
            };
        }
        Err(Errno::EEXIST.into())
    }

    /// Deletes what was taken away. May take long.
    ///
    /// # Errors
    /// The first failure; EBUSY when a mount has appeared below it.
    pub(crate) fn delete(&self, gone: &Gone) -> io::Result<()> {
        if dirs::remove_tree(&self.base, OsStr::new(&gone.0))? {
            Ok(())
        } else {
            Err(Errno::EBUSY.into())
        }
    }

    /// What an earlier process began to delete.
    pub(crate) fn left_over(&self) -> Vec<Gone> {
        self.names()
            .into_iter()
            .filter(|name| name.starts_with(GONE))
            .map(Gone)
            .collect()
    }

    /// The top-level sandboxes, with their use of the disk and when they were last changed. May
    /// take long.
    pub(crate) fn survey(&self) -> Vec<Sandbox> {
        let mut budget = ENTRIES;
        let mut found = Vec::new();
        for name in self.names() {
            let Ok(id) = ContainerId::new(&name) else {
                continue;
            };
            let Ok(dir) = dirs::open_at(&self.base, &name) else {
                continue;
            };
            let (bytes, seconds) = dirs::usage(&dir, &mut budget);
            let seconds = Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
            found.push(Sandbox {
                id,
                bytes,
                changed: SystemTime::UNIX_EPOCH + seconds,
            });
        }
        found
    }

    fn names(&self) -> Vec<String> {
        let names = dirs::names(&self.base).unwrap_or_default();
        names
            .into_iter()
            .filter_map(|name| name.into_string().ok())
            .collect()
    }

    fn parent_of(&self, id: &ContainerId, make: bool) -> io::Result<OwnedFd> {
        let mut current = self.base.try_clone()?;
        let values = id.values();
        for value in &values[..values.len() - 1] {
            current = dirs::open_at(&current, value)?;
            current = if make {
                dirs::ensure_at(&current, CONTAINERS, 0o711)?.0
            } else {
                dirs::open_at(&current, CONTAINERS)?
            };
        }
        Ok(current)
    }
}

/// A sandbox, as the garbage collection sees it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Sandbox {
    pub id: ContainerId,
    pub bytes: u64,
    pub changed: SystemTime,
}

/// Which sandboxes of ended containers go: the old ones, then the oldest until the rest fits. Those
/// of living containers count and stay.
pub(crate) fn condemned(
    mut all: Vec<Sandbox>,
    lives: impl Fn(&ContainerId) -> bool,
    policy: SandboxGc,
    now: SystemTime,
) -> Vec<ContainerId> {
    let mut total: u64 = all.iter().map(|sandbox| sandbox.bytes).sum();
    all.sort_by_key(|sandbox| sandbox.changed);
    let mut condemned = Vec::new();
    for sandbox in all {
        let old = now
            .duration_since(sandbox.changed)
            .is_ok_and(|age| age >= policy.max_age);
        if (old || total > policy.max_bytes) && !lives(&sandbox.id) {
            total = total.saturating_sub(sandbox.bytes);
            condemned.push(sandbox.id);
        }
    }
    condemned
}

fn mounted_below(path: &Path) -> io::Result<bool> {
    let table = std::fs::read_to_string("/proc/self/mountinfo")?;
    Ok(crate::shim::mounts::points(&table).any(|point| point.starts_with(path)))
}

/// Whether a sandbox has the mode and the owner that it gets when it can be changed.
fn is_as_wanted(sandbox: &OwnedFd, user: Option<&User>) -> io::Result<bool> {
    let stat = fstat(sandbox)?;
    let owner = user.map(|user| (user.uid, user.gid));
    Ok(stat.st_mode & 0o7777 == 0o750
        && owner.is_none_or(|owner| owner == (stat.st_uid, stat.st_gid)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::Stream;

    fn id(text: &str) -> ContainerId {
        text.parse().unwrap()
    }

    #[test]
    fn old_sandboxes_go_and_then_the_oldest_until_the_rest_fits() {
        let at = |seconds| SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        let sandbox = |name: &str, bytes, changed| Sandbox {
            id: id(name),
            bytes,
            changed: at(changed),
        };
        let all = vec![
            sandbox("new", 40, 95),
            sandbox("lives", 100, 1),
            sandbox("ancient", 5, 2),
            sandbox("older", 30, 60),
            sandbox("newer", 30, 80),
        ];
        let policy = |max_bytes| SandboxGc {
            max_age: Duration::from_secs(90),
            max_bytes,
            interval: Duration::from_secs(1),
        };
        for (max_bytes, expected) in [
            (1000, vec!["ancient"]),
            (170, vec!["ancient", "older"]),
            (100, vec!["ancient", "older", "newer", "new"]),
        ] {
            let gone = condemned(
                all.clone(),
                |one| *one == id("lives"),
                policy(max_bytes),
                at(100),
            );
            let gone: Vec<_> = gone.iter().map(ContainerId::value).collect();
            assert_eq!(gone, expected, "{max_bytes}");
        }
    }

    #[test]
    fn a_sandbox_is_made_reused_and_deleted_with_what_is_nested_in_it() {
        let root = tempfile::tempdir().unwrap();
        let sandboxes = Sandboxes::open(root.path()).unwrap();
        assert!(sandboxes.make(&id("c"), None).unwrap());
        assert!(!sandboxes.make(&id("c"), None).unwrap());
        assert!(sandboxes.make(&id("c.n"), None).unwrap());
        assert!(
            sandboxes
                .path(&id("c.n"))
                .ends_with("containers/c/containers/n")
        );
        assert!(sandboxes.path(&id("c.n")).is_dir());
        assert!(sandboxes.make(&id("x.n"), None).is_err(), "no parent");
        let gone = sandboxes.take_away(&id("c")).unwrap().unwrap();
        assert!(
            sandboxes.make(&id("c"), None).unwrap(),
            "the id is free at once"
        );
        sandboxes.delete(&gone).unwrap();
        assert!(sandboxes.take_away(&id("unknown")).unwrap().is_none());
        assert_eq!(sandboxes.survey().len(), 1);
        assert_eq!(sandboxes.left_over().len(), 0);
    }

    #[test]
    fn a_link_planted_where_a_sandbox_goes_is_set_aside() {
        let root = tempfile::tempdir().unwrap();
        let sandboxes = Sandboxes::open(root.path()).unwrap();
        let elsewhere = root.path().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        sandboxes.make(&id("c"), None).unwrap();
        std::fs::create_dir(sandboxes.path(&id("c")).join("containers")).unwrap();
        std::os::unix::fs::symlink(&elsewhere, sandboxes.path(&id("c.n"))).unwrap();
        assert!(sandboxes.make(&id("c.n"), None).unwrap());
        assert!(
            sandboxes
                .path(&id("c.n"))
                .symlink_metadata()
                .unwrap()
                .is_dir()
        );
        sandboxes.make(&id("d"), None).unwrap();
        std::os::unix::fs::symlink(&elsewhere, sandboxes.path(&id("d")).join("containers"))
            .unwrap();
        assert!(sandboxes.make(&id("d.n"), None).is_err());
        assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
    }

    #[test]
    fn output_is_read_in_pieces_and_nothing_else_is() {
        let root = tempfile::tempdir().unwrap();
        let sandboxes = Sandboxes::open(root.path()).unwrap();
        for one in ["c", "c.n"] {
            sandboxes.make(&id(one), None).unwrap();
        }
        let read = |one: &str, stream, offset, length| {
            let output = Output {
                id: id(one),
                stream,
            };
            sandboxes.read(&output, offset, length)
        };
        let file = |one: &str, name: &str| sandboxes.path(&id(one)).join(name);
        std::fs::write(file("c.n", "stdout"), "0123456789").unwrap();
        for (offset, length, data) in [
            (0, 4, "0123"),
            (8, 4, "89"),
            (10, 4, ""),
            (u64::MAX, u64::MAX, ""),
            (0, 0, ""),
        ] {
            let slice = read("c.n", Stream::Stdout, offset, length).unwrap();
            assert_eq!((slice.size, slice.data), (10, data.as_bytes().to_vec()));
        }
        std::fs::write(file("c", "stdout"), vec![b'x'; 100_000]).unwrap();
        let slice = read("c", Stream::Stdout, 0, u64::MAX).unwrap();
        assert_eq!((slice.size, slice.data.len()), (100_000, 65_536));

        let errno = |one: &str| {
            let error = read(one, Stream::Stderr, 0, 1).unwrap_err();
            error.raw_os_error().unwrap()
        };
        assert_eq!(errno("nobody"), libc::ENOENT);
        assert_eq!(errno("c"), libc::ENOENT);
        std::os::unix::fs::symlink("/etc/passwd", file("c", "stderr")).unwrap();
        assert_eq!(errno("c"), libc::ELOOP);
        nix::unistd::mkfifo(&file("c.n", "stderr"), Mode::S_IRWXU).unwrap();
        assert_eq!(errno("c.n"), libc::EINVAL);
        std::os::unix::fs::symlink(root.path(), sandboxes.base().join("d")).unwrap();
        std::fs::write(root.path().join("stderr"), "x").unwrap();
        assert_eq!(errno("d"), libc::ENOTDIR);
    }
}
