//! Containers: the [`ContainerService`] behind the HTTP front.
//!
//! ```text
//!  Containers::launch -> registry (pure) -> task: launch.rs (blocking) -> shim's report -> Running
//!                                              |                                            |
//!  Containers::wait   <- watch channel <-------'---- shim's pidfd readable: run/exit <------'
//!  Agent::start       -> recover.rs: records + locks -> registry -> the same task, from Running
//! ```
//!
//! - `registry.rs` decides, everything else obeys; it is only ever changed under one lock, which is
//!   never held across an await.
//! - A process container is ended when its shim is, and nothing else tells: the kernel's pidfd does. Those of images are
//!   told of by an [`ImageRuntime`](crate::images::ImageRuntime): `image.rs`.
//! - One task for each living container; they end with the agent, the containers do not.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use longshore_paths::ContainerId;
use longshore_sandbox::dirs;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use self::registry::{Action, Answer, Event, Life, Limits, Registry};
use self::sandbox::Sandboxes;
use self::spares::Spares;
use crate::cgroup::{self, Layout};
use crate::error::AgentError;
use crate::images::{ImageContainer, ImageRuntime, is_image};
use crate::options::{AgentOptions, LogOptions, SandboxGc, ShimCommand};
use crate::process::{self, ProcessId};
use crate::record::{Cgroups, Facts};
use crate::service::{
    ContainerService, ContainerView, ExitInfo, KillError, LaunchError, LaunchErrorKind,
    LaunchRequest, Launched, NotFound, Output, Phase, ReadError, RemoveError, Slice,
};
use crate::shim::sys;

mod aside;
mod drive;
mod holder;
mod image;
mod launch;
mod lost;
mod maintain;
mod plan;
mod recover;
mod registry;
mod sandbox;
mod spares;

pub use aside::SET_ASIDE;
pub(crate) use plan::{Rights, plan_by_part};

/// How long a start waits for an agent that is just ending.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);
const CONTAINERS: &str = "containers";
/// The most bytes that the name of a launch's directory has, and those of them that no other launch has.
const NAME_MAX: usize = 217;
const LAUNCH_LENGTH: usize = 17;

/// The process containers of an agent. Clones are handles on the same set.
#[derive(Debug, Clone)]
pub struct Containers {
    shared: Arc<Shared>,
    // Ends the tasks with the last handle; the containers live on.
    _stop: Arc<DropGuard>,
}

#[derive(Debug)]
struct Shared {
    host: Host,
    inner: Mutex<Inner>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

/// What does not change while the agent runs.
#[derive(Debug)]
struct Host {
    sandboxes: Sandboxes,
    /// `<run_dir>/containers`
    containers: PathBuf,
    boot_id: String,
    layout: Layout,
    shim: ShimCommand,
    spares: Spares,
    start_timeout: Duration,
    logs: LogOptions,
    gc: SandboxGc,
    retention: Duration,
    open_files: Option<(u64, u64)>,
    images: Option<Arc<dyn ImageRuntime>>,
    /// flock(2) on the run directory.
    _lock: File,
}

#[derive(Debug, Default)]
struct Inner {
    registry: Registry,
    handles: BTreeMap<ContainerId, Handle>,
}

/// What is held of a container that the registry knows.
#[derive(Debug)]
struct Handle {
    dir: PathBuf,
    launched: SystemTime,
    facts: Facts,
    cgroups: Cgroups,
    init: Option<(ProcessId, Arc<OwnedFd>)>,
    /// In the place of `dir`, `cgroups` and `init`, for a container of an image.
    image: Option<Arc<dyn ImageContainer>>,
    image_pid: Option<u32>,
    exit: watch::Sender<Option<ExitInfo>>,
}

/// What is left to do outside the lock.
#[derive(Debug, Default)]
struct Deferred {
    /// The first signal that could not be sent.
    signal: Option<io::Error>,
    dirs: Vec<PathBuf>,
    gone: Vec<sandbox::Gone>,
    kept: Option<io::Error>,
}

impl Containers {
    /// Takes over what an earlier agent has left in `options.run_dir`.
    ///
    /// # Errors
    /// When a directory cannot be made, or another agent uses it.
    pub async fn start(options: &AgentOptions) -> Result<Self, AgentError> {
        let options = options.clone();
        let limits = Limits {
            containers: options.max_containers.max(1),
            retention: options.exit_retention,
        };
        let (host, found) = blocking(move || {
            let host = Host::open(&options)?;
            let found = recover::read(&host);
            Ok::<_, AgentError>((host, found))
        })
        .await
        .map_err(|error| AgentError::Io {
            action: "recover the containers of",
            path: PathBuf::from(CONTAINERS),
            source: error,
        })??;
        let stop = CancellationToken::new();
        let shared = Arc::new(Shared {
            host,
            inner: Mutex::new(Inner {
                registry: Registry::new(limits),
                handles: BTreeMap::new(),
            }),
            tasks: TaskTracker::new(),
            stop: stop.clone(),
        });
        shared.adopt(found);
        if let Some(images) = &shared.host.images {
            let found = images.recover().await;
            shared.adopt_images(found);
        }
        shared.spawn(Shared::maintain);
        Ok(Self {
            shared,
            _stop: Arc::new(stop.drop_guard()),
        })
    }

