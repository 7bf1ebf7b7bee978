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
//! - A process container is ended when its shim is, and nothing else tells: the kernel's pidfd does. When the first
//!   process has ended its shim is to follow: one that was stopped goes on, or is killed. Those of images are
//!   told of by an [`ImageRuntime`](crate::images::ImageRuntime): `image.rs`.
//! - One task for each living container; they end with the agent, the containers do not.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use longshore_paths::ContainerId;
use tokio::sync::{oneshot, watch};
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use self::host::{CONTAINERS, Host};
use self::registry::{Action, Answer, Event, Life, Limits, Registry};
use crate::cgroup;
use crate::dir_lock::DirLock;
use crate::error::AgentError;
use crate::images::{ImageContainer, is_image};
use crate::options::AgentOptions;
use crate::process::ProcessId;
use crate::record::{Cgroups, Facts};
use crate::service::{
    ContainerService, ContainerView, ExitInfo, KillError, LaunchError, LaunchErrorKind,
    LaunchRequest, Launched, NotFound, Output, Phase, ReadError, RemoveError, Slice,
};
use crate::shim::sys;

mod aside;
mod drive;
mod holder;
mod host;
mod image;
mod launch;
mod lost;
mod maintain;
mod plan;
mod recover;
mod registry;
mod remake;
mod sandbox;
mod spares;

pub use aside::SET_ASIDE;
pub(crate) use host::take_lock;
pub(crate) use plan::{Rights, plan_by_part};

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
        Self::start_under(options, take_lock(&options.run_dir).await?).await
    }

    /// The same, with the lock of the run directory taken already.
    pub(crate) async fn start_under(
        options: &AgentOptions,
        lock: Arc<DirLock>,
    ) -> Result<Self, AgentError> {
        let options = options.clone();
        let limits = Limits {
            containers: options.max_containers.max(1),
            retention: options.exit_retention,
        };
        let (host, found) = blocking(move || {
            let host = Host::open(&options, lock)?;
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

    /// Makes the run directory again where it is gone, with what is in it; the lock of today.
    ///
    /// # Errors
    /// It cannot be made, is not ours, or another agent has it by now.
    pub(crate) async fn look(&self) -> Result<Arc<DirLock>, AgentError> {
        let shared = Arc::clone(&self.shared);
        let restored = blocking(move || shared.restore().map(|()| shared.host.lock()));
        restored.await.map_err(|source| AgentError::Io {
            action: "look at",
            path: self.shared.host.run_dir.clone(),
            source,
        })?
    }

    pub(crate) fn watched_dirs(&self) -> Vec<PathBuf> {
        let host = &self.shared.host;
        vec![host.run_dir.clone(), host.run_dir.join(CONTAINERS)]
    }

    /// Kills every container and waits for their ends, at most for `patience`. Those that live then are
    /// given. Whoever may launch must have been shut out before.
    pub(crate) async fn end_all(&self, patience: Duration) -> Vec<ContainerId> {
        let ids = || -> Vec<ContainerId> { self.list().into_iter().map(|view| view.id).collect() };
        let ended = async {
            while !ids().is_empty() {
                for id in ids() {
                    let _ends_by_itself = self.kill(&id, libc::SIGKILL).await;
                }
                for id in ids() {
                    let _never_started = self.wait(&id).await;
                }
                tokio::task::yield_now().await;
            }
        };
        let _told_by_what_is_left = tokio::time::timeout(patience, ended).await;
        ids()
    }

    /// Whether a shim waits for the next container, which then need not wait for one.
    #[must_use]
    pub fn has_spare_shim(&self) -> bool {
        self.shared.host.spares.waits()
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

/// Runs blocking work off the reactor.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    tokio::task::spawn_blocking(work)
        .await
        .map_err(io::Error::other)
}
