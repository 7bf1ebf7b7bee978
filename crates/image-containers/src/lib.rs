//! Internal to Longshore: containers of images for the embedded agent.
//!
//! A LAUNCH of type DOCKER, or of type MESOS with an image, becomes a task of the docker executor, which knows all about
//! engines: records, pulls, kills, output, restarts of the engine and of ourselves.
//!
//! ```text
//!  agent --ImageOrder--> ImageContainers --TaskInfo--> Executor --> engine
//!        <--ExitInfo----                 <--TaskStatus-
//! ```
//!
//! # Invariants
//!
//! - The agent decides about ids, sandboxes and answers; nothing of that is here.
//! - A container is on record before it exists, and found again by the next process: [`ImageRuntime::recover`].
//! - What an engine cannot do, or a task cannot ask for, is refused with the field and the value.

mod container;
mod exit;
mod request;

use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use longshore_agent::images::{FoundImage, ImageContainer, ImageFuture, ImageOrder, ImageRuntime};
use longshore_agent::service::{LaunchError, LaunchRequest};
use longshore_docker_executor::{
    Executor, ExecutorError, ExecutorOptions, HostProcesses, Launch, Task,
};
use longshore_engine::Engine;
pub use longshore_sandbox::Rotation;
use longshore_task_spec::Sandbox;
use longshore_task_spec::hooks::{ContainerHooks, NoHooks};
use tokio::task::AbortHandle;

use container::Running;

/// Whose the containers are, in their labels.
const OWNER: &str = "agent";
/// Where the sandbox is in a container: as a Mesos agent mounts it.
const SANDBOX: &str = "/mnt/mesos/sandbox";
/// A container with our labels that is on no record is left alone for so long: its launch may be under way.
const STRAY_GRACE: Duration = Duration::from_secs(60);
/// How often strays are looked for.
const STRAYS: Duration = Duration::from_secs(600);

/// What holds for all containers.
#[derive(Debug, Clone)]
pub struct ImageOptions {
    /// Where they are on record: absolute, of mode 0700, and nobody else's.
    pub state_dir: PathBuf,
    /// When output files are put aside.
    pub rotation: Rotation,
    /// How long an engine that cannot be reached is asked again for a launch.
    pub patience: Duration,
}

/// Why containers of images cannot be run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// The directory of the records cannot be made.
    #[error("cannot create the directory {}", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// The executor refuses its settings.
    #[error("the executor of containers of images")]
    Executor(#[from] ExecutorError),
}

/// Runs containers of images on one engine. Clones are the same. Needs a tokio runtime with time and I/O.
///
/// Dropping it leaves the containers as they are.
#[derive(Debug, Clone)]
pub struct ImageContainers {
    executor: Executor,
    engine: Arc<dyn Engine>,
    _strays: Arc<AbortOnDrop>,
}

#[derive(Debug)]
struct AbortOnDrop(AbortHandle);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl ImageContainers {
    /// On this engine, which need not be there yet.
    ///
    /// # Errors
    /// [`ImageError`] when the directory of the records cannot be made, or is no absolute path.
    pub fn new(engine: Arc<dyn Engine>, options: ImageOptions) -> Result<Self, ImageError> {
        Self::with_hooks(engine, options, Arc::new(NoHooks))
    }

    /// The same, with hooks around each container.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn with_hooks(
        engine: Arc<dyn Engine>,
        options: ImageOptions,
        hooks: Arc<dyn ContainerHooks>,
    ) -> Result<Self, ImageError> {
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&options.state_dir)
            .map_err(|source| ImageError::Directory {
                path: options.state_dir.clone(),
                source,
            })?;
        let settings = ExecutorOptions {
            rotation: options.rotation,
            patience: options.patience,
            prepared_by_agent: false,
            ..ExecutorOptions::new(options.state_dir, OWNER)
        };
        let processes = Arc::new(HostProcesses);
        let executor = Executor::with(Arc::clone(&engine), settings, hooks, processes)?;
        let strays = tokio::spawn(remove_strays(executor.clone()));
        Ok(Self {
            executor,
            engine,
            _strays: Arc::new(AbortOnDrop(strays.abort_handle())),
        })
    }

    /// What runs the containers.
    #[must_use]
    pub const fn executor(&self) -> &Executor {
        &self.executor
    }

    fn running(&self, task: Task) -> Arc<Running> {
        Arc::new(Running {
            executor: self.executor.clone(),
            engine: Arc::clone(&self.engine),
            task,
        })
    }

    async fn found(&self) -> Vec<FoundImage> {
        let executor = self.executor.clone();
        let read = tokio::task::spawn_blocking(move || executor.recover()).await;
        let recovery = match read {
            Ok(Ok(recovery)) => recovery,
            Err(error) => {
                tracing::error!(%error, "the records of containers of images were not read");
                return Vec::new();
            }
            Ok(Err(error)) => {
                tracing::error!(%error, "the records of containers of images cannot be read; none is taken over");
                return Vec::new();
            }
        };
        for (name, problem) in &recovery.damaged {
            tracing::error!(
                name,
                problem,
                "the record of a container of an image cannot be read; it is left alone"
            );
        }
        let mut found: Vec<_> = recovery
            .tasks
            .into_iter()
            .filter_map(|task| self.found_one(task))
            .collect();
        // Of one id the living one counts, and of ended ones the last.
        found.sort_by_key(|one| {
            let ended = one.exited.as_ref().map(|(_, at)| std::cmp::Reverse(*at));
            (one.exited.is_some(), ended)
        });
        found
    }

    fn found_one(&self, task: Task) -> Option<FoundImage> {
        let Some(request) = request::of_task(task.info()) else {
            tracing::error!(
                task = task.id(),
                "a task is no container's; it is left alone"
            );
            return None;
        };
        let ended = task.watch().borrow().over;
        let status = ended.then(|| task.last_status()).flatten();
        Some(FoundImage {
            request,
            launched: SystemTime::UNIX_EPOCH + task.launched(),
            exited: status.map(|status| (exit::of_status(&status), exit::time_of(&status))),
            container: self.running(task),
        })
    }
}

impl ImageRuntime for ImageContainers {
    fn check(&self, request: &LaunchRequest) -> Result<(), LaunchError> {
        request::check(request)
    }

    fn launch(&self, order: ImageOrder) -> Arc<dyn ImageContainer> {
        let mut launch = Launch::new(request::to_task(&order.request));
        launch.sandbox = Some(Sandbox {
            host: order.sandbox.display().to_string(),
            mapped: SANDBOX.to_owned(),
        });
        self.running(self.executor.launch(launch))
    }

    fn recover(&self) -> ImageFuture<'_, Vec<FoundImage>> {
        Box::pin(self.found())
    }
}

/// Judges a request as [`ImageContainers`] does, without an engine.
///
/// # Errors
/// With the text of the answer.
pub fn check(request: &LaunchRequest) -> Result<(), LaunchError> {
    request::check(request)
}

/// Never ends.
async fn remove_strays(executor: Executor) {
    loop {
        tokio::time::sleep(STRAYS).await;
        match executor.remove_strays(STRAY_GRACE).await {
            Ok(removed) => {
                for name in removed {
                    tracing::info!(name, "a container of ours that is on no record was removed");
                }
            }
            Err(error) => tracing::debug!(%error, "strays cannot be looked for"),
        }
    }
}
