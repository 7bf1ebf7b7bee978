//! One task's driver: performs what the state machine says, and feeds back what came of it. Decides nothing.
//!
//! ```text
//!   kills ──┐                     ┌──► calls of the engine, each a tokio task with a deadline ──┐
//!   events ─┼──► State::step ─────┼──► Outbox: record, statuses                                 │
//!   due ────┘        ▲            ├──► checks, logs                                             │
//!                    └────────────┴───────────────────── answers ◄──────────────────────────────┘
//! ```

pub(crate) mod calls;
mod checks;
pub(crate) mod events;
mod exec;
mod logs;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::{mpsc, watch};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, sleep_until};

use crate::executor::Core;
use crate::prepare::Prepared;
use crate::record::{KillRecord, StateRecord, TaskRecord};
use crate::task::Shared;
use crate::{Action, Event, HeldProcess, News, Stage, State, status};

use checks::Command;

/// How many events may wait for a driver.
const QUEUE: usize = 256;

/// Where events of a task are put.
#[derive(Clone, Debug)]
pub(crate) struct Mailbox {
    sender: mpsc::Sender<Event>,
    /// Something did not fit: the container is to be looked at.
    missed: Arc<AtomicBool>,
}

impl Mailbox {
    pub(crate) fn post(&self, event: Event) {
        if self.sender.try_send(event).is_err() {
            self.missed.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) const fn sender(&self) -> &mpsc::Sender<Event> {
        &self.sender
    }
}

pub(crate) struct Driver {
    core: Arc<Core>,
    shared: Arc<Shared>,
    record: TaskRecord,
    prepared: Arc<Prepared>,
    state: State,
    epoch: Instant,
    mailbox: Mailbox,
    events: mpsc::Receiver<Event>,
    calls: JoinSet<()>,
    pull: Option<AbortHandle>,
    init: Option<Arc<dyn HeldProcess>>,
    checks: Option<watch::Sender<Command>>,
    /// Whether the output is to be read to its end; when it has been, the receivers are gone.
    drain: Option<watch::Sender<bool>>,
    /// One moment of a hook after the other.
    hooks: Arc<tokio::sync::Mutex<()>>,
    started: bool,
}

impl Driver {
    pub(crate) fn new(
        core: Arc<Core>,
        shared: Arc<Shared>,
        record: TaskRecord,
        prepared: Prepared,
        state: State,
    ) -> (Self, Mailbox) {
        let (sender, events) = mpsc::channel(QUEUE);
        let mailbox = Mailbox {
            sender,
            missed: Arc::new(AtomicBool::new(false)),
        };
        let hooks = Arc::clone(&shared.hooks);
        let driver = Self {
            core,
            shared,
            record,
            prepared: Arc::new(prepared),
            state,
            epoch: Instant::now(),
            mailbox: mailbox.clone(),
            events,
            calls: JoinSet::new(),
            pull: None,
            init: None,
            checks: None,
            drain: None,
            hooks,
            started: false,
        };
        (driver, mailbox)
    }

    /// Until nothing is left to do. `actions`: the first ones.
    pub(crate) async fn run(mut self, actions: Vec<Action>) {
        self.perform_all(actions);
        while !self.state.is_gone() {
            let event = self.next().await;
            tracing::trace!(task = self.record.id, ?event, "event");
            self.take(event);
            if self.mailbox.missed.swap(false, Ordering::Relaxed) {
                self.take(Event::EngineResumed);
            }
        }
        if self.state.container().is_none() {
            // It never came to be, or somebody else has removed it.
            self.hook_removed();
        }
        // The last words of hooks, and output that is still being read. What waits for an engine that never answers is
        // given up with the rest.
        let rest = async { while self.calls.join_next().await.is_some() {} };
        let _too_long = tokio::time::timeout(calls::REST, rest).await;
    }

    async fn next(&mut self) -> Event {
        let due = self.state.due().and_then(|due| self.epoch.checked_add(due));
        let timer = async {
            match due {
                Some(due) => sleep_until(due).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            kill = self.shared.wish.taken() => Event::Kill(kill),
            Some(event) = self.events.recv() => event,
            () = timer => Event::Due,
            // Calls answer by the mailbox; here they are only buried.
            Some(_) = self.calls.join_next() => Event::Due,
        }
    }

    fn take(&mut self, event: Event) {
        let mut actions = Vec::new();
        let now = Core::since(self.epoch);
        self.state.step(event, now, &mut actions);
        self.perform_all(actions);
        let (paused, silent) = (self.state.is_paused(), self.state.is_engine_silent());
        let (container, problem) = (self.state.container(), self.state.problem());
        self.shared.outbox.show(|view| {
            view.paused = paused;
            view.engine_silent = silent;
            if view.problem.as_deref() != problem {
                view.problem = problem.map(str::to_owned);
            }
            if view.container.as_deref() != container {
                view.container = container.map(str::to_owned);
            }
        });
    }

    fn perform_all(&mut self, actions: Vec<Action>) {
        for action in actions {
            tracing::debug!(task = self.record.id, ?action, "action");
            self.perform(action);
        }
    }

    fn perform(&mut self, action: Action) {
        match action {
            Action::Record(stage) => self.put_on_record(stage),
            Action::Pull => self.pull(),
            Action::CancelPull => {
                if let Some(pull) = self.pull.take() {
                    pull.abort();
                }
                self.shared.outbox.show(|view| view.pull = None);
            }
            Action::Create => self.create(),
            Action::Start => self.start(),
            Action::Wait => self.wait(),
            Action::Inspect => self.inspect(),
            Action::Hold(pid) => self.hold(pid),
            Action::Signal(signal) => self.signal(signal),
            Action::SignalInit(signal) => self.signal_init(signal),
            Action::Sweep => self.sweep(),
            Action::Unpause => self.unpause(),
            Action::Remove => self.remove(),
            Action::StartLogs => self.start_logs(),
            Action::DrainLogs => self.drain_logs(),
            Action::StartChecks => self.start_checks(),
            Action::PauseChecks => self.command_checks(Command::Pause),
            Action::ResumeChecks => self.command_checks(Command::Run),
            Action::StopChecks => self.checks = None,
            Action::Tell(update) => {
                if matches!(update.news, News::Ended(_)) {
                    self.hook_stopped();
                }
                self.shared
                    .outbox
                    .tell(status::of_update(&self.shared.info, &update));
            }
            Action::Finish => self
                .shared
                .outbox
                .change(false, |record| record.cleaned = true),
        }
    }

    fn put_on_record(&self, stage: Stage) {
        let boot_id = self.core.boot_id.clone();
        let container = self.state.container().map(str::to_owned);
        let (run, told_running, healthy) = self.state.for_record();
        let started_by = self.state.started_by_for_record();
        let kill = self.state.kill_for_record(Core::since(self.epoch));
        let change = move |record: &mut StateRecord| {
            record.stage = stage;
            record.boot_id = boot_id;
            record.container = container;
            record.run = run;
            record.started_by = started_by;
            record.told_running = told_running;
            record.healthy = healthy;
            record.kill = kill.map(|kill| KillRecord::new(kill, status::now_ms()));
            if stage == Stage::Over {
                record.ended_ms = Some(status::now_ms());
            }
        };
        if stage == Stage::Intended {
            self.record_task(change);
        } else {
            self.shared.outbox.change(stage.is_awaited(), change);
        }
    }
}
