//! Performs what the core decides: one attempt or stream, one call, six timers.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use longshore_mesos_api::v1::{ExecutorId, FrameworkId, TaskStatus};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::core::{Action, At, Core, Event, Outcome, Refusal, Settings, Timer};
use super::wire::{EventStream, Wire, text};
use super::{ExecutorConfig, ExecutorEvent, Uuid};
use crate::AgentError;
use crate::retry::random;
use crate::transport::Connection;

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// What the executor asks for.
#[derive(Debug)]
pub(super) enum Command {
    Update(Box<TaskStatus>, Uuid),
    Message(Vec<u8>),
    Finish,
}

const TIMERS: [Timer; 6] = [
    Timer::Attempt,
    Timer::Retry,
    Timer::Recovery,
    Timer::Shutdown,
    Timer::Finish,
    Timer::Heartbeat,
];

/// While so many events are not taken, the stream is not read.
const UNTAKEN: usize = 64;

pub(super) struct Driver {
    core: Core,
    epoch: Instant,
    wire: Arc<Wire>,
    commands: mpsc::Receiver<Command>,
    events: mpsc::Sender<ExecutorEvent>,
    untaken: VecDeque<ExecutorEvent>,
    attempt: Option<Boxed<Result<EventStream, (Refusal, AgentError)>>>,
    stream: Option<EventStream>,
    call: Option<Boxed<(Outcome, Option<Connection>)>>,
    /// The connection for calls, while none is on its way.
    connection: Option<Connection>,
    timers: [Option<Instant>; TIMERS.len()],
}

impl Driver {
    pub(super) fn new(
        config: ExecutorConfig,
        commands: mpsc::Receiver<Command>,
        events: mpsc::Sender<ExecutorEvent>,
    ) -> Result<Self, AgentError> {
        let environment = &config.environment;
        let settings = Settings {
            framework_id: FrameworkId {
                value: environment.framework_id.clone(),
            },
            executor_id: ExecutorId {
                value: environment.executor_id.clone(),
            },
            checkpoint: environment.checkpoint,
            shutdown_grace: environment.shutdown_grace,
            local: environment.local,
        };
        Ok(Self {
            core: Core::new(settings),
            epoch: Instant::now(),
            wire: Wire::new(config)?,
            commands,
            events,
            untaken: VecDeque::new(),
            attempt: None,
            stream: None,
            call: None,
            connection: None,
            timers: [None; TIMERS.len()],
        })
    }

    /// The loop; ends with the core, or when nobody is there any more.
    pub(super) async fn run(mut self: Box<Self>) {
        self.take(Event::Start);
        let events = self.events.clone();
        while !(self.core.has_ended() && self.untaken.is_empty()) {
            let timer = self.earliest();
            let reading = self.untaken.len() < UNTAKEN;
            tokio::select! {
                // What happened goes before what is asked for.
                biased;
                permit = events.reserve(), if !self.untaken.is_empty() => {
                    let (Ok(permit), Some(event)) = (permit, self.untaken.pop_front()) else {
                        return;
                    };
                    permit.send(event);
                }
                attempted = poll(&mut self.attempt) => {
                    self.attempt = None;
                    match attempted {
                        Ok(stream) => self.stream = Some(stream),
                        Err((refusal, error)) => {
                            tracing::debug!(error = text(&error), "not subscribed");
                            self.take(Event::NotSubscribed(refusal, text(&error)));
                        }
                    }
                }
                event = next(&mut self.stream), if reading => {
                    self.take(match event {
                        Ok(event) => Event::Agent(Box::new(event)),
                        Err(error) => Event::StreamEnded(text(&error)),
                    });
                }
                (outcome, connection) = poll(&mut self.call) => {
                    self.call = None;
                    self.connection = connection;
                    self.take(Event::Sent(outcome));
                }
                timer = fire(timer) => {
                    self.set(timer, None);
                    self.take(Event::Fired(timer));
                }
                command = self.commands.recv(), if !self.core.has_ended() => {
                    match command {
                        Some(Command::Update(status, uuid)) => self.take(Event::Update(status, uuid)),
                        Some(Command::Message(data)) => self.take(Event::Message(data)),
                        Some(Command::Finish) => self.take(Event::Finish),
                        None => return,
                    }
                }
            }
        }
    }

    fn take(&mut self, event: Event) {
        let at = At {
            now: self.epoch.elapsed(),
            random: random(),
        };
        let mut actions = Vec::new();
        self.core.step(event, at, &mut actions);
        for action in actions {
            self.perform(action);
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Subscribe(call) => {
                self.stream = None;
                self.attempt = Some(Box::pin(Arc::clone(&self.wire).subscribe(call)));
            }
            Action::Send(call) => {
                let connection = self.connection.take();
                self.call = Some(Box::pin(Arc::clone(&self.wire).send(connection, call)));
            }
            Action::Close => {
                self.attempt = None;
                self.stream = None;
                self.call = None;
                self.connection = None;
            }
            Action::Arm(timer, after) => {
                let at = Instant::now() + after.min(FAR);
                self.set(timer, Some(at));
            }
            Action::Disarm(timer) => self.set(timer, None),
            Action::Tell(event) => self.untaken.push_back(event),
        }
    }

    fn set(&mut self, timer: Timer, at: Option<Instant>) {
        if let Some(slot) = TIMERS.iter().position(|known| *known == timer) {
            self.timers[slot] = at;
        }
    }

    fn earliest(&self) -> Option<(Timer, Instant)> {
        TIMERS
            .into_iter()
            .zip(self.timers)
            .filter_map(|(timer, at)| at.map(|at| (timer, at)))
            .min_by_key(|(_, at)| *at)
    }
}

/// No timer of any use is longer: a year.
const FAR: Duration = Duration::from_secs(365 * 86_400);

async fn poll<T>(slot: &mut Option<Boxed<T>>) -> T {
    match slot {
        Some(future) => future.await,
        None => std::future::pending().await,
    }
}

async fn next(
    stream: &mut Option<EventStream>,
) -> Result<longshore_mesos_api::v1::executor::Event, AgentError> {
    match stream {
        Some(stream) => stream.next().await,
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
