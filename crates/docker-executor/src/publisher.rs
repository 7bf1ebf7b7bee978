//! The one writer of a task's record, and of what others see of the task.
//!
//! ```text
//!  driver ── record, statuses ──► Outbox ──► on disk ──► seen: `Task::updates`, `Task::watch`
//! ```
//!
//! A status is seen when it is on disk. What comes while the disk is busy is written at once with what came before. A disk
//! that takes nothing holds up no status for ever: it is seen all the same, and written again and again.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longshore_checkpoint::Durability;
use longshore_mesos_api::v1::{TaskState, TaskStatus};
use prost::Message as _;
use tokio::sync::{Notify, watch};

use crate::record::{Records, StateRecord};
use crate::{Acknowledge, Event, ProcessId, Stage};

/// The most statuses that are kept; of more, the oldest that tell nothing but health are dropped.
const MAX_KEPT: usize = 256;
/// How long a disk is waited for before a status is seen without it.
const DISK: Duration = Duration::from_secs(5);
/// How soon a write that failed is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// What is seen of a task.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct TaskView {
    /// Grows with each change.
    pub generation: u64,
    /// The state that was told last; `None` before the first.
    pub state: Option<TaskState>,
    /// The container's id, once it has been made.
    pub container: Option<String>,
    /// The container's first process, once it is held: of its last run, which may be over.
    pub init: Option<ProcessId>,
    /// Somebody has frozen it.
    pub paused: bool,
    /// The engine did not answer when it was last asked.
    pub engine_silent: bool,
    /// Why the launch does not go on for the moment, while it is tried again.
    pub problem: Option<String>,
    /// How far the pull of the image is, while there is one.
    pub pull: Option<longshore_engine::PullProgress>,
    /// Output that the engine threw away before it was read.
    pub log_gaps: u64,
    /// The last status was told.
    pub over: bool,
    /// It is over, acknowledged, and no container is left that is not kept on purpose.
    pub finished: bool,
}

/// What is to be written and shown.
#[derive(Debug)]
pub(crate) struct Outbox {
    inner: Mutex<Inner>,
    work: Notify,
    /// How many statuses were ever seen.
    seen: watch::Sender<u64>,
    view: watch::Sender<TaskView>,
    /// Up to which change the record is on disk, or was tried to be.
    written: watch::Sender<u64>,
    acknowledge: Acknowledge,
    /// The task itself could not be put on record, so that nothing is written about it.
    unrecorded: AtomicBool,
}

#[derive(Debug)]
struct Inner {
    record: StateRecord,
    /// Statuses that are not seen yet.
    new: VecDeque<TaskStatus>,
    /// Statuses that were seen, with their number; those that are needed still.
    kept: VecDeque<(u64, TaskStatus)>,
    dirty: bool,
    /// Counts changes of the record.
    changes: u64,
    /// Whoever waits for the record has this event sent.
    awaited: bool,
}

impl Outbox {
    pub(crate) fn new(record: StateRecord, acknowledge: Acknowledge) -> Self {
        let decode = |bytes: &Vec<u8>| TaskStatus::decode(bytes.as_slice()).ok();
        let kept: VecDeque<_> = (0..)
            .zip(record.pending.iter().filter_map(decode))
            .collect();
        let last = record.last.as_ref().and_then(decode);
        let view = TaskView {
            generation: 0,
            state: last.map(|status| status.state()),
            container: record.container.clone(),
            init: None,
            paused: false,
            engine_silent: false,
            problem: None,
            pull: None,
            log_gaps: 0,
            over: record.stage == Stage::Over,
            finished: false,
        };
        Self {
            seen: watch::Sender::new(kept.len() as u64),
            inner: Mutex::new(Inner {
                record,
                new: VecDeque::new(),
                kept,
                dirty: false,
                changes: 0,
                awaited: false,
            }),
            work: Notify::new(),
            view: watch::Sender::new(view),
            written: watch::Sender::new(0),
            acknowledge,
            unrecorded: AtomicBool::new(false),
        }
    }

