//! What all plugins share: places, the agent, the host, and two small services: pids and mounts.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use longshore_agent_client::{AgentClient, AgentError, Show};
use longshore_backoff::Backoff;
use longshore_checkpoint::Writer;
use longshore_container_daemon::Failure;
use longshore_mesos_api::v1::agent::response::get_containers::Container;
use longshore_paths::ContainerId;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::{Notify, OnceCell, SemaphorePermit, watch};
use tokio::time::{sleep, timeout};

use crate::board::StatusBoard;
use crate::host::{HostView, Mounts, fuse_holder};
use crate::options::{LogReader, ManagerOptions};
use crate::plan::Places;
use crate::turns::Turns;

/// How many stderr lines are kept of a failure.
const STDERR_LINES: usize = 10;

/// How long anybody waits for a pid, which is only nice to have.
const PID_DEADLINE: Duration = Duration::from_secs(5);

/// Several who want pids at once share one GET_CONTAINERS.
const PID_GATHER: Duration = Duration::from_millis(20);

/// How often the mount table is read at most, and at least where the kernel tells of changes.
const MOUNTS_INTERVAL: Duration = Duration::from_secs(1);
const MOUNTS_LONGEST: Duration = Duration::from_secs(60);

/// How many containers that listen already are probed and described at once: the connections of a
/// thousand that are taken over together would be a lot of memory, and no quicker.
const PROBES_AT_ONCE: usize = 32;

/// File-system work at once. Each has a thread of the runtime's, which stays for a while.
static FILES: Turns = Turns::new(16);

/// Threads for work on many plugins, and how many plugins a thread is worth.
const PARTS_MAX: usize = 4;
const PART_MIN: usize = 64;

/// A pid by container id.
pub(crate) type Pids = BTreeMap<String, u32>;

pub(crate) struct Shared {
    pub(crate) places: Places,
    pub(crate) agent: Arc<AgentClient>,
    pub(crate) board: Arc<StatusBoard>,
    pub(crate) host: Arc<dyn HostView>,
    pub(crate) writer: Writer,
    pub(crate) eager: bool,
    logs: Option<Arc<dyn LogReader>>,
    configured_agent_id: Option<Arc<str>>,
    agent_id: OnceCell<Arc<str>>,
    /// Somebody looks at the status.
    pub(crate) looked_at: Notify,
    /// Notified after each liveness probe.
    pub(crate) probed: Arc<Notify>,
    probes: Turns,
    list: Notify,
    pids: watch::Sender<Arc<Pids>>,
    pub(crate) mounts: watch::Sender<Arc<Mounts>>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("places", &self.places)
            .finish_non_exhaustive()
    }
}

impl Shared {
    pub(crate) fn new(options: ManagerOptions, places: Places) -> Self {
        Self {
            places,
            agent: Arc::new(options.agent),
            board: Arc::new(StatusBoard::new()),
            host: options.host,
            writer: Writer::new(),
            eager: options.eager,
            logs: options.logs,
            configured_agent_id: options.agent_id.map(Arc::from),
            agent_id: OnceCell::new(),
            looked_at: Notify::new(),
            probed: Arc::default(),
            probes: Turns::new(PROBES_AT_ONCE),
            list: Notify::new(),
            pids: watch::Sender::new(Arc::default()),
            mounts: watch::Sender::new(Arc::default()),
        }
    }

    /// `MESOS_AGENT_ID`: configured, else the agent's own, else made from the root's instance id,
    /// which is random and kept there. Only an agent that answers decides; it is asked again until
    /// it does, since another id would restart every node plugin.
    pub(crate) async fn agent_id(&self) -> Result<Arc<str>, AgentError> {
        if let Some(id) = &self.configured_agent_id {
            return Ok(Arc::clone(id));
        }
        let ask = || async {
            let ours = || Arc::from(format!("longshore-{}", self.places.instance));
            match self.agent.get_agent().await {
                Ok(answer) => {
                    let id = answer
                        .agent_info
                        .and_then(|info| info.id)
                        .map(|id| id.value);
                    Ok(id.filter(|id| !id.is_empty()).map_or_else(ours, Arc::from))
                }
                Err(error) if error.is_retryable() || error.status().is_none() => Err(error),
                Err(_) => Ok(ours()),
            }
        };
        self.agent_id.get_or_try_init(ask).await.cloned()
    }

