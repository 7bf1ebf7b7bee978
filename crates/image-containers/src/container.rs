//! One container, as the agent sees it.

use std::sync::Arc;

use longshore_agent::images::{ImageContainer, ImageFuture};
use longshore_agent::service::{ExitInfo, LaunchError};
use longshore_docker_executor::{Executor, Kill, KillCause, Task};
use longshore_engine::Engine;
use longshore_mesos_api::v1::TaskState;

use crate::exit;

const SIGKILL: i32 = 9;

#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) executor: Executor,
    pub(crate) engine: Arc<dyn Engine>,
    pub(crate) task: Task,
}

impl Running {
    async fn has_started(&self) -> Result<Option<u32>, LaunchError> {
        let mut view = self.task.watch();
        let runs = |state| matches!(state, Some(TaskState::TaskRunning | TaskState::TaskKilling));
        // The sender lives as long as the task.
        let seen = view.wait_for(|view| view.over || runs(view.state)).await;
        let over = seen.is_ok_and(|view| view.over);
        let Some(status) = self.task.last_status() else {
            return Ok(None);
        };
        match exit::launch_failure(&status) {
            Some(failure) if over => Err(failure),
            _ => Ok(exit::pid_of(&status)),
        }
    }
}

impl ImageContainer for Running {
    fn started(&self) -> ImageFuture<'_, Result<Option<u32>, LaunchError>> {
        Box::pin(self.has_started())
    }

    fn signal(&self, signal: i32) {
        if signal == SIGKILL {
            self.task.kill(Kill {
                cause: KillCause::Asked,
                reason: None,
                grace: Some(std::time::Duration::ZERO),
                signal: Some("SIGKILL".to_owned()),
            });
            return;
        }
        let Some(container) = self.task.watch().borrow().container.clone() else {
            return;
        };
        let (engine, id) = (Arc::clone(&self.engine), self.task.id().to_owned());
        drop(tokio::spawn(async move {
            if let Err(error) = engine.kill(&container, &signal.to_string()).await {
                tracing::warn!(container = id, signal, %error, "a signal was not sent");
            }
        }));
    }

    fn ended(&self) -> ImageFuture<'_, ExitInfo> {
        Box::pin(async { exit::of_status(&self.task.ended().await) })
    }

    fn forget(&self) {
        let (executor, task) = (self.executor.clone(), self.task.clone());
        drop(tokio::spawn(async move {
            // Its container goes first: the record is what knows of it. A process that ends now finds it again.
            task.finished().await;
            if let Err(error) = executor.forget(&task).await {
                tracing::warn!(container = task.id(), %error, "the record of an ended container was not removed");
            }
        }));
    }
}
