//! Performs what the core decides: one task, one operation and one WAIT in flight, four timers.

use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use longshore_agent_client::Launched;
use longshore_mesos_api::v1::agent::call::LaunchContainer;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until, timeout};

use crate::core::{Action, At, Core, Event, Timer};
use crate::daemon::Command;
use crate::exit::Exit;
use crate::failure::{Failure, LaunchFailure};
use crate::hooks::Hooks;
use crate::options::DaemonOptions;
use crate::runtime::ContainerRuntime;
use crate::status::DaemonStatus;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What an operation came to.
enum Done {
    Prepared(Result<Box<LaunchContainer>, Failure>),
    Event(Event),
}

pub(crate) struct Driver<R, H> {
    options: DaemonOptions,
    runtime: Arc<R>,
    hooks: Arc<H>,
    publish: watch::Sender<DaemonStatus>,
    core: Core,
    epoch: Instant,
    /// What pre-launch made of the request; kept until LAUNCH is answered for good.
    prepared: Option<Box<LaunchContainer>>,
    operation: Option<Boxed<Done>>,
    wait: Option<Boxed<Result<Exit, Failure>>>,
    timers: [Option<Instant>; TIMERS.len()],
    exit_at: Option<Instant>,
}

const TIMERS: [Timer; 4] = [Timer::Retry, Timer::Rewait, Timer::Escalate, Timer::Rekill];

impl<R: ContainerRuntime, H: Hooks> Driver<R, H> {
    pub(crate) fn new(
        options: DaemonOptions,
        runtime: Arc<R>,
        hooks: Arc<H>,
        publish: watch::Sender<DaemonStatus>,
    ) -> Self {
        Self {
            core: Core::new(options.policy, options.grace),
            options,
            runtime,
            hooks,
            publish,
            epoch: Instant::now(),
            prepared: None,
            operation: None,
            wait: None,
            timers: [None; TIMERS.len()],
            exit_at: None,
        }
    }

    /// The loop. Ends when nobody can send a command any more; normally it is aborted, which is
    /// safe at every await, since nothing is half-done that the next daemon would not find.
    /// Boxed, since a future holds what is moved into it more than once.
    pub(crate) async fn run(mut self: Box<Self>, mut inbox: mpsc::Receiver<Box<Command>>) {
        loop {
            let timer = self.earliest();
            tokio::select! {
                // What happened goes before what is asked for; a post-start hook is begun even when
                // the container ended at once, so that it always has its post-stop.
                biased;
                done = poll(&mut self.operation) => {
                    self.operation = None;
                    let event = self.done(done);
                    self.take(event);
                }
                result = poll(&mut self.wait) => {
                    self.wait = None;
                    self.exit_at = Some(Instant::now());
                    self.take(match result {
                        Ok(exit) => Event::Ended(exit),
                        Err(failure) => Event::WaitFailed(failure),
                    });
                }
                timer = fire(timer) => {
                    if let Some(slot) = TIMERS.iter().position(|known| *known == timer) {
                        self.timers[slot] = None;
                    }
                    self.take(Event::Fired(timer));
                }
                command = inbox.recv() => {
                    let Some(command) = command else { return };
                    self.take(command.event);
                    // Nobody waits for it any more: fine.
                    let _ = command.taken.send(());
                }
            }
        }
    }

    fn earliest(&self) -> Option<(Timer, Instant)> {
        TIMERS
            .into_iter()
            .zip(self.timers)
            .filter_map(|(timer, at)| at.map(|at| (timer, at)))
            .min_by_key(|(_, at)| *at)
    }

    fn done(&mut self, done: Done) -> Event {
        match done {
            Done::Prepared(Ok(request)) => {
                self.prepared = Some(request);
                Event::Prepared(Ok(()))
            }
            Done::Prepared(Err(failure)) => Event::Prepared(Err(failure)),
            Done::Event(event) => {
                if let Event::Launched(Ok(()) | Err(LaunchFailure::Refused(_))) = event {
                    self.prepared = None;
                }
                event
            }
        }
    }

    fn take(&mut self, event: Event) {
        let before = self.core.phase();
        let at = At {
            now: self.epoch.elapsed(),
            random: random(),
        };
        let mut actions = Vec::new();
        self.core.step(event, at, &mut actions);
        for action in actions {
            self.perform(action);
        }
        let after = self.core.phase();
        if before != after {
            tracing::debug!(
                container = self.options.id().value,
                from = ?before,
                to = ?after,
                reason = self.core.reason(),
                "container daemon"
            );
        }
        self.publish(before != after);
    }

