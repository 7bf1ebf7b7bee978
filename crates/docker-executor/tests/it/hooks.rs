//! Hooks around a container.

use std::sync::{Arc, Mutex};

use longshore_docker_executor::labels;
use longshore_engine::EnvVar;
use longshore_engine::fake::{Call, Script};
use longshore_task_spec::hooks::{ContainerHooks, Draft, HookContainer, HookError, HookFuture};

use crate::bed::{Bed, SECOND, ended, finished, killed, word};

/// Notes each moment; refuses what it is told to.
#[derive(Debug, Default)]
struct Moments {
    seen: Mutex<Vec<String>>,
    refuse: bool,
}

impl Moments {
    fn note<'a>(&self, what: &str) -> HookFuture<'a, ()> {
        self.seen.lock().unwrap().push(what.to_owned());
        Box::pin(std::future::ready(Ok(())))
    }
}

impl ContainerHooks for Moments {
    fn create<'a>(&'a self, container: &'a HookContainer, draft: Draft) -> HookFuture<'a, Draft> {
        assert_eq!(
            (container.pod.as_str(), container.name.as_str()),
            ("t", "t")
        );
        drop(self.note("create"));
        let Draft::Engine(mut spec) = draft else {
            panic!("{draft:?}")
        };
        spec.env.push(EnvVar::new("ADDED", "1"));
        // It cannot take the container from us.
        spec.labels.clear();
        spec.name = Some("other".to_owned());
        Box::pin(std::future::ready(if self.refuse {
            Err(HookError::Refused {
                reason: "plugin x: not today".to_owned(),
            })
        } else {
            Ok(Draft::Engine(spec))
        }))
    }

    fn created<'a>(&'a self, _: &'a HookContainer) -> HookFuture<'a, ()> {
        self.note("created")
    }

    fn starting<'a>(&'a self, _: &'a HookContainer) -> HookFuture<'a, ()> {
        self.note("starting")
    }

    fn started<'a>(&'a self, _: &'a HookContainer, pid: u32) -> HookFuture<'a, ()> {
        assert!(pid > 0);
        self.note("started")
    }

    fn updating<'a>(
        &'a self,
        _: &'a HookContainer,
        resources: longshore_engine::Resources,
    ) -> HookFuture<'a, longshore_engine::Resources> {
        drop(self.note("updating"));
        Box::pin(std::future::ready(Ok(resources)))
    }

    fn updated<'a>(
        &'a self,
        _: &'a HookContainer,
        _: &'a longshore_engine::Resources,
    ) -> HookFuture<'a, ()> {
        self.note("updated")
    }

    fn stopped<'a>(&'a self, _: &'a HookContainer) -> HookFuture<'a, ()> {
        self.note("stopped")
    }

    fn removed<'a>(&'a self, _: &'a HookContainer) -> HookFuture<'a, ()> {
        self.note("removed")
    }
}

#[tokio::test(start_paused = true)]
async fn hooks_see_every_moment_in_order_and_may_change_or_refuse_the_container() {
    let moments = Arc::new(Moments::default());
    let bed = Bed::hooked(moments.clone());
    let (task, container) = bed.running(Script::default(), "").await;
    let spec = bed.engine.spec(&container).unwrap();
    assert!(spec.env.iter().any(|it| it.name == "ADDED"));
    assert_eq!(spec.name.as_deref(), Some(task.container_name()));
    assert_eq!(spec.labels[labels::OWNER], "test");
    let more = longshore_engine::Resources {
        memory: Some(64 << 20),
        ..longshore_engine::Resources::default()
    };
    bed.executor.update(&task, more).await.unwrap();
    assert_eq!(
        bed.engine.spec(&container).unwrap().resources.memory,
        Some(64 << 20)
    );
    assert_eq!(killed(&task).await, "KILLED killed");
    let late = bed
        .executor
        .update(&task, longshore_engine::Resources::default());
    assert!(late.await.unwrap_err().to_string().contains("does not run"));
    finished(&task).await;
    // The last words may be said after it is finished.
    while moments.seen.lock().unwrap().len() < 8 {
        tokio::time::sleep(SECOND).await;
    }
    let seen = moments.seen.lock().unwrap().clone();
    assert_eq!(
        seen,
        [
            "create", "created", "starting", "started", "updating", "updated", "stopped", "removed"
        ]
    );

    let bed = Bed::hooked(Arc::new(Moments {
        refuse: true,
        ..Moments::default()
    }));
    let task = bed.launch("t", "");
    let last = ended(&task).await;
    assert_eq!(word(&last), "FAILED not-wanted");
    assert!(last.message().contains("plugin x: not today"), "{last:?}");
    assert_eq!(bed.engine.count(Call::Create), 0);
}
