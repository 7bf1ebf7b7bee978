//! What does not change while the agent runs, and the run directory that is its alone.

use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longshore_paths::ContainerId;
use longshore_sandbox::dirs;

use super::remake::Seen;
use super::sandbox::Sandboxes;
use super::spares::Spares;
use super::{aside, blocking};
use crate::cgroup::Layout;
use crate::dir_lock::{DirLock, create_private};
use crate::error::AgentError;
use crate::images::ImageRuntime;
use crate::options::{AgentOptions, LogOptions, SandboxGc, ShimCommand};
use crate::process;

pub(super) const CONTAINERS: &str = "containers";
/// The most bytes that the name of a launch's directory has, and those of them that no other launch has.
const NAME_MAX: usize = 217;
const LAUNCH_LENGTH: usize = 17;

/// What does not change while the agent runs.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) sandboxes: Sandboxes,
    pub(super) run_dir: PathBuf,
    /// `<run_dir>/containers`
    pub(super) containers: PathBuf,
    pub(super) boot_id: String,
    pub(super) layout: Layout,
    pub(super) shim: ShimCommand,
    pub(super) spares: Spares,
    pub(super) start_timeout: Duration,
    pub(super) logs: LogOptions,
    pub(super) gc: SandboxGc,
    pub(super) retention: Duration,
    pub(super) open_files: Option<(u64, u64)>,
    pub(super) images: Option<Arc<dyn ImageRuntime>>,
    /// On the run directory; another one when that was made again.
    lock: Mutex<Arc<DirLock>>,
    /// The directory of the containers as it was when none was missing in it.
    seen: Mutex<Option<Seen>>,
    pub(super) leash: Option<Leash>,
}

/// A pipe of which each shim has the one end: when the other is closed, with the agent, it ends its container.
#[derive(Debug)]
pub(super) struct Leash {
    pub(super) end: OwnedFd,
    _held: OwnedFd,
}

impl Host {
    pub(super) fn open(options: &AgentOptions, lock: Arc<DirLock>) -> Result<Self, AgentError> {
        let io_error = |action, path: &Path| {
            let path = path.to_owned();
            move |source| AgentError::Io {
                action,
                path,
                source,
            }
        };
        if !options.shim.program.is_absolute() {
            return Err(AgentError::Setting {
                name: "shim",
                problem: format!(
                    "must be an absolute path, not {}",
                    options.shim.program.display()
                ),
            });
        }
        let run_dir = &options.run_dir;
        only_ours("run_dir", run_dir)?;
        let run_dir = std::fs::canonicalize(run_dir).map_err(io_error("use", run_dir))?;
        let containers = run_dir.join(CONTAINERS);
        create_private(&containers).map_err(io_error("create", &containers))?;
        let sandboxes = Sandboxes::open(&options.state_dir)
            .map_err(io_error("create the sandboxes in", &options.state_dir))?;
        only_ours("state_dir", &options.state_dir)?;
        only_ours("state_dir", &sandboxes.base())?;
        let layout = if options.cgroups {
            let root = options.cgroup_root.as_deref();
            Layout::detect(root.unwrap_or_else(|| Path::new("/sys/fs/cgroup")))
        } else {
            Layout::none("cgroups are switched off")
        };
        let leash = options.leash.then(Leash::new).transpose();
        // A separator, and the name.
        let longest = containers.as_os_str().len() + 1 + NAME_MAX;
        // A shim on a leash is one from its start.
        let spare = options.spare_shim && !options.leash;
        Ok(Self {
            sandboxes,
            spares: Spares::new(options.shim.clone(), longest, spare),
            run_dir,
            containers,
            boot_id: process::boot_id().map_err(io_error(
                "read",
                Path::new("/proc/sys/kernel/random/boot_id"),
            ))?,
            layout,
            shim: options.shim.clone(),
            start_timeout: options.start_timeout,
            logs: options.logs,
            gc: options.sandbox_gc,
            retention: options.exit_retention,
            open_files: options.open_files,
            images: options.images.clone(),
            lock: Mutex::new(lock),
            seen: Mutex::new(None),
            leash: leash.map_err(io_error("open a pipe for", &options.run_dir))?,
        })
    }

    pub(super) fn lock(&self) -> Arc<DirLock> {
        Arc::clone(&self.lock.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn seen(&self) -> Option<Seen> {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn see(&self, state: Option<Seen>) {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = state;
    }

    pub(super) fn hold(&self, lock: DirLock) {
        *self.lock.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(lock);
    }

    /// A directory name that no other launch has, on this machine and in this boot.
    pub(super) fn new_dir(&self, id: &ContainerId) -> io::Result<PathBuf> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(io::Error::other)?;
        let launch = u64::from_ne_bytes(random);
        let mut name = id.to_string();
        let mut end = name.len().min(NAME_MAX - LAUNCH_LENGTH);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        name.truncate(end);
        Ok(self.containers.join(format!("{name}@{launch:016x}")))
    }

    /// Deletes a container's directory, but for damaged records. What cannot be deleted is found at the next
    /// start.
    pub(super) fn forget_dir(&self, dir: &Path) {
        let name = dir.file_name().unwrap_or(OsStr::new(""));
        if let Err(error) = aside::rescue(&self.containers, name) {
            tracing::warn!(dir = %dir.display(), %error, "a damaged record cannot be kept elsewhere, so its directory stays");
            return;
        }
        let removed = dirs::open(&self.containers).and_then(|base| dirs::remove_tree(base, name));
        if let Err(error) = removed {
            tracing::warn!(dir = %dir.display(), %error, "a container's directory was not deleted");
        }
    }
}

impl Leash {
    fn new() -> io::Result<Self> {
        let (end, held) = io::pipe()?;
        Ok(Self {
            end: end.into(),
            _held: held.into(),
        })
    }
}

/// Takes the run directory for this agent alone.
pub(crate) async fn take_lock(run_dir: &Path) -> Result<Arc<DirLock>, AgentError> {
    let dir = run_dir.to_owned();
    let taken = blocking(move || DirLock::take(&dir)).await;
    taken
        .map_err(|source| AgentError::Io {
            action: "lock",
            path: run_dir.to_owned(),
            source,
        })?
        .map(Arc::new)
}

/// Refuses a directory in which somebody else could plant names.
pub(super) fn only_ours(name: &'static str, path: &Path) -> Result<(), AgentError> {
    use std::os::unix::fs::MetadataExt as _;

    let stat = std::fs::metadata(path).map_err(|source| AgentError::Io {
        action: "examine",
        path: path.to_owned(),
        source,
    })?;
    let own = nix::unistd::geteuid().as_raw();
    let problem = if stat.uid() != own {
        format!(
            "{} belongs to uid {}, not to {own}",
            path.display(),
            stat.uid()
        )
    } else if stat.mode() & if own == 0 { 0o022 } else { 0o002 } != 0 {
        // An ordinary user's group is often theirs alone, and their umask 0002.
        let mode = stat.mode() & 0o7777;
        format!(
            "{} has mode {mode:04o}: others can write to it",
            path.display()
        )
    } else {
        return Ok(());
    };
    Err(AgentError::Setting {
        name,
        problem: format!("cannot be used: {problem}"),
    })
}