    fn publish(&mut self, moved: bool) {
        let (core, epoch, exit_at) = (&self.core, self.epoch, self.exit_at);
        self.publish.send_modify(|status| {
            status.generation += 1;
            if moved {
                status.since = Instant::now();
            }
            status.phase = core.phase();
            status.wanted = core.wanted();
            status.failing = core.failing();
            status.failures = core.failures();
            core.reason().clone_into(&mut status.reason);
            status.next_retry = core.next_retry().map(|at| epoch + at);
            status.runs = core.runs();
            status.last_exit =
                exit_at.and_then(|at| core.last_exit().map(|exit| (at, exit.clone())));
        });
        // No lock is held over the hook: the status is small.
        let status = self.publish.borrow().clone();
        self.hooks.changed(&status);
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Prepare => self.prepare(),
            Action::Launch => self.launch(),
            Action::PostStart => {
                let hooks = Arc::clone(&self.hooks);
                let limit = self.options.post_start_timeout;
                self.operation = Some(Box::pin(async move {
                    let result = within("post-start hook", limit, hooks.post_start()).await;
                    Done::Event(Event::Started(result))
                }));
            }
            Action::PostStop => {
                let hooks = Arc::clone(&self.hooks);
                let limit = self.options.post_stop_timeout;
                self.operation = Some(Box::pin(async move {
                    let result = within("post-stop hook", limit, hooks.post_stop()).await;
                    Done::Event(Event::Cleaned(result))
                }));
            }
            Action::Kill(signal) => {
                let (runtime, id) = (Arc::clone(&self.runtime), self.options.id().clone());
                let limit = self.options.kill_timeout;
                self.operation = Some(Box::pin(async move {
                    let result = within("KILL_CONTAINER", limit, runtime.kill(&id, signal)).await;
                    Done::Event(Event::Killed(result))
                }));
            }
            Action::Wait => {
                let (runtime, id) = (Arc::clone(&self.runtime), self.options.id().clone());
                self.wait = Some(Box::pin(async move { runtime.wait(&id).await }));
            }
            Action::Cancel => self.operation = None,
            Action::Arm(timer, delay) => self.set(timer, Some(Instant::now() + delay)),
            Action::Disarm(timer) => self.set(timer, None),
        }
    }

    fn prepare(&mut self) {
        let (hooks, request) = (Arc::clone(&self.hooks), self.options.request.clone());
        let limit = self.options.pre_launch_timeout;
        self.operation = Some(Box::pin(async move {
            let result = within("pre-launch hook", limit, hooks.pre_launch(request)).await;
            Done::Prepared(result.map(Box::new))
        }));
    }

    fn launch(&mut self) {
        let runtime = Arc::clone(&self.runtime);
        let request = match &self.prepared {
            Some(request) => LaunchContainer::clone(request),
            None => self.options.request.clone(),
        };
        let limit = self.options.launch_timeout;
        self.operation = Some(Box::pin(async move {
            let id = request.container_id.value.clone();
            let result = match timeout(limit, runtime.launch(request)).await {
                Ok(Ok(launched)) => {
                    if launched == Launched::AlreadyPresent {
                        tracing::info!(container = id, "already there, attached");
                    }
                    Ok(())
                }
                Ok(Err(failure)) => Err(failure),
                Err(_) => Err(LaunchFailure::Unknown(late("LAUNCH_CONTAINER", limit))),
            };
            Done::Event(Event::Launched(result))
        }));
    }

    fn set(&mut self, timer: Timer, at: Option<Instant>) {
        if let Some(slot) = TIMERS.iter().position(|known| *known == timer) {
            self.timers[slot] = at;
        }
    }
}

async fn poll<T>(slot: &mut Option<Boxed<T>>) -> T {
    match slot {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

async fn fire(timer: Option<(Timer, Instant)>) -> Timer {
    match timer {
        Some((timer, at)) => {
            sleep_until(at).await;
            timer
        }
        None => std::future::pending().await,
    }
}

async fn within<T>(
    what: &str,
    limit: Duration,
    future: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    match timeout(limit, future).await {
        Ok(result) => result,
        Err(_) => Err(late(what, limit)),
    }
}

fn late(what: &str, limit: Duration) -> Failure {
    Failure::new(format!("{what} not done within {limit:?}"))
}

/// In `0.0..1.0`. Jitter needs spread, not secrecy.
fn random() -> f64 {
    let bits = u32::try_from(RandomState::new().hash_one(0u8) >> 32).unwrap_or(0);
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}
