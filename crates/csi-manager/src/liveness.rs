//! What becomes of a container that stops answering.
//!
//! ```text
//!            failed x threshold                 on_unhealthy = restart, nobody holds /dev/fuse
//!   watched --------------------> unhealthy ------------------------------------> restarted,
//!      ^                           |   ^  |                                       as a failure
//!      |        answers again      |   |  | report, or /dev/fuse is held
//!      +---------------------------+   +--+  (looked at again each interval)
//! ```

use std::sync::Arc;
use std::time::Duration;

use longshore_container_daemon::{DaemonControl, Failure};
use longshore_csi_probe::{Links, LivenessEvent, LivenessPolicy, LivenessWatch, watch};
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;

use crate::board::PluginBoard;
use crate::config::OnUnhealthy;
use crate::plan::Planned;
use crate::shared::Shared;
use crate::unit::{Found, UnitCore};

/// What is to be done about a container that does not answer. Pure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    Restart,
    Report,
    /// A restart would take the mounts of this process down.
    Spare(u32),
}

pub(crate) fn remedy(policy: OnUnhealthy, fuse_holder: Option<u32>) -> Remedy {
    match (policy, fuse_holder) {
        (OnUnhealthy::Report, _) => Remedy::Report,
        (OnUnhealthy::Restart, Some(pid)) => Remedy::Spare(pid),
        (OnUnhealthy::Restart, None) => Remedy::Restart,
    }
}

/// Watches a container that was found ready: finds out its pid, and probes it again and again where that is
/// wanted. `None` when it is being taken down.
pub(crate) fn spawn(core: &Arc<UnitCore>, found: Found) -> Option<AbortOnDropHandle<()>> {
    // Nothing here keeps the unit alive: the unit owns the task.
    let (shared, board) = (Arc::clone(&core.shared), Arc::clone(&core.board));
    let (index, planned) = (core.index, Arc::clone(&core.planned));
    let control = core.control()?.clone();
    let (grace, on_unhealthy) = (core.grace, core.on_unhealthy);
    let probing = core.liveness.map(|policy| {
        let watcher = Box::new(Watcher {
            shared: Arc::clone(&shared),
            board: Arc::clone(&board),
            index,
            planned: Arc::clone(&planned),
            control,
            grace,
            on_unhealthy,
            policy,
        });
        let (endpoint, version) = (found.endpoint, found.version);
        let probes = watch(endpoint, version, policy, Links::Refuse, found.socket)
            .notifying(Arc::clone(&shared.probed));
        Box::pin(watcher.run(probes))
    });
    Some(AbortOnDropHandle::new(tokio::spawn(async move {
        let pid = Box::pin(shared.pid(&planned.id)).await;
        board.pid(&planned.id, pid);
        drop((shared, board, planned));
        if let Some(probing) = probing {
            probing.await;
        }
    })))
}

struct Watcher {
    shared: Arc<Shared>,
    board: Arc<PluginBoard>,
    index: usize,
    planned: Arc<Planned>,
    control: DaemonControl,
    grace: Duration,
    on_unhealthy: OnUnhealthy,
    policy: LivenessPolicy,
}

impl Watcher {
    async fn run(self: Box<Self>, mut probes: LivenessWatch) {
        let mut unhealthy: Option<(String, Instant)> = None;
        loop {
            let again = unhealthy.as_ref().map(|(_, at)| *at);
            tokio::select! {
                event = probes.next() => match event {
                    LivenessEvent::Unhealthy { failures, reason } => {
                        let reason = format!("{failures} liveness probes failed: {reason}");
                        self.count(false);
                        unhealthy = Some((reason, Instant::now()));
                    }
                    LivenessEvent::Recovered { .. } => {
                        self.count(true);
                        if unhealthy.take().is_some() {
                            self.board.recovered(self.index, &self.planned.services);
                        }
                    }
                    LivenessEvent::Healthy => self.count(true),
                    LivenessEvent::Failed { failures, reason } => {
                        self.count(false);
                        tracing::debug!(container = %self.planned.id, failures, reason, "liveness probe failed");
                    }
                    event => tracing::warn!(container = %self.planned.id, ?event, "liveness"),
                },
                () = due(again) => {
                    if let Some((reason, at)) = &mut unhealthy {
                        *at = Instant::now() + self.policy.interval;
                        let reason = reason.clone();
                        Box::pin(self.act(&reason)).await;
                    }
                }
            }
        }
    }

    async fn act(&self, reason: &str) {
        let holder = match self.on_unhealthy {
            OnUnhealthy::Restart => self.shared.fuse_holder(&self.planned.id).await,
            OnUnhealthy::Report => None,
        };
        let services = &self.planned.services;
        match remedy(self.on_unhealthy, holder) {
            Remedy::Report => self.board.unhealthy(self.index, services, reason),
            Remedy::Spare(pid) => {
                let why = format!("{reason}; not restarted, process {pid} of it holds /dev/fuse");
                self.board.unhealthy(self.index, services, &why);
            }
            Remedy::Restart => {
                self.board.unhealthy(self.index, services, reason);
                // The daemon ends this task when it stops the container.
                let _ = self.control.fail(self.grace, Failure::new(reason)).await;
            }
        }
    }

    fn count(&self, good: bool) {
        self.board.metrics(|metrics| {
            if good {
                metrics.rpcs_finished += 1;
            } else {
                metrics.rpcs_failed += 1;
            }
        });
    }
}

async fn due(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_restarted_while_fuse_is_held() {
        assert_eq!(remedy(OnUnhealthy::Restart, None), Remedy::Restart);
        assert_eq!(remedy(OnUnhealthy::Restart, Some(7)), Remedy::Spare(7));
        assert_eq!(remedy(OnUnhealthy::Report, None), Remedy::Report);
        assert_eq!(remedy(OnUnhealthy::Report, Some(7)), Remedy::Report);
    }
}