    /// A turn at probing what listens on `socket`; `None` for one that has just been started and does not
    /// listen yet, and for one that has waited too long.
    pub(crate) async fn turn(&self, socket: &Path) -> Option<SemaphorePermit<'_>> {
        if std::fs::symlink_metadata(socket).is_err() {
            return None;
        }
        self.probes.take().await
    }

    /// The standalone containers whose id is one of ours.
    pub(crate) async fn list(&self) -> Result<Vec<Container>, AgentError> {
        let show = Show {
            nested: false,
            standalone: true,
        };
        let prefix = self.places.prefix();
        let mut containers = self.agent.get_containers(show).await?;
        containers.retain(|container| {
            let id = &container.container_id;
            id.parent.is_none() && id.value.starts_with(&prefix)
        });
        Ok(containers)
    }

    /// Asks the agent for a container's pid; `None` when it has none or does not say in time.
    pub(crate) async fn pid(&self, id: &ContainerId) -> Option<u32> {
        let mut pids = self.pids.subscribe();
        pids.mark_unchanged();
        self.list.notify_one();
        timeout(PID_DEADLINE, pids.changed()).await.ok()?.ok()?;
        let known = Arc::clone(&pids.borrow());
        known.get(id.value()).copied()
    }

    /// A process of the container's tree that holds `/dev/fuse`.
    pub(crate) async fn fuse_holder(&self, id: &ContainerId) -> Option<u32> {
        let pid = self.pid(id).await?;
        let host = Arc::clone(&self.host);
        blocking(move || fuse_holder(host.as_ref(), pid))
            .await
            .ok()
            .flatten()
    }

    /// Answers those who wait for pids.
    pub(crate) async fn serve_pids(&self) {
        let mut failures = 0;
        loop {
            self.list.notified().await;
            sleep(PID_GATHER).await;
            match self.list().await {
                Ok(containers) => {
                    failures = 0;
                    let pids = containers
                        .iter()
                        .filter_map(|c| Some((c.container_id.value.clone(), pid_of(c)?)));
                    self.pids.send_replace(Arc::new(pids.collect()));
                }
                Err(error) => {
                    tracing::debug!(%error, "no pids from the agent");
                    failures += 1;
                    sleep(Backoff::default().delay(failures, 0.0)).await;
                }
            }
        }
    }

    /// Reads the mount table whenever the kernel says that it has changed, and now and then, and tells when it has.
    pub(crate) async fn serve_mounts(&self) {
        let marks = self.host.mount_marks().and_then(|file| priority(file).ok());
        loop {
            let host = Arc::clone(&self.host);
            let read = blocking(move || host.mount_points()).await;
            let seen = matches!(read, Ok(Ok(_)));
            if let Ok(Ok(found)) = read {
                self.saw_mounts(found);
            }
            sleep(MOUNTS_INTERVAL).await;
            if let Some(marks) = marks.as_ref().filter(|_| seen) {
                // What changes from here on marks it anew.
                if let Ok(Ok(mut marked)) =
                    timeout(MOUNTS_LONGEST, marks.ready(Interest::PRIORITY)).await
                {
                    marked.clear_ready();
                }
            }
        }
    }

    fn saw_mounts(&self, found: Vec<PathBuf>) -> Arc<Mounts> {
        let found = Arc::new(Mounts::new(found));
        self.mounts.send_if_modified(|known| {
            let changed = *known != found;
            if changed {
                *known = Arc::clone(&found);
            }
            changed
        });
        found
    }

    /// The mount points, as they are now. Everybody hears of it, so that whoever is kept by a
    /// mount seen here is told when it is gone.
    pub(crate) async fn mount_points(&self) -> Result<Arc<Mounts>, Failure> {
        let host = Arc::clone(&self.host);
        let found = blocking(move || host.mount_points()).await?;
        let found =
            found.map_err(|error| Failure::new(format!("cannot read the mount table: {error}")))?;
        Ok(self.saw_mounts(found))
    }

    /// The last stderr lines of a container, where its sandbox is known.
    pub(crate) async fn stderr(&self, id: &ContainerId) -> Vec<String> {
        let Some(logs) = self.logs.clone() else {
            return Vec::new();
        };
        let id = id.clone();
        blocking(move || logs.stderr_tail(&id, STDERR_LINES))
            .await
            .unwrap_or_default()
    }

    /// A run of a container begins: earlier stderr lines are none of its own. Blocking.
    pub(crate) fn begins(&self, id: &ContainerId) {
        if let Some(logs) = &self.logs {
            logs.begins(id);
        }
    }
}

/// The pid of a container that is really running (one that is being destroyed has none).
pub(crate) fn pid_of(container: &Container) -> Option<u32> {
    container.container_status.as_ref()?.executor_pid
}

/// Runs file-system work on a blocking thread.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let turn = FILES.take().await;
    let done = tokio::task::spawn_blocking(work).await;
    drop(turn);
    done.map_err(|error| Failure::new(format!("the work was cut off: {error}")))
}

/// Does the same to every item, in their order, on as many threads as it is worth. Blocks.
pub(crate) fn in_parts<T: Send, R: Send>(
    mut items: Vec<T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let threads = std::thread::available_parallelism()
        .map_or(1, usize::from)
        .min(PARTS_MAX)
        .min(items.len() / PART_MIN);
    if threads < 2 {
        return items.into_iter().map(work).collect();
    }
    let length = items.len().div_ceil(threads);
    let mut parts = Vec::with_capacity(threads);
    while !items.is_empty() {
        let rest = items.split_off(length.min(items.len()));
        parts.push(std::mem::replace(&mut items, rest));
    }
    let work = &work;
    std::thread::scope(|scope| {
        let one =
            |part: Vec<T>| scope.spawn(move || part.into_iter().map(work).collect::<Vec<R>>());
        let running: Vec<_> = parts.into_iter().map(one).collect();
        running
            .into_iter()
            .flat_map(|part| part.join().unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    })
}

/// Waits for `POLLPRI` alone.
#[expect(
    deprecated,
    reason = "the successor is an unsafe fn; an `OwnedFd` keeps its descriptor open and the same"
)]
fn priority(file: OwnedFd) -> std::io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(file, Interest::PRIORITY)
}

/// An error with its causes, in one line.
pub(crate) fn line(error: &dyn std::error::Error) -> String {
    Failure::from_error(error).message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_keep_their_order() {
        for count in [0, 1, PART_MIN * 2 - 1, PART_MIN * 2, PART_MIN * 9 + 5] {
            let items: Vec<usize> = (0..count).collect();
            let doubled: Vec<usize> = (0..count).map(|item| item * 2).collect();
            assert_eq!(in_parts(items, |item| item * 2), doubled);
        }
    }
}
