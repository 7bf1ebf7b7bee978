//! The decisions: `step(event, at) -> actions`, without clock, tokio or sockets.
//!
//! ```text
//!        Start              SUBSCRIBED
//!  Idle ------> Attempting -----------> Subscribed
//!                ^      |                  |
//!          timer |      | no answer,       | the stream or a call fails
//!                |      v not ready        v
//!                +--- Pausing <------------+     (at once, if the subscription had lasted)
//! ```
//!
//! * An update is kept from the moment it is given until the agent has acknowledged it, in the order of giving.
//!   Each SUBSCRIBE carries all of them; those given later are sent one by one, the next when the one before was
//!   accepted. A task is carried until its first update is acknowledged.
//! * While the agent is away, an executor with checkpoints waits for its recovery timeout, one without stops at once; so
//!   does one that the agent has never taken. Attempts to subscribe go on all the same, since what is
//!   unacknowledged may still be wanted.
//! * The end comes with the last acknowledgement after [`Event::Finish`], or by a bound.

use std::collections::VecDeque;
use std::time::Duration;

use longshore_mesos_api::v1::executor::{Call, event};
use longshore_mesos_api::v1::{ExecutorId, FrameworkId, TaskInfo, TaskStatus, executor};

use super::environment::Checkpoint;
use super::event::{Ending, ExecutorEvent, ShutdownCause, Uuid};

mod absence;
#[cfg(test)]
mod model;
mod outgoing;
#[cfg(test)]
mod tests;

/// From an attempt's begin to SUBSCRIBED.
pub(crate) const ATTEMPT: Duration = Duration::from_secs(10);
/// How long an agent that is there may take to get ready for an executor that it has not taken yet.
pub(crate) const NOT_READY: Duration = Duration::from_secs(60);
/// Between two heartbeats; an agent sends its own as seldom.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(30 * 60);
/// How long an agent may take to acknowledge, after the last update.
pub(crate) const ACKNOWLEDGE: Duration = Duration::from_secs(60);
/// How long the container of an executor without an agent may take to stop.
pub(crate) const STOP_ALONE: Duration = Duration::from_secs(600);
/// Most unacknowledged updates, beside the terminal ones.
pub(crate) const MAX_UPDATES: usize = 256;
/// Most unacknowledged tasks.
pub(crate) const MAX_TASKS: usize = 1024;
/// Most messages that wait to be sent.
pub(crate) const MAX_MESSAGES: usize = 64;
/// Attempts without a subscription are never closer than this.
const MIN_PAUSE: Duration = Duration::from_millis(10);
/// Between two attempts of an executor that was not told.
const DEFAULT_BACKOFF: Duration = Duration::from_secs(2);

/// A moment: time since the connection's epoch, and a random number in `0.0..1.0`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At {
    pub(crate) now: Duration,
    pub(crate) random: f64,
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) framework_id: FrameworkId,
    pub(crate) executor_id: ExecutorId,
    pub(crate) checkpoint: Option<Checkpoint>,
    pub(crate) shutdown_grace: Duration,
    pub(crate) local: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    Start,
    /// The attempt to subscribe failed, before a stream was there.
    NotSubscribed(Refusal, String),
    /// The stream ended, or cannot be read any further.
    StreamEnded(String),
    Agent(Box<executor::Event>),
    /// A status, complete, with this id.
    Update(Box<TaskStatus>, Uuid),
    Message(Vec<u8>),
    /// What became of the last [`Action::Send`].
    Sent(Outcome),
    /// No update follows.
    Finish,
    Fired(Timer),
}

