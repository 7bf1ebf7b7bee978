//! One task, for whoever launched it.

use std::sync::{Arc, Mutex, PoisonError};

use longshore_mesos_api::v1::{TaskInfo, TaskStatus};
use tokio::sync::{Notify, watch};

use crate::publisher::Outbox;
use crate::{Kill, TaskView, Updates};

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
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) wish: Wish,
}

/// A kill that its driver has not taken yet: several become one, with the shortest grace.
#[derive(Debug, Default)]
pub(crate) struct Wish {
    kill: Mutex<Option<Kill>>,
    there: Notify,
}

impl Wish {
    fn put(&self, kill: Kill) {
        let mut place = self.kill.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut *place {
            Some(first) => {
                // No grace given is the task's own, of which only the state machine knows the length.
                first.grace = match (first.grace, kill.grace) {
                    (Some(one), Some(other)) => Some(one.min(other)),
                    (one, other) => one.or(other),
                };
            }
            None => *place = Some(kill),
        }
        drop(place);
        self.there.notify_one();
    }

    /// Cancel safe.
    pub(crate) async fn taken(&self) -> Kill {
        loop {
            let found = self
                .kill
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
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

    /// Wants it to end; never waits. The answer is its last status, also when it has ended before.
    pub fn kill(&self, kill: Kill) {
        self.shared.wish.put(kill);
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
