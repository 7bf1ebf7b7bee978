//! The driver: performs what a checker decides, and feeds back what came of it.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::{
    CheckState, CheckerAction, CheckerEvent, HealthError, HealthPolicy, HealthState, Probe,
    ProbeResult, Prober, Timing, prober::Aimed, timeline::Run,
};

/// A checker as a pure state machine: [`HealthState`] and [`CheckState`].
pub trait Machine {
    /// What it tells.
    type Report;

    /// When [`CheckerEvent::Due`] is to be fed, as the time since its creation; `None` while a run is under way, and
    /// while it is paused.
    fn due(&self) -> Option<Duration>;

    /// Takes one event at the time `now` since its creation; what is to be done is appended to `actions`, in order.
    fn step(
        &mut self,
        event: CheckerEvent,
        now: Duration,
        actions: &mut Vec<CheckerAction<Self::Report>>,
    );
}

/// Tells whether a container is healthy.
pub type HealthWatch = Watch<HealthState>;

/// Tells what a check finds.
pub type CheckWatch = Watch<CheckState>;

type Probing = Pin<Box<dyn Future<Output = ProbeResult> + Send>>;

/// Checks one container again and again. It has no task: nothing happens unless [`next`](Self::next) is polled.
/// Dropping it drops the run under way, and with it what that started.
pub struct Watch<M: Machine> {
    machine: M,
    aim: Arc<Aimed>,
    epoch: Instant,
    /// The run under way: it goes on where it was when `next` is dropped and called again.
    probing: Option<(Run, Probing)>,
}

impl<M: Machine + std::fmt::Debug> std::fmt::Debug for Watch<M> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Watch")
            .field("machine", &self.machine)
            .field("aim", &self.aim)
            .field("probing", &self.probing.is_some())
            .finish_non_exhaustive()
    }
}

impl HealthWatch {
    /// A health check; the grace and the delay begin now. To be made when the container runs.
    ///
    /// # Errors
    /// What `prober` cannot do: [`HealthError::NoRunner`], [`HealthError::NoTls`].
    pub fn health(
        probe: Probe,
        policy: &HealthPolicy,
        prober: Prober,
    ) -> Result<Self, HealthError> {
        let aim = Aimed::new(prober, probe.clone(), policy.timing.limit())?;
        Ok(Self::start(HealthState::new(probe, policy), aim))
    }
}

impl CheckWatch {
    /// A check; the delay begins now.
    ///
    /// # Errors
    /// As [`HealthWatch::health`].
    pub fn check(probe: Probe, timing: &Timing, prober: Prober) -> Result<Self, HealthError> {
        let state = CheckState::new(&probe, timing);
        let aim = Aimed::new(prober, probe, timing.limit())?;
        Ok(Self::start(state, aim))
    }
}

impl<M: Machine> Watch<M> {
    fn start(machine: M, aim: Aimed) -> Self {
        Self {
            machine,
            aim: Arc::new(aim),
            epoch: Instant::now(),
            probing: None,
        }
    }

    /// The state, with what was told last.
    pub const fn state(&self) -> &M {
        &self.machine
    }

    /// The next report. Never ends by itself; cancel safe: a run under way is kept.
    pub async fn next(&mut self) -> M::Report {
        loop {
            let event = if let Some((run, probing)) = &mut self.probing {
                let (run, result) = (*run, probing.await);
                self.probing = None;
                tracing::trace!(?run, ?result, "check");
                CheckerEvent::Finished { run, result }
            } else if let Some(due) = self.machine.due() {
                match self.epoch.checked_add(due) {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
                CheckerEvent::Due
            } else {
                std::future::pending().await
            };
            // Nothing is awaited between a report and its return, so none is ever lost.
            if let Some(report) = self.take(event) {
                return report;
            }
        }
    }

    /// Stops checking. A run under way is dropped.
    pub fn pause(&mut self) {
        let _nothing = self.take(CheckerEvent::Pause);
    }

    /// Checks again, at once; nothing when it is not paused.
    pub fn resume(&mut self) {
        let _nothing = self.take(CheckerEvent::Resume);
    }

    /// One step reports at most once.
    fn take(&mut self, event: CheckerEvent) -> Option<M::Report> {
        let mut actions = Vec::new();
        let mut told = None;
        self.machine.step(event, self.epoch.elapsed(), &mut actions);
        for action in actions {
            match action {
                CheckerAction::Probe(run) => {
                    self.probing = Some((run, Box::pin(Arc::clone(&self.aim).run())));
                }
                CheckerAction::Cancel => self.probing = None,
                CheckerAction::Report(report) => told = Some(report),
            }
        }
        told
    }
}
