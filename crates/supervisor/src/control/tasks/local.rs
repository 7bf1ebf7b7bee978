//! The task verbs without a daemon: within one process, for its own tasks.

use std::path::{Path, PathBuf};
use std::time::Duration;

use longshore_paths::RuntimeDir;
use longshore_task_manager::TaskManager;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::service::Routes;

use super::{TaskControl, Tasks};
use crate::control::{Access, ControlSocket, serve_routes};
use crate::nri::Nri;
use crate::reload::chain;
use crate::{SupervisorError, TaskSettings};

/// Beyond a task's own grace: for KILL, for the last output, and for an engine that takes its time to remove.
const END: Duration = Duration::from_secs(60);

/// The tasks below a root of their own, with the task verbs on a socket there.
#[derive(Debug)]
pub struct LocalTasks {
    manager: TaskManager,
    engine: String,
    socket: PathBuf,
    stop: CancellationToken,
    tracker: TaskTracker,
    grace: Duration,
}

impl LocalTasks {
    /// Serves below `state_dir` and `runtime_dir`, which are nobody else's and of mode 0700. The engine has to answer.
    ///
    /// # Errors
    /// [`SupervisorError::Engine`]: none can be used, or it does not answer; what cannot be read or bound.
    pub async fn start(
        settings: &TaskSettings,
        state_dir: &Path,
        runtime_dir: &Path,
    ) -> Result<Self, SupervisorError> {
        let runtime = RuntimeDir::new(runtime_dir);
        let tasks = Tasks::start(settings, state_dir, &Nri::none()).await?;
        let (manager, engine) = match &tasks {
            Tasks::There {
                manager, address, ..
            } => {
                answers(manager, address).await?;
                (manager.clone(), address.clone())
            }
            Tasks::Absent(reason) => {
                return Err(SupervisorError::Engine {
                    reason: reason.clone(),
                });
            }
        };
        let socket = ControlSocket::bind(&runtime, Access::default())?;
        let (tracker, stop) = (TaskTracker::new(), CancellationToken::new());
        let control = TaskControl::new(tasks, tracker.clone(), stop.clone());
        let routes = Routes::new(control.server());
        tracker.spawn(serve_routes(socket, routes, stop.clone()));
        Ok(Self {
            manager,
            engine,
            socket: runtime.control_socket(),
            stop,
            tracker,
            grace: settings.grace,
        })
    }

    /// Where the verbs are served.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The engine's address, as `unix:///PATH`.
    #[must_use]
    pub fn engine(&self) -> &str {
        &self.engine
    }

    /// Ends all tasks and forgets them, and serves no more.
    ///
    /// # Errors
    /// A task that could not be ended or forgotten: its container may be left.
    pub async fn end(self) -> Result<(), SupervisorError> {
        let ended = self.manager.end_all(self.grace + END).await;
        self.stop.cancel();
        self.tracker.close();
        // What still streams has nobody who reads it.
        let _late = tokio::time::timeout(Duration::from_secs(5), self.tracker.wait()).await;
        ended.map_err(|source| SupervisorError::Tasks { source })
    }
}

/// Waits until the engine has answered once, or has not.
async fn answers(manager: &TaskManager, address: &str) -> Result<(), SupervisorError> {
    let mut engine = manager.engine();
    let asked = engine
        .wait_for(|engine| engine.version.is_some() || engine.silent.is_some())
        .await;
    let silent = match asked {
        Ok(engine) => engine.silent.clone().map(|(_, reason)| reason),
        Err(error) => Some(chain(&error)),
    };
    match silent {
        None => Ok(()),
        Some(reason) => Err(SupervisorError::Engine {
            reason: format!("{address}: {reason}"),
        }),
    }
}
