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
        let container = there(task)?;
        let turn = shared.hooks.lock().await;
        let asked = self.core.hooks.updating(&shared.hook, resources);
        let resources = within(HOOK, asked).await?;
        let warnings = self.core.engine.update(&container, &resources).await?;
        heed(self.core.hooks.updated(&shared.hook, &resources)).await;
        drop(turn);
        Ok(warnings)
    }

    /// The same for whoever stands behind the hooks: it calls none, and waits for none.
    ///
    /// # Errors
    /// [`ExecutorError::NotRunning`], [`ExecutorError::Engine`].
    pub async fn update_unasked(
        &self,
        task: &Task,
        resources: &Resources,
    ) -> Result<Vec<String>, ExecutorError> {
        let container = there(task)?;
        Ok(self.core.engine.update(&container, resources).await?)
    }
}

/// The id of its container, of a task that has one and goes on.
fn there(task: &Task) -> Result<String, ExecutorError> {
    let view = task.watch();
    let view = view.borrow();
    let container = view.container.clone().filter(|_| !view.over);
    container.ok_or_else(|| ExecutorError::NotRunning {
        id: task.id().to_owned(),
    })
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
