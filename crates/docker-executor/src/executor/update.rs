//! Resources of a container that runs, changed.

use std::time::Duration;

use longshore_engine::Resources;
use longshore_task_spec::hooks::HookError;

use super::Executor;
use crate::driver::calls::{HOOK, heed};
use crate::{ExecutorError, Task};

impl Executor {
    /// Changes the resources of a task's container; hooks may change the change. Returns the engine's warnings. The task's
    /// record stays as it is: another container of it would have what was asked for first.
    ///
    /// # Errors
    /// [`ExecutorError::NotRunning`], [`ExecutorError::Hook`] (nothing was changed), [`ExecutorError::Engine`].
    pub async fn update(
        &self,
        task: &Task,
        resources: Resources,
    ) -> Result<Vec<String>, ExecutorError> {
        let shared = &task.shared;
        let container = {
            let view = task.watch();
            let view = view.borrow();
            view.container.clone().filter(|_| !view.over)
        };
        let Some(container) = container else {
            return Err(ExecutorError::NotRunning {
                id: task.id().to_owned(),
            });
        };
        let turn = shared.hooks.lock().await;
        let asked = self.core.hooks.updating(&shared.hook, resources);
        let resources = within(HOOK, asked).await?;
        let warnings = self.core.engine.update(&container, &resources).await?;
        heed(self.core.hooks.updated(&shared.hook)).await;
        drop(turn);
        Ok(warnings)
    }
}

async fn within<T>(
    limit: Duration,
    moment: longshore_task_spec::hooks::HookFuture<'_, T>,
) -> Result<T, HookError> {
    match tokio::time::timeout(limit, moment).await {
        Ok(result) => result,
        Err(_) => Err(HookError::Unavailable {
            reason: format!("no answer within {limit:?}"),
        }),
    }
}