    /// Stops watching; the containers live on and are taken over by the next start.
    pub async fn shutdown(self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
        self.shared.host.spares.close();
        self.shared.host.layout.tidy();
    }
}

impl ContainerService for Containers {
    async fn launch(&self, request: LaunchRequest) -> Result<Launched, LaunchError> {
        let (tell, told) = oneshot::channel();
        let begun = match &self.shared.host.images {
            Some(images) if is_image(request.container.as_ref()) => {
                self.shared.begin_image(images, request, tell)
            }
            _ => self.shared.begin(request, tell),
        };
        if !begun? {
            return Ok(Launched::AlreadyPresent);
        }
        told.await.unwrap_or_else(|_| {
            Err(LaunchError {
                kind: LaunchErrorKind::Internal,
                message: "The agent is shutting down".to_owned(),
            })
        })
    }

    async fn wait(&self, id: &ContainerId) -> Result<ExitInfo, NotFound> {
        let mut exit = match self.shared.lock().handles.get(id) {
            Some(handle) => handle.exit.subscribe(),
            None => return Err(NotFound),
        };
        // The sender goes with a container that was never started.
        let ended = exit.wait_for(Option::is_some).await.map_err(|_| NotFound)?;
        ended.clone().ok_or(NotFound)
    }

    async fn kill(&self, id: &ContainerId, signal: i32) -> Result<(), KillError> {
        let failed =
            |text: &str| KillError::Failed(format!("Unable to send signal to container: {text}"));
        if !(0..=64).contains(&signal) {
            let lives = !matches!(
                self.shared.lock().registry.get(id),
                None | Some(Life::Exited { .. })
            );
            return Err(if lives {
                failed("Invalid argument")
            } else {
                KillError::NotFound
            });
        }
        let (answer, deferred) = self.shared.step(id, Event::Kill { signal });
        self.shared.lock().end_image_that_starts(id);
        let error = deferred.signal.as_ref().and_then(io::Error::raw_os_error);
        self.shared.finish(deferred);
        match (answer, error) {
            (Answer::NotFound, _) => Err(KillError::NotFound),
            // It is ending by itself at this very moment.
            (_, None | Some(libc::ESRCH)) => Ok(()),
            (_, Some(errno)) => Err(failed(nix::errno::Errno::from_raw(errno).desc())),
        }
    }

