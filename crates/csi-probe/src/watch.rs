//! Whether a plugin that was ready still is: the driver.

use std::{collections::VecDeque, future::Future, pin::Pin, sync::Arc, time::Duration};

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout_at};

use crate::{
    ApiVersion, Endpoint, Links, ProbeError, SocketId, Waiting,
    beat::Beat,
    call::{self, Callee},
    detect::Answer,
    dial::Dial,
    error::{chain, timed_out},
    liveness::{Liveness, LivenessEvent, LivenessPolicy, LivenessResult},
};

type Checking = Pin<Box<dyn Future<Output = Result<Option<SocketId>, ProbeError>> + Send>>;

/// Probes one plugin again and again. It has no task: nothing happens unless [`next`](Self::next) is polled, and
/// between two probes it holds no connection and a few hundred bytes.
pub struct LivenessWatch {
    endpoint: Endpoint,
    version: ApiVersion,
    links: Links,
    policy: LivenessPolicy,
    state: Liveness,
    due: Instant,
    beat: Beat,
    ready: VecDeque<LivenessEvent>,
    /// The probe that is under way: it goes on where it was when `next` is dropped and called again.
    probing: Option<Checking>,
    probed: Option<Arc<Notify>>,
}

impl std::fmt::Debug for LivenessWatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LivenessWatch")
            .field("endpoint", &self.endpoint)
            .field("policy", &self.policy)
            .field("state", &self.state)
            .field("due", &self.due)
            .finish_non_exhaustive()
    }
}

/// Watches a plugin that was found ready: `socket` is [`Probed::socket`](crate::Probed::socket).
///
/// Each probe dials afresh, by path, and asks only `version`: a socket file that was removed, or replaced by one that
/// nobody serves, fails within one interval, however healthy an old connection is. `ready = false` fails too. The
/// first probe comes after a part of the interval: a few watches of a process probe at the same moments, since the
/// second of two probes costs a fraction of the first, and many are spread over the interval.
#[must_use]
pub fn watch(
    endpoint: Endpoint,
    version: ApiVersion,
    policy: LivenessPolicy,
    links: Links,
    socket: Option<SocketId>,
) -> LivenessWatch {
    let interval = policy.interval.max(Duration::from_millis(1));
    let policy = LivenessPolicy { interval, ..policy };
    let beat = Beat::join();
    LivenessWatch {
        state: Liveness::new(&policy, socket),
        due: beat.after(Instant::now(), interval),
        beat,
        endpoint,
        version,
        links,
        policy,
        ready: VecDeque::new(),
        probing: None,
        probed: None,
    }
}

impl LivenessWatch {
    /// Has `probed` told after each probe, also one that is no event.
    #[must_use]
    pub fn notifying(mut self, probed: Arc<Notify>) -> Self {
        self.probed = Some(probed);
        self
    }

    /// The next event. Cancel safe: a probe under way is kept.
    pub async fn next(&mut self) -> LivenessEvent {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return event;
            }
            if self.probing.is_none() {
                sleep_until(self.due).await;
                // Not from the end of this probe, and never two at once after a suspended host.
                let interval = self.policy.interval;
                self.due = self.beat.after(Instant::now() + interval / 2, interval);
            }
            let (endpoint, version, links) = (&self.endpoint, self.version, self.links);
            let deadline = Instant::now() + self.policy.timeout;
            let probing = self.probing.get_or_insert_with(|| {
                let endpoint = endpoint.clone();
                Box::pin(async move { check(&endpoint, version, links, deadline).await })
            });
            let result = match probing.await {
                Ok(socket) => LivenessResult::Passed(socket),
                Err(error) => LivenessResult::Failed(chain(&error)),
            };
            self.probing = None;
            if let Some(probed) = &self.probed {
                probed.notify_one();
            }
            self.ready.extend(self.state.step(result));
        }
    }
}

/// One probe on a fresh connection, of one version, without any second try.
///
/// # Errors
/// Whatever keeps the plugin from being ready now; `ready = false` and silence are [`ProbeError::TimedOut`].
pub async fn check(
    endpoint: &Endpoint,
    version: ApiVersion,
    links: Links,
    deadline: Instant,
) -> Result<Option<SocketId>, ProbeError> {
    let started = Instant::now();
    let dial = Dial {
        wait: false,
        retry: false,
        links,
        deadline,
    };
    let dialled = dial.to(endpoint, &mut |_| ()).await?;
    let Ok(result) = timeout_at(deadline, call::probe(dialled.channel, version)).await else {
        return Err(timed_out(endpoint, started, Waiting::Answer));
    };
    match (call::answer(&result), result) {
        (Answer::Ready, _) => Ok(dialled.socket),
        (Answer::NotReady, _) => Err(timed_out(endpoint, started, Waiting::Ready)),
        (Answer::Disconnected { detail }, _) => Err(timed_out(
            endpoint,
            started,
            Waiting::Disconnected { detail },
        )),
        (_, Err(status)) => Err(Callee {
            endpoint,
            version,
            deadline,
        }
        .failure("Probe", status)),
        (_, Ok(_)) => Ok(dialled.socket),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watch_between_two_probes_is_small() {
        let size = size_of::<LivenessWatch>();
        assert!(size <= 512, "{size} bytes");
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_watches_probe_at_the_same_moments_and_many_are_spread() {
        let now = Instant::now();
        let endpoint = Endpoint::Unix("/nowhere".into());
        let policy = LivenessPolicy::default();
        let watches: Vec<_> = (0..100)
            .map(|_| {
                let endpoint = endpoint.clone();
                watch(endpoint, ApiVersion::V1, policy, Links::Follow, None)
            })
            .collect();
        let mut due: Vec<_> = watches.iter().map(|watch| watch.due - now).collect();
        assert!(
            due.iter()
                .all(|after| *after > Duration::ZERO && *after <= policy.interval)
        );
        let half = policy.interval / 2;
        let early = due.iter().filter(|after| **after < half).count();
        assert!(
            (10..90).contains(&early),
            "{early} of 100 in the first half"
        );
        due.sort_unstable();
        due.dedup();
        // Other tests of this process have watches, too.
        assert!((7..20).contains(&due.len()), "{} moments", due.len());
    }

    #[tokio::test(start_paused = true)]
    async fn a_missing_socket_is_told_within_one_interval_and_the_threshold_counts_intervals() {
        let started = Instant::now();
        let policy = LivenessPolicy::default();
        let endpoint = Endpoint::Unix("/nowhere/csi.sock".into());
        let mut watch = watch(endpoint, ApiVersion::V1, policy, Links::Follow, None);
        assert!(matches!(
            watch.next().await,
            LivenessEvent::Failed { failures: 1, .. }
        ));
        assert!(started.elapsed() <= policy.interval + Duration::from_millis(2));
        let first = Instant::now();
        assert!(matches!(
            watch.next().await,
            LivenessEvent::Failed { failures: 2, .. }
        ));
        assert!(matches!(
            watch.next().await,
            LivenessEvent::Unhealthy { failures: 3, .. }
        ));
        let passed = first.elapsed();
        assert!(
            passed >= policy.interval * 2
                && passed <= policy.interval * 2 + Duration::from_millis(4)
        );
    }
}
