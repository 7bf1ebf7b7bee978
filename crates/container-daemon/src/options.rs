//! What a daemon is told at its start.

use std::time::Duration;

use longshore_backoff::RestartPolicy;
use longshore_mesos_api::v1::ContainerId;
use longshore_mesos_api::v1::agent::call::LaunchContainer;

/// One container, and the patience with it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct DaemonOptions {
    /// What to launch; each launch gets a copy, which the pre-launch hook may change.
    pub request: LaunchContainer,
    /// When to start again.
    pub policy: RestartPolicy,
    /// From SIGTERM to SIGKILL when the daemon itself stops the container (10 s).
    pub grace: Duration,
    /// The deadline of LAUNCH (90 s), above that of the client.
    pub launch_timeout: Duration,
    /// The deadline of one KILL call (30 s).
    pub kill_timeout: Duration,
    /// The deadline of the pre-launch hook (1 min).
    pub pre_launch_timeout: Duration,
    /// The deadline of the post-start hook (2 min).
    pub post_start_timeout: Duration,
    /// The deadline of the post-stop hook (1 min).
    pub post_stop_timeout: Duration,
}

impl DaemonOptions {
    /// The defaults, for one request.
    #[must_use]
    pub fn new(request: LaunchContainer) -> Self {
        Self {
            request,
            policy: RestartPolicy::default(),
            grace: Duration::from_secs(10),
            launch_timeout: Duration::from_secs(90),
            kill_timeout: Duration::from_secs(30),
            pre_launch_timeout: Duration::from_secs(60),
            post_start_timeout: Duration::from_secs(120),
            post_stop_timeout: Duration::from_secs(60),
        }
    }

    /// The container's id.
    #[must_use]
    pub fn id(&self) -> &ContainerId {
        &self.request.container_id
    }
}
