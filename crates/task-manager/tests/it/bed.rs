//! A root, an engine under it, and managers that come one after the other.

use std::sync::Arc;
use std::time::Duration;

use longshore_docker_executor::fake::FakeProcesses;
use longshore_engine::fake::FakeEngine;
use longshore_mesos_api::v1::TaskInfo;
use longshore_mesos_api::{DecodeLimits, json};
use longshore_task_manager::{
    ManagerOptions, NewTask, Phase, TaskManager, TaskManagerError, TaskStatus,
};
use longshore_task_spec::hooks::NoHooks;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const IMAGE: &str = "busybox";

pub(crate) struct Bed {
    pub(crate) engine: FakeEngine,
    pub(crate) manager: TaskManager,
    pub(crate) dir: tempfile::TempDir,
}

impl Bed {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut ManagerOptions)) -> Self {
        Self::on(
            FakeEngine::with_image(IMAGE),
            tempfile::tempdir().unwrap(),
            change,
        )
        .await
    }

    pub(crate) async fn on(
        engine: FakeEngine,
        dir: tempfile::TempDir,
        change: impl FnOnce(&mut ManagerOptions),
    ) -> Self {
        let mut options = ManagerOptions::new(dir.path());
        change(&mut options);
        let processes = Arc::new(FakeProcesses::of(engine.clone()));
        let started = TaskManager::start_with(
            options,
            Arc::new(engine.clone()),
            Arc::new(NoHooks),
            processes,
        );
        let manager = started.await.unwrap();
        Self {
            engine,
            manager,
            dir,
        }
    }

    /// The manager dies, and another one comes after it.
    pub(crate) async fn restarted(self, change: impl FnOnce(&mut ManagerOptions)) -> Self {
        let Self {
            engine,
            manager,
            dir,
        } = self;
        drop(manager);
        Self::on(engine, dir, change).await
    }

    pub(crate) async fn run(&self, id: &str) -> Result<String, TaskManagerError> {
        self.manager.run(task(id, "")).await
    }

    /// A task once it is that far.
    pub(crate) async fn until(&self, id: &str, phase: Phase) -> Arc<TaskStatus> {
        let mut status = self.manager.watch(id).unwrap();
        let reached = status.wait_for(|status| status.phase >= phase).await;
        Arc::clone(&reached.unwrap())
    }
}

/// A task with these members, each followed by its comma.
pub(crate) fn task(id: &str, rest: &str) -> NewTask {
    let container = if rest.contains("\"container\"") {
        String::new()
    } else {
        format!(r#""container":{{"type":"DOCKER","docker":{{"image":"{IMAGE}"}}}},"#)
    };
    let command = if rest.contains("\"command\"") {
        ""
    } else {
        r#""command":{"shell":false},"#
    };
    let text = format!(
        r#"{{{rest}{container}{command}"name":"n","task_id":{{"value":"{id}"}},"agent_id":{{"value":"a"}}}}"#
    );
    let info: TaskInfo = json::from_slice(text.as_bytes(), &DecodeLimits::default())
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    NewTask {
        info,
        ..NewTask::default()
    }
}