    pub(crate) fn set_unrecorded(&self) {
        self.unrecorded.store(true, Ordering::Relaxed);
    }

    pub(crate) const fn acknowledges(&self) -> Acknowledge {
        self.acknowledge
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn record(&self) -> StateRecord {
        self.lock().record.clone()
    }

    /// Changes the record. `awaited`: [`Event::Recorded`] is sent when it is on disk.
    pub(crate) fn change(&self, awaited: bool, change: impl FnOnce(&mut StateRecord)) {
        let _number = self.numbered_change(awaited, change);
    }

    /// The same, with the number of the change for [`written`](Self::written).
    pub(crate) fn numbered_change(
        &self,
        awaited: bool,
        change: impl FnOnce(&mut StateRecord),
    ) -> u64 {
        let mut inner = self.lock();
        change(&mut inner.record);
        inner.dirty = true;
        inner.awaited |= awaited;
        inner.changes += 1;
        let number = inner.changes;
        drop(inner);
        self.work.notify_one();
        number
    }

    /// Waits until a change is on disk, or was tried to be: the disk's failure is told elsewhere.
    pub(crate) async fn written(&self, change: u64) {
        let mut written = self.written.subscribe();
        // The sender is in `self`.
        let _never = written.wait_for(|number| *number >= change).await.is_ok();
    }

    /// A status, to be seen when it is on disk.
    pub(crate) fn tell(&self, status: TaskStatus) {
        let mut inner = self.lock();
        let bytes = status.encode_to_vec();
        if self.acknowledge == Acknowledge::ByCaller {
            inner.record.pending.push(bytes.clone());
        }
        inner.record.last = Some(bytes);
        inner.new.push_back(status);
        inner.dirty = true;
        drop(inner);
        self.work.notify_one();
    }

    pub(crate) fn show(&self, change: impl FnOnce(&mut TaskView)) {
        self.view.send_if_modified(|view| {
            let before = view.clone();
            change(view);
            let changed = *view != before;
            if changed {
                view.generation += 1;
            }
            changed
        });
    }

    pub(crate) fn view(&self) -> watch::Receiver<TaskView> {
        self.view.subscribe()
    }

    /// A caller has got the status with this id; false when there is none such.
    pub(crate) fn acknowledge(&self, uuid: &[u8]) -> bool {
        let mut inner = self.lock();
        let found = inner
            .kept
            .iter()
            .position(|(_, status)| status.uuid.as_deref() == Some(uuid));
        let Some(index) = found else {
            return false;
        };
        if self.acknowledge == Acknowledge::ByCaller {
            inner.kept.remove(index);
            inner.record.pending.retain(|bytes| {
                TaskStatus::decode(bytes.as_slice())
                    .is_ok_and(|it| it.uuid.as_deref() != Some(uuid))
            });
            inner.dirty = true;
        }
        drop(inner);
        self.work.notify_one();
        true
    }

    /// Those that nobody has acknowledged, oldest first.
    pub(crate) fn unacknowledged(&self) -> Vec<TaskStatus> {
        if self.acknowledge == Acknowledge::WhenRecorded {
            return Vec::new();
        }
        let inner = self.lock();
        inner
            .kept
            .iter()
            .map(|(_, status)| status.clone())
            .collect()
    }

    pub(crate) fn last(&self) -> Option<TaskStatus> {
        let inner = self.lock();
        TaskStatus::decode(inner.record.last.as_ref()?.as_slice()).ok()
    }

    /// Whether all that was told is acknowledged and on disk.
    fn is_settled(inner: &Inner) -> bool {
        inner.new.is_empty() && inner.record.pending.is_empty() && !inner.dirty
    }

    /// Writes and shows, until the task is finished. `key`: where its record is; `None` for a task without one.
    pub(crate) async fn run(
        self: Arc<Self>,
        records: Records,
        key: Option<String>,
        answers: tokio::sync::mpsc::Sender<Event>,
    ) {
        let mut failed = false;
        loop {
            let (record, count, awaited, dirty, finished, changes) = {
                let mut inner = self.lock();
                let dirty = std::mem::take(&mut inner.dirty);
                let awaited = std::mem::take(&mut inner.awaited);
                let finished = inner.record.cleaned && !dirty && Self::is_settled(&inner);
                (
                    inner.record.clone(),
                    inner.new.len(),
                    awaited,
                    dirty,
                    finished,
                    inner.changes,
                )
            };
            // What the disk did not take is tried again first.
            if finished && !failed {
                self.show(|view| view.finished = true);
                return;
            }
            if !dirty {
                if failed {
                    tokio::time::sleep(AGAIN).await;
                    self.lock().dirty = true;
                } else {
                    self.work.notified().await;
                }
                continue;
            }
            let over = record.stage == Stage::Over;
            let key = key
                .as_ref()
                .filter(|_| !self.unrecorded.load(Ordering::Relaxed));
            let result = match key {
                None => Ok(()),
                Some(key) => {
                    let durability = if over {
                        Durability::Power
                    } else {
                        Durability::Process
                    };
                    let write = records.write_state(key, record, durability);
                    match tokio::time::timeout(DISK, write).await {
                        Ok(result) => result.map_err(|error| chain(&error)),
                        Err(_) => Err(format!("the disk did not answer within {DISK:?}")),
                    }
                }
            };
            failed = result.is_err();
            if let Err(problem) = &result {
                tracing::warn!(key, problem, "the record of a task could not be written");
            }
            if awaited {
                let _ended = answers.send(Event::Recorded(result)).await;
            }
            self.written.send_replace(changes);
            self.publish(count, over);
        }
    }

    fn publish(&self, count: usize, over: bool) {
        let mut inner = self.lock();
        let mut state = None;
        for _ in 0..count {
            let Some(status) = inner.new.pop_front() else {
                break;
            };
            state = Some(status.state());
            let number = *self.seen.borrow() + 1;
            inner.kept.push_back((number - 1, status));
            self.seen.send_replace(number);
        }
        while inner.kept.len() > MAX_KEPT {
            let idle = inner.kept.iter().position(|(_, status)| {
                status.state() == TaskState::TaskRunning && status.reason.is_some()
            });
            let index = idle.unwrap_or(0);
            if let Some((_, dropped)) = inner.kept.remove(index) {
                let uuid = dropped.uuid;
                inner.record.pending.retain(|bytes| {
                    TaskStatus::decode(bytes.as_slice()).is_ok_and(|it| it.uuid != uuid)
                });
            }
        }
        drop(inner);
        self.show(|view| {
            view.state = state.or(view.state);
            view.over |= over;
        });
    }

    /// The first one that was seen from `number` on.
    fn from(&self, number: u64) -> Option<(u64, TaskStatus)> {
        let inner = self.lock();
        inner.kept.iter().find(|(it, _)| *it >= number).cloned()
    }
}

/// An error with its causes, on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// The statuses of one task, in their order, each once: those that are unacknowledged, or were told lately, and all that
/// come. Each reader has its own.
#[derive(Debug)]
pub struct Updates {
    outbox: Arc<Outbox>,
    seen: watch::Receiver<u64>,
    next: u64,
}

impl Updates {
    pub(crate) fn of(outbox: Arc<Outbox>) -> Self {
        let seen = outbox.seen.subscribe();
        Self {
            outbox,
            seen,
            next: 0,
        }
    }

    /// The next one; after the last one of a task it never ends. May be dropped and called again: nothing is lost.
    pub async fn next(&mut self) -> TaskStatus {
        loop {
            self.seen.borrow_and_update();
            if let Some((number, status)) = self.outbox.from(self.next) {
                self.next = number + 1;
                return status;
            }
            // The sender is in the outbox, which this holds.
            let _never = self.seen.changed().await;
        }
    }
}
