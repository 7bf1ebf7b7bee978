//! One task, for whoever launched it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use longshore_mesos_api::v1::{TaskInfo, TaskStatus};
use tokio::sync::{Notify, watch};

use longshore_task_spec::hooks::HookContainer;

use crate::driver::Mailbox;
use crate::publisher::Outbox;
use crate::{Event, Kill, LogMode, TaskView, Updates};

/// A task. Clones are the same task; dropping them all changes nothing for it.
#[derive(Clone, Debug)]
pub struct Task {
    pub(crate) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) key: String,
    pub(crate) name: String,
    pub(crate) info: TaskInfo,
    pub(crate) logs: LogMode,
    /// Whether its container is removed once it has ended.
    pub(crate) removes: bool,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) wish: Wish,
    /// Where its driver is; none for a task that was refused.
    pub(crate) mailbox: OnceLock<Mailbox>,
    /// Who its container is to hooks; they are told one moment after the other.
    pub(crate) hook: HookContainer,
    pub(crate) hooks: Arc<tokio::sync::Mutex<()>>,
    /// In milliseconds since 1970.
    pub(crate) launched_ms: u64,
}

/// Kills that their driver has not taken yet. Several become two at most: one with the task's own grace, and the
/// shortest of those that name one.
#[derive(Debug, Default)]
pub(crate) struct Wish {
    kills: Mutex<VecDeque<Kill>>,
    there: Notify,
}

impl Wish {
    fn put(&self, kill: Kill) {
        let mut kills = self.kills.lock().unwrap_or_else(PoisonError::into_inner);
        let alike = |it: &&mut Kill| it.grace.is_some() == kill.grace.is_some();
        match kills.iter_mut().find(alike) {
            Some(first) => first.grace = first.grace.min(kill.grace),
            None => kills.push_back(kill),
        }
        drop(kills);
        self.there.notify_one();
    }

    /// Cancel safe.
    pub(crate) async fn taken(&self) -> Kill {
        loop {
            let found = self
                .kills
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .pop_front();
            match found {
                Some(kill) => return kill,
                None => self.there.notified().await,
            }
        }
    }
}

impl Task {
    /// The task's id.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.shared.info.task_id.value
    }

    /// What it is.
    #[must_use]
    pub fn info(&self) -> &TaskInfo {
        &self.shared.info
    }

    /// The name of its container.
    #[must_use]
    pub fn container_name(&self) -> &str {
        &self.shared.name
    }

    /// Where its output goes.
    #[must_use]
    pub fn log_mode(&self) -> LogMode {
        self.shared.logs
    }

    /// When it was launched, since 1970.
    #[must_use]
    pub fn launched(&self) -> Duration {
        Duration::from_millis(self.shared.launched_ms)
    }

    /// Wants it to end; never waits. The answer is its last status, also when it has ended before.
    pub fn kill(&self, kill: Kill) {
        self.shared.wish.put(kill);
    }

    /// Sends it a signal, as `SIGHUP` or `1`, without wanting it to end: nothing is killed later, and if it ends it has
    /// ended by that signal. Never waits; a task that does not run takes no notice.
    pub fn signal(&self, signal: impl Into<String>) {
        if let Some(mailbox) = self.shared.mailbox.get() {
            mailbox.post(Event::Signal(signal.into()));
        }
    }

    /// Its statuses, from the first that is not acknowledged.
    #[must_use]
    pub fn updates(&self) -> Updates {
        Updates::of(Arc::clone(&self.shared.outbox))
    }

    /// Takes a status off the record by its uuid; false when there is none such. Of a task whose statuses are
    /// [acknowledged when they are recorded](crate::Acknowledge::WhenRecorded) it changes nothing.
    pub fn acknowledge(&self, uuid: &[u8]) -> bool {
        self.shared.outbox.acknowledge(uuid)
    }

    /// The statuses that nobody has acknowledged, oldest first; empty where the record is enough.
    #[must_use]
    pub fn unacknowledged(&self) -> Vec<TaskStatus> {
        self.shared.outbox.unacknowledged()
    }

    /// Its last status so far.
    #[must_use]
    pub fn last_status(&self) -> Option<TaskStatus> {
        self.shared.outbox.last()
    }

    /// What is seen of it, now and from now on.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<TaskView> {
        self.shared.outbox.view()
    }

    /// Waits for its last status. Cancel safe.
    pub async fn ended(&self) -> TaskStatus {
        let mut view = self.watch();
        // The sender is in the outbox, which this holds.
        let _never = view.wait_for(|view| view.over).await.is_ok();
        self.last_status().unwrap_or_default()
    }

    /// Waits until nothing is left to do: it has ended, all is acknowledged, its container is gone or kept on purpose.
    /// Cancel safe.
    pub async fn finished(&self) {
        let mut view = self.watch();
        let _never = view.wait_for(|view| view.finished).await.is_ok();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn kills_that_are_not_taken_become_two_and_none_is_lengthened() {
        let wish = Wish::default();
        for seconds in [9, 3, 600] {
            wish.put(Kill::within(Duration::from_secs(seconds)));
            wish.put(Kill::asked());
        }
        assert_eq!(wish.taken().await, Kill::within(Duration::from_secs(3)));
        assert_eq!(wish.taken().await, Kill::asked());
        assert!(wish.kills.lock().unwrap().is_empty());
    }
}