    async fn remove(&self, id: &ContainerId) -> Result<(), RemoveError> {
        let (answer, deferred) = self.shared.step(id, Event::Remove);
        let failed = |error: &io::Error| RemoveError {
            message: format!("Failed to remove the sandbox of container {id}: {error}"),
        };
        if let Answer::Refused(_, message) = answer {
            return Err(RemoveError { message });
        }
        let kept = deferred.kept.as_ref().map(failed);
        let shared = Arc::clone(&self.shared);
        let deleted = self
            .shared
            .tasks
            .spawn_blocking(move || shared.delete(deferred))
            .await
            .map_err(|error| failed(&io::Error::other(error)))?;
        match (kept, deleted) {
            (Some(error), _) => Err(error),
            (None, Err(error)) => Err(failed(&error)),
            (None, Ok(())) => Ok(()),
        }
    }

    async fn read(&self, output: &Output, offset: u64, length: u64) -> Result<Slice, ReadError> {
        let (shared, wanted) = (Arc::clone(&self.shared), output.clone());
        let read = blocking(move || shared.host.sandboxes.read(&wanted, offset, length)).await;
        read.and_then(|read| read).map_err(|error| {
            let errno = error.raw_os_error();
            match errno {
                Some(libc::ENOENT | libc::ELOOP | libc::ENOTDIR | libc::EINVAL | libc::ENXIO) => {
                    ReadError::NotFound
                }
                _ => ReadError::Failed(format!(
                    "Failed to read {} of container {}: {error}",
                    output.stream.as_str(),
                    output.id
                )),
            }
        })
    }

    fn list(&self) -> Vec<ContainerView> {
        let inner = self.shared.lock();
        inner
            .registry
            .living()
            .filter_map(|(id, phase)| Some(inner.handles.get(id)?.view(id, phase)))
            .collect()
    }
}

impl Handle {
    fn new(dir: PathBuf, launched: SystemTime) -> Self {
        Self {
            dir,
            launched,
            facts: Facts::default(),
            cgroups: Cgroups::default(),
            init: None,
            image: None,
            image_pid: None,
            exit: watch::Sender::new(None),
        }
    }

    fn view(&self, id: &ContainerId, phase: Phase) -> ContainerView {
        ContainerView {
            id: id.clone(),
            pid: self
                .init
                .as_ref()
                .and_then(|(init, _)| u32::try_from(init.pid).ok())
                .or(self.image_pid),
            phase,
            started: self.launched,
            cpus: self.facts.cpus,
            cpus_limit: self.facts.cpus_limit,
            mem_bytes: self.facts.mem_bytes,
            mem_limit_bytes: self.facts.mem_limit_bytes,
            unenforced: self.facts.unenforced.clone(),
        }
    }

