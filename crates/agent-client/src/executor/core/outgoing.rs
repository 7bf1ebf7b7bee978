//! What is sent: SUBSCRIBE with all that is unacknowledged, then one call after the other.

use longshore_mesos_api::v1::executor::{Call, call};
use longshore_mesos_api::v1::{TaskState, TaskStatus};

use super::super::event::{ExecutorEvent, Uuid};
use super::{ATTEMPT, Action, At, Core, InFlight, Link, MAX_UPDATES, Outcome, Pending, Timer};

impl Core {
    pub(super) fn call(&self, kind: call::Type) -> Call {
        Call {
            executor_id: self.settings.executor_id.clone(),
            framework_id: self.settings.framework_id.clone(),
            r#type: Some(kind.into()),
            ..Call::default()
        }
    }

    pub(super) fn attempt(&mut self, out: &mut Vec<Action>) {
        self.link = Link::Attempting;
        let mut call = self.call(call::Type::Subscribe);
        call.subscribe = Some(call::Subscribe {
            unacknowledged_tasks: self.tasks.clone(),
            unacknowledged_updates: self
                .updates
                .iter_mut()
                .map(|update| {
                    update.sent = true;
                    call::Update {
                        status: update.status.clone(),
                    }
                })
                .collect(),
        });
        out.push(Action::Arm(Timer::Attempt, ATTEMPT));
        out.push(Action::Subscribe(Box::new(call)));
    }

    /// Keeps an update until it is acknowledged.
    pub(super) fn keep(&mut self, status: TaskStatus, uuid: Uuid) {
        if self.updates.len() >= MAX_UPDATES {
            // The newer one says all that the older said: a task that runs still runs.
            let running = TaskState::TaskRunning;
            let older = self.updates.iter().rposition(|kept| {
                kept.status.state() == running
                    && kept.status.task_id == status.task_id
                    && self.in_flight != Some(InFlight::Update(kept.uuid))
            });
            if let Some(older) = older
                && status.state() == running
            {
                self.updates.remove(older);
            }
        }
        self.updates.push_back(Pending {
            status,
            uuid,
            sent: false,
        });
    }

    /// Sends what is to be sent next, unless something is being answered.
    pub(super) fn send_next(&mut self, out: &mut Vec<Action>) {
        if !self.is_subscribed() || self.in_flight.is_some() {
            return;
        }
        if let Some(update) = self.updates.iter_mut().find(|update| !update.sent) {
            update.sent = true;
            let (uuid, status) = (update.uuid, update.status.clone());
            let mut call = self.call(call::Type::Update);
            call.update = Some(call::Update { status });
            self.in_flight = Some(InFlight::Update(uuid));
            out.push(Action::Send(Box::new(call)));
        } else if let Some(data) = self.messages.pop_front() {
            let mut call = self.call(call::Type::Message);
            call.message = Some(call::Message { data });
            self.in_flight = Some(InFlight::Message);
            out.push(Action::Send(Box::new(call)));
        } else if std::mem::take(&mut self.heartbeat_due) {
            self.in_flight = Some(InFlight::Heartbeat);
            out.push(Action::Send(Box::new(self.call(call::Type::Heartbeat))));
        }
    }

    pub(super) fn sent(&mut self, outcome: Outcome, at: At, out: &mut Vec<Action>) {
        let Some(what) = self.in_flight.take() else {
            return;
        };
        match (outcome, what) {
            (Outcome::Accepted, _) => {}
            // An agent of before the heartbeats.
            (Outcome::Unknown, InFlight::Heartbeat) => out.push(Action::Disarm(Timer::Heartbeat)),
            (Outcome::Invalid(reason), InFlight::Update(uuid)) => {
                // Sent again it would be refused again, and what follows would never arrive.
                if let Some(update) = self.take(&uuid) {
                    out.push(Action::Tell(ExecutorEvent::Refused {
                        task_id: update.status.task_id,
                        uuid,
                        reason,
                    }));
                    self.end_if_done(out);
                }
            }
            (Outcome::Invalid(_), InFlight::Message | InFlight::Heartbeat) => {}
            (Outcome::Unknown, InFlight::Update(_) | InFlight::Message) => {
                self.broken("the agent does not know the call".to_owned(), at, out);
            }
            (Outcome::Failed(why), _) => self.broken(why, at, out),
        }
        self.send_next(out);
    }

    pub(super) fn take(&mut self, uuid: &Uuid) -> Option<Pending> {
        let at = self.updates.iter().position(|kept| kept.uuid == *uuid)?;
        self.updates.remove(at)
    }
}