/// Why an attempt to subscribe failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Nobody is there, or the connection broke.
    Unreachable,
    /// 503, or the 404 of an agent that is coming up.
    NotReady,
    /// Another answer.
    Refused,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Accepted,
    /// The agent says that the call is wrong in itself.
    Invalid(String),
    /// The agent does not know the type of the call.
    Unknown,
    Failed(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Timer {
    /// The attempt has taken too long.
    Attempt,
    /// The next attempt.
    Retry,
    /// The agent was away for too long.
    Recovery,
    /// The executor must be gone.
    Shutdown,
    /// What is unacknowledged stays so.
    Finish,
    Heartbeat,
}

#[derive(Clone, Debug)]
pub(crate) enum Action {
    /// Opens a stream with this SUBSCRIBE.
    Subscribe(Box<Call>),
    /// Sends this on the second connection. One at a time.
    Send(Box<Call>),
    /// Closes both connections; nothing of them is reported any more.
    Close,
    Arm(Timer, Duration),
    Disarm(Timer),
    Tell(ExecutorEvent),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Idle,
    Attempting,
    Subscribed { since: Duration },
    Pausing,
    Ended,
}

#[derive(Clone, Debug)]
struct Pending {
    status: TaskStatus,
    uuid: Uuid,
    /// On the connection that is open now.
    sent: bool,
}

/// The one call that is being answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InFlight {
    Update(Uuid),
    Message,
    Heartbeat,
}

#[derive(Clone, Debug)]
pub(crate) struct Core {
    settings: Settings,
    link: Link,
    was_subscribed: bool,
    tasks: Vec<TaskInfo>,
    updates: VecDeque<Pending>,
    messages: VecDeque<Vec<u8>>,
    in_flight: Option<InFlight>,
    heartbeat_due: bool,
    /// [`ExecutorEvent::Disconnected`] was told since the last subscription.
    away: bool,
    /// [`Timer::Recovery`] runs.
    recovering: bool,
    shutdown: Option<ShutdownCause>,
    /// When [`Event::Finish`] came.
    finishing: Option<Duration>,
}