    /// Signals the first process. Its shim goes on if somebody has stopped it: it would never see the end.
    fn signal(&self, signal: i32) -> io::Result<()> {
        if let Some(image) = &self.image {
            image.signal(signal);
            return Ok(());
        }
        match &self.init {
            Some((id, init)) => {
                id.continue_shim();
                sys::pidfd_send_signal(init.as_fd(), signal)
            }
            None => Err(io::Error::from_raw_os_error(libc::ESRCH)),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        // No code that runs under the lock panics half-way through a change.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies an event and what follows from it.
    fn step(&self, id: &ContainerId, event: Event) -> (Answer, Deferred) {
        let mut inner = self.lock();
        let (answer, actions) = inner.registry.step(id, event, SystemTime::now());
        (answer, inner.apply(&self.host, actions))
    }

    /// Does in the background what need not be waited for.
    fn finish(self: &Arc<Self>, deferred: Deferred) {
        if deferred.dirs.is_empty() && deferred.gone.is_empty() {
            return;
        }
        let shared = Arc::clone(self);
        self.tasks.spawn_blocking(move || {
            if let Err(error) = shared.delete(deferred) {
                tracing::warn!(%error, "what is left of a container could not be deleted");
            }
        });
    }

    fn delete(&self, deferred: Deferred) -> io::Result<()> {
        for dir in &deferred.dirs {
            self.host.forget_dir(dir);
        }
        deferred
            .gone
            .iter()
            .try_for_each(|gone| self.host.sandboxes.delete(gone))
    }

    /// Runs a task until it ends or the agent stops.
    fn spawn<F>(self: &Arc<Self>, task: impl FnOnce(Arc<Self>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let stop = self.stop.clone();
        let task = task(Arc::clone(self));
        self.tasks.spawn(async move {
            tokio::select! {
                () = stop.cancelled() => {}
                () = task => {}
            }
        });
    }
}

impl Inner {
    /// Carries out decisions; every step is a few system calls at most.
    fn apply(&mut self, host: &Host, actions: Vec<Action>) -> Deferred {
        let mut deferred = Deferred::default();
        for action in actions {
            match action {
                Action::Signal(id, signal) => {
                    let sent = self
                        .handles
                        .get(&id)
                        .map_or(Ok(()), |handle| handle.signal(signal));
                    if let Err(error) = sent {
                        deferred.signal.get_or_insert(error);
                    }
                }
                Action::EndTree(id) => {
                    if let Some(handle) = self.handles.get(&id) {
                        cgroup::kill(&handle.cgroups);
                        // The shim sees its end and ends the rest.
                        let _already_gone = handle.signal(libc::SIGKILL);
                    }
                }
                Action::Publish(id, exit) => {
                    if let Some(handle) = self.handles.get_mut(&id) {
                        handle.init = None;
                        handle.exit.send_replace(Some(exit));
                    }
                }
                Action::Forget { id, sandbox } => {
                    if let Some(handle) = self.handles.remove(&id) {
                        match handle.image {
                            Some(image) => image.forget(),
                            None => deferred.dirs.push(handle.dir),
                        }
                    }
                    if sandbox {
                        match host.sandboxes.take_away(&id) {
                            Ok(gone) => deferred.gone.extend(gone),
                            Err(error) => {
                                deferred.kept.get_or_insert(error);
                            }
                        }
                    }
                }
            }
        }
        deferred
    }
}

impl Host {
    fn open(options: &AgentOptions) -> Result<Self, AgentError> {
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
        let lock = lock_run_dir(run_dir)?;
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
        // A separator, and the name.
        let longest = containers.as_os_str().len() + 1 + NAME_MAX;
        Ok(Self {
            sandboxes,
            spares: Spares::new(options.shim.clone(), longest, options.spare_shim),
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
            _lock: lock,
        })
    }

    /// A directory name that no other launch has, on this machine and in this boot.
    fn new_dir(&self, id: &ContainerId) -> io::Result<PathBuf> {
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
    fn forget_dir(&self, dir: &Path) {
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

/// Refuses a directory in which somebody else could plant names.
fn only_ours(name: &'static str, path: &Path) -> Result<(), AgentError> {
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

fn create_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;

    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
}

fn lock_run_dir(path: &Path) -> Result<File, AgentError> {
    let failed = |action| {
        move |source| AgentError::Io {
            action,
            path: path.to_owned(),
            source,
        }
    };
    create_private(path).map_err(failed("create"))?;
    let dir = File::open(path).map_err(failed("open"))?;
    let deadline = std::time::Instant::now() + LOCK_PATIENCE;
    loop {
        match dir.try_lock() {
            Ok(()) => return Ok(dir),
            Err(std::fs::TryLockError::WouldBlock) if std::time::Instant::now() < deadline => {
                // On a thread for blocking work, and for a moment only.
                let _a_pause = nix::poll::poll(&mut [], 20u16);
            }
            Err(std::fs::TryLockError::WouldBlock) => {
                return Err(AgentError::Locked {
                    path: path.to_owned(),
                });
            }
            Err(std::fs::TryLockError::Error(error)) => return Err(failed("lock")(error)),
        }
    }
}

/// Runs blocking work off the reactor.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)
}
