//! A daemon on a fake runtime, with hooks that record and can be made to fail.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longshore_backoff::{Backoff, RestartPolicy, StartLimit};
use longshore_container_daemon::fake::FakeRuntime;
use longshore_container_daemon::{
    ContainerDaemon, DaemonOptions, DaemonStatus, Failure, Hooks, Phase,
};
use longshore_mesos_api::v1::agent::call::LaunchContainer;
use longshore_mesos_api::v1::{CommandInfo, ContainerId};
use tokio::time::timeout;

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// What a hook does the next time.
#[derive(Clone, Debug)]
pub(crate) enum Plan {
    Fail(Failure),
    Hang,
}

/// Records `prepare`, `start`, `stop`; follows plans.
#[derive(Debug, Default)]
pub(crate) struct Recorder {
    pub(crate) log: Mutex<Vec<&'static str>>,
    pub(crate) seen: Mutex<Vec<(Phase, String)>>,
    plans: Mutex<VecDeque<(&'static str, Plan)>>,
    pub(crate) command: Mutex<Option<String>>,
}

impl Recorder {
    pub(crate) fn plan(&self, hook: &'static str, plan: Plan) {
        self.plans.lock().unwrap().push_back((hook, plan));
    }

    pub(crate) fn log(&self) -> Vec<&'static str> {
        self.log.lock().unwrap().clone()
    }

    async fn run(&self, hook: &'static str) -> Result<(), Failure> {
        self.log.lock().unwrap().push(hook);
        let plan = {
            let mut plans = self.plans.lock().unwrap();
            let at = plans.iter().position(|(name, _)| *name == hook);
            at.and_then(|at| plans.remove(at))
        };
        match plan {
            None => Ok(()),
            Some((_, Plan::Fail(failure))) => Err(failure),
            Some((_, Plan::Hang)) => std::future::pending().await,
        }
    }
}

impl Hooks for Recorder {
    async fn pre_launch(&self, mut request: LaunchContainer) -> Result<LaunchContainer, Failure> {
        self.run("prepare").await?;
        if let Some(value) = self.command.lock().unwrap().clone() {
            request.command = Some(CommandInfo {
                value: Some(value),
                ..CommandInfo::default()
            });
        }
        Ok(request)
    }

    async fn post_start(&self) -> Result<(), Failure> {
        self.run("start").await
    }

    async fn post_stop(&self) -> Result<(), Failure> {
        self.run("stop").await
    }

    fn changed(&self, status: &DaemonStatus) {
        self.seen
            .lock()
            .unwrap()
            .push((status.phase, status.reason.clone()));
    }
}

pub(crate) struct Rig {
    pub(crate) runtime: Arc<FakeRuntime>,
    pub(crate) hooks: Arc<Recorder>,
    pub(crate) daemon: ContainerDaemon,
}

pub(crate) fn options() -> DaemonOptions {
    let container_id = ContainerId {
        value: "c1".to_owned(),
        parent: None,
    };
    let mut options = DaemonOptions::new(LaunchContainer {
        container_id,
        ..LaunchContainer::default()
    });
    options.policy = RestartPolicy {
        backoff: Backoff::new(SECOND, 60 * SECOND, 0.2).unwrap(),
        stable_after: 10 * SECOND,
        start_limit: StartLimit::new(5, 120 * SECOND).unwrap(),
        slow_retry: 300 * SECOND,
    };
    options
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self::with(options())
    }

    pub(crate) fn with(options: DaemonOptions) -> Self {
        let (runtime, hooks) = (Arc::new(FakeRuntime::new()), Arc::new(Recorder::default()));
        let daemon = ContainerDaemon::spawn(options, Arc::clone(&runtime), Arc::clone(&hooks));
        Self {
            runtime,
            hooks,
            daemon,
        }
    }

    pub(crate) async fn running() -> Self {
        let rig = Self::new();
        rig.daemon.start().await.unwrap();
        rig.reach(|status| status.phase == Phase::Running).await;
        rig
    }

    /// Waits (in virtual time) until the status is like this.
    pub(crate) async fn reach(&self, like: impl FnMut(&DaemonStatus) -> bool) -> DaemonStatus {
        let mut status = self.daemon.status();
        let reached = timeout(3_600 * SECOND, status.wait_for(like)).await;
        reached.expect("reached within an hour").unwrap().clone()
    }
}