impl Core {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            link: Link::Idle,
            was_subscribed: false,
            tasks: Vec::new(),
            updates: VecDeque::new(),
            messages: VecDeque::new(),
            in_flight: None,
            heartbeat_due: false,
            away: false,
            recovering: false,
            shutdown: None,
            finishing: None,
        }
    }

    /// Whether it is over: nothing that comes now has an effect.
    pub(crate) fn has_ended(&self) -> bool {
        self.link == Link::Ended
    }

    pub(crate) fn step(&mut self, event: Event, at: At, out: &mut Vec<Action>) {
        if self.has_ended() {
            return;
        }
        match event {
            Event::Start => {
                if self.link == Link::Idle {
                    self.attempt(out);
                }
            }
            Event::NotSubscribed(refusal, why) => {
                if self.link == Link::Attempting {
                    self.lost(refusal, why, at, out);
                }
            }
            Event::StreamEnded(why) => self.broken(why, at, out),
            Event::Agent(event) => self.told(*event, at, out),
            Event::Update(status, uuid) => {
                self.keep(*status, uuid);
                self.send_next(out);
            }
            Event::Message(data) => {
                if self.messages.len() < MAX_MESSAGES && self.is_subscribed() {
                    self.messages.push_back(data);
                    self.send_next(out);
                }
            }
            Event::Sent(outcome) => self.sent(outcome, at, out),
            Event::Finish => {
                if self.finishing.is_none() {
                    self.finishing = Some(at.now);
                    self.bound_the_end(at, out);
                    self.end_if_done(out);
                }
            }
            Event::Fired(timer) => self.fired(timer, at, out),
        }
    }

    fn fired(&mut self, timer: Timer, at: At, out: &mut Vec<Action>) {
        match timer {
            Timer::Attempt => {
                let why = format!("not subscribed within {ATTEMPT:?}");
                self.broken(why, at, out);
            }
            Timer::Retry => {
                if self.link == Link::Pausing {
                    self.attempt(out);
                }
            }
            Timer::Recovery => {
                self.recovering = false;
                self.shut_down(ShutdownCause::AgentLost, out);
            }
            Timer::Shutdown => self.end(
                Ending::ShutdownTimedOut {
                    unacknowledged: self.updates.len(),
                },
                out,
            ),
            Timer::Finish => self.end(
                Ending::NotAcknowledged {
                    unacknowledged: self.updates.len(),
                },
                out,
            ),
            Timer::Heartbeat => {
                if self.is_subscribed() {
                    self.heartbeat_due = true;
                    out.push(Action::Arm(Timer::Heartbeat, HEARTBEAT));
                    self.send_next(out);
                }
            }
        }
    }

    fn is_subscribed(&self) -> bool {
        matches!(self.link, Link::Subscribed { .. })
    }

    /// An event of the agent. One of an unknown type means nothing, as does one without its part.
    fn told(&mut self, event: executor::Event, at: At, out: &mut Vec<Action>) {
        let kind = event.r#type();
        match kind {
            event::Type::Subscribed => {
                if let Some(subscribed) = event.subscribed {
                    self.subscribed(subscribed, at, out);
                }
            }
            event::Type::Launch => {
                if let Some(launch) = event.launch
                    && self.hold(&launch.task)
                {
                    out.push(Action::Tell(ExecutorEvent::Launch(Box::new(launch.task))));
                }
            }
            event::Type::LaunchGroup => {
                if let Some(group) = event.launch_group {
                    let mut tasks = group.task_group.tasks;
                    tasks.retain(|task| self.hold(task));
                    out.push(Action::Tell(ExecutorEvent::LaunchGroup(tasks)));
                }
            }
            event::Type::Kill => {
                if let Some(kill) = event.kill {
                    out.push(Action::Tell(ExecutorEvent::Kill {
                        task_id: kill.task_id,
                        policy: kill.kill_policy,
                    }));
                }
            }
            event::Type::Acknowledged => {
                if let Some(acknowledged) = event.acknowledged {
                    self.acknowledged(&acknowledged, out);
                }
            }
            event::Type::Message => {
                if let Some(message) = event.message {
                    out.push(Action::Tell(ExecutorEvent::Message(message.data)));
                }
            }
            event::Type::Error => {
                let message = event.error.unwrap_or_default().message;
                out.push(Action::Tell(ExecutorEvent::Error(message.clone())));
                self.broken(format!("the agent reports an error: {message}"), at, out);
            }
            event::Type::Shutdown => self.shut_down(ShutdownCause::Agent, out),
            event::Type::Heartbeat | event::Type::Unknown => {}
        }
    }

    /// Remembers a task until its first update is acknowledged; false when there are too many.
    fn hold(&mut self, task: &TaskInfo) -> bool {
        if self.tasks.iter().any(|held| held.task_id == task.task_id) {
            return true;
        }
        let room = self.tasks.len() < MAX_TASKS;
        if room {
            self.tasks.push(task.clone());
        }
        room
    }

    fn subscribed(&mut self, subscribed: event::Subscribed, at: At, out: &mut Vec<Action>) {
        if self.link != Link::Attempting {
            return;
        }
        self.link = Link::Subscribed { since: at.now };
        self.was_subscribed = true;
        self.away = false;
        self.recovering = false;
        out.push(Action::Disarm(Timer::Attempt));
        out.push(Action::Disarm(Timer::Recovery));
        out.push(Action::Arm(Timer::Heartbeat, HEARTBEAT));
        out.push(Action::Tell(ExecutorEvent::Subscribed(Box::new(
            subscribed,
        ))));
        self.bound_the_end(at, out);
        self.send_next(out);
    }

    fn acknowledged(&mut self, acknowledged: &event::Acknowledged, out: &mut Vec<Action>) {
        let Ok(uuid) = Uuid::try_from(acknowledged.uuid.as_slice()) else {
            return;
        };
        // A second acknowledgement of the same update is legal.
        let Some(update) = self.take(&uuid) else {
            return;
        };
        let state = update.status.state();
        let task_id = update.status.task_id;
        self.tasks.retain(|task| task.task_id != task_id);
        out.push(Action::Tell(ExecutorEvent::Acknowledged {
            task_id,
            uuid,
            state,
        }));
        self.end_if_done(out);
    }
}
