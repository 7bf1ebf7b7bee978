//! What each event means: [`State::step`].

mod attach;
mod behind;
mod end;
mod engine_lost;
pub(crate) mod kill;
mod launch;
mod run;

use std::time::Duration;

use longshore_mesos_api::v1::TaskState;

use crate::state::{Phase, State};
use crate::{Action, Event, News, Update};

/// How soon a container that could not be looked at is looked at again, when the engine gave an answer at all.
pub(crate) const SOON: Duration = Duration::from_millis(200);
/// The same when it gave none.
pub(crate) const LATER: Duration = Duration::from_secs(1);
/// How long the engine is waited for where something else is possible.
pub(crate) const ANSWER: Duration = Duration::from_secs(5);
/// How long the engine may take to give an exit status after the death of the init.
pub(crate) const STATUS: Duration = Duration::from_secs(10);
/// How long the last status waits for the last output.
pub(crate) const DRAIN: Duration = Duration::from_secs(2);
/// How often a container that runs quietly is looked at: where its init is held, and where it cannot be.
pub(crate) const QUIET: Duration = Duration::from_secs(60);
pub(crate) const QUIET_UNHELD: Duration = Duration::from_secs(5);

impl State {
    /// Takes one event at the time `now`; what is to be done is appended to `actions`, in order. Pure.
    pub fn step(&mut self, event: Event, now: Duration, actions: &mut Vec<Action>) {
        match event {
            Event::Kill(kill) => self.asked_to_kill(kill, now, actions),
            Event::Signal(signal) => self.send_signal(signal, actions),
            Event::Recorded(result) => self.recorded(result, actions),
            Event::Pulled(result) => self.pulled(result, now, actions),
            Event::Created(result) => self.created(result, now, actions),
            Event::Started(result) => self.started(result, now, actions),
            Event::Inspected(result) => {
                self.inspecting = false;
                self.heard(result.as_ref().err());
                match result {
                    Ok(found) => self.found(found, now, actions),
                    Err(error) => self.not_found(&error, now, actions),
                }
            }
            Event::Exited(result) => self.exited(result, now, actions),
            Event::Held(held) => self.held(held, now, actions),
            Event::Swept => self.swept(actions),
            Event::InitDied => self.init_died(now, actions),
            Event::Signalled { signal, result } => self.signalled(&signal, result, now, actions),
            Event::Unpaused(result) => self.unpaused(result, now, actions),
            Event::Removed(result) => self.removed(result, now, actions),
            Event::Seen(seen) => self.seen(seen, now, actions),
            Event::EventsMissing => self.events_missing(),
            Event::EngineLost => {
                self.engine_silent = true;
                self.events_missing();
            }
            Event::EngineResumed => self.engine_resumed(now, actions),
            Event::Health(report) => self.health(report, now, actions),
            Event::Check(status) => self.checked(status, actions),
            Event::LogsDrained => {
                if let Phase::Ended(ended) = &mut self.phase {
                    ended.drained = true;
                }
                self.settle(now, actions);
            }
            Event::Due => self.timers(now, actions),
        }
    }

    fn timers(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let is_due = |at: Option<Duration>| at.is_some_and(|at| at <= now);
        if is_due(self.completion_at) {
            self.completion_at = None;
            self.out_of_time(now, actions);
        }
        if is_due(self.again.as_ref().map(|(at, _)| *at))
            && let Some((_, action)) = self.again.take()
        {
            actions.push(action);
        }
        if is_due(self.running_by) {
            self.running_by = None;
            self.tell_running(actions);
        }
        self.kill_timers(now, actions);
        if is_due(self.inspect_at) {
            self.inspect(actions);
        }
        self.end_timers(now, actions);
    }

    /// A status of a task that goes on.
    pub(crate) fn tell(&self, state: TaskState, news: News, actions: &mut Vec<Action>) {
        actions.push(Action::Tell(Box::new(Update {
            state,
            news,
            healthy: self.healthy,
            check: self.check,
            details: self.details.clone(),
        })));
    }

    /// Whether the task may have a process, as far as is known.
    pub(crate) const fn may_run(&self) -> bool {
        matches!(self.phase, Phase::Starting(_) | Phase::Running)
    }
}

#[cfg(test)]
mod tests;
