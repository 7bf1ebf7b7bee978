//! One plugin's task: it alone starts, stops, changes and removes the plugin's containers.
//!
//! ```text
//!   waiting for recovery --found--> settling what was left --> serving <----------------+
//!                                                               |  |                    |
//!                                          changed or removed   |  | want, start, stop, |
//!                                                               v  | restart            |
//!                       nothing mounted (or force) <-- pending (kept, reported) --------+
//!                         |                              ^   |
//!                         |                              +---+ something is mounted
//!                         +--> old containers stopped and cleaned --> serving, or gone
//! ```

use std::path::PathBuf;
use std::sync::Arc;

use longshore_checkpoint::{CheckpointError, Recovered};
use longshore_container_daemon::Phase;
use longshore_paths::{ContainerId, Service};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::board::{PluginBoard, UnitIdentity};
use crate::error::ManagerError;
use crate::plan::{Kind, Plan, Planned};
use crate::record::{HistoryRecord, TotalsRecord};
use crate::recovery::Findings;
use crate::retire::Retired;
use crate::shared::{Shared, blocking, line};
use crate::status::PluginState;
use crate::unit::Unit;
use crate::unmanaged;
use crate::wants::Wants;

mod change;
mod settle;

/// What a plugin's task is asked for.
#[derive(Debug)]
pub(crate) enum Command {
    Start {
        done: oneshot::Sender<()>,
    },
    Stop {
        force: bool,
        done: oneshot::Sender<Result<(), ManagerError>>,
    },
    Restart {
        reset: bool,
        force: bool,
        done: oneshot::Sender<Result<(), ManagerError>>,
    },
    Change(Arc<Plan>),
    Remove,
}

/// What waits for a mount to go.
#[derive(Debug)]
enum Pending {
    Change(Arc<Plan>),
    Remove,
}

pub(crate) struct PluginTask {
    shared: Arc<Shared>,
    board: Arc<PluginBoard>,
    wants: Arc<Wants>,
    plan: Arc<Plan>,
    slots: Vec<Slot>,
    /// Containers that run and are nobody's: to be stopped when nothing is mounted.
    strays: Vec<Retired>,
    watchers: JoinSet<()>,
    stopped: bool,
    pending: Option<Pending>,
}

/// A container of the plan, with its daemon once somebody wants it.
struct Slot {
    planned: Arc<Planned>,
    unit: Option<Unit>,
    /// It runs already.
    attach: bool,
}

impl PluginTask {
    pub(crate) fn new(
        shared: Arc<Shared>,
        board: Arc<PluginBoard>,
        wants: Arc<Wants>,
        plan: Arc<Plan>,
    ) -> Self {
        Self {
            shared,
            board,
            wants,
            plan,
            slots: Vec::new(),
            strays: Vec::new(),
            watchers: JoinSet::new(),
            stopped: false,
            pending: None,
        }
    }

    /// Ends when the plugin was removed.
    /// Boxed: a future holds what is moved into it more than once.
    pub(crate) async fn run(
        mut self: Box<Self>,
        found: oneshot::Receiver<Findings>,
        mut commands: mpsc::Receiver<Box<Command>>,
    ) {
        let Ok(found) = found.await else { return };
        Box::pin(self.settle(found)).await;
        let mut mounts = self.shared.mounts.subscribe();
        loop {
            self.see_mounts(&mounts);
            Box::pin(self.start_wanted()).await;
            let done = tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => Box::pin(self.obey(*command)).await,
                    None => return,
                },
                () = self.wants.changed() => false,
                changed = mounts.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    self.pending.is_some() && Box::pin(self.proceed(false)).await
                }
            };
            if done {
                self.board.remove();
                return;
            }
        }
    }

    /// True when the plugin is gone.
    async fn obey(&mut self, command: Command) -> bool {
        match command {
            Command::Start { done } => {
                self.stopped = false;
                self.wants.want_all();
                self.board.overall(None);
                answer(done, ());
            }
            Command::Stop { force, done } => {
                let stopped = self.stop(force).await;
                if stopped.is_ok() && force && self.pending.is_some() {
                    let gone = Box::pin(self.proceed(true)).await;
                    answer(done, Ok(()));
                    return gone;
                }
                answer(done, stopped);
            }
            Command::Restart { reset, force, done } => {
                if force && self.pending.is_some() {
                    let gone = Box::pin(self.proceed(true)).await;
                    self.stopped = false;
                    answer(done, Ok(()));
                    return gone;
                }
                answer(done, self.restart(reset, force).await);
            }
            Command::Change(plan) => {
                self.pending = Some(Pending::Change(plan));
                return Box::pin(self.proceed(false)).await;
            }
            Command::Remove => {
                self.pending = Some(Pending::Remove);
                return Box::pin(self.proceed(false)).await;
            }
        }
        false
    }

    async fn spare_fuse(&self, force: bool) -> Result<(), ManagerError> {
        for slot in self.slots.iter().filter(|_| !force) {
            let holder = match &slot.unit {
                Some(unit) => unit.fuse_holder().await,
                None if slot.attach => self.shared.fuse_holder(&slot.planned.id).await,
                None => None,
            };
            if let Some(pid) = holder {
                return Err(ManagerError::HoldsFuse {
                    plugin: self.plan.name().to_owned(),
                    pid,
                });
            }
        }
        Ok(())
    }

    async fn stop(&mut self, force: bool) -> Result<(), ManagerError> {
        self.spare_fuse(force).await?;
        self.load_history().await;
        self.stopped = true;
        if let Kind::Unmanaged(_) = self.plan.kind {
            self.watchers.shutdown().await;
            self.board.units(unmanaged::identities(&self.plan));
            self.board
                .overall(Some((PluginState::Stopped, "stopped by request")));
            return Ok(());
        }
        let all: Vec<usize> = (0..self.slots.len()).collect();
        self.stop_slots(&all).await;
        self.board
            .overall(Some((PluginState::Stopped, "stopped by request")));
        Ok(())
    }

    async fn restart(&mut self, reset: bool, force: bool) -> Result<(), ManagerError> {
        self.spare_fuse(force).await?;
        self.load_history().await;
        if reset {
            self.board.forget();
        }
        self.board.overall(None);
        self.stopped = false;
        self.wants.want_all();
        if let Kind::Unmanaged(_) = self.plan.kind {
            self.watchers.shutdown().await;
            self.board.units(unmanaged::identities(&self.plan));
            return Ok(());
        }
        for at in 0..self.slots.len() {
            let attach = std::mem::take(&mut self.slots[at].attach);
            let grace = self.plan.config.kill_grace;
            let unit = self.unit(at);
            if attach {
                unit.begin(true).await;
            }
            if let Err(error) = unit.daemon.restart(grace, reset).await {
                tracing::error!(%error, "not restarted");
            }
        }
        Ok(())
    }

    fn tell_units(&self) {
        if let Kind::Unmanaged(_) = self.plan.kind {
            self.board.units(unmanaged::identities(&self.plan));
            return;
        }
        let identity = |slot: &Slot| UnitIdentity {
            id: Some(slot.planned.id.clone()),
            services: slot.planned.services.clone(),
            socket: self.shared.places.runtime.csi_socket(&slot.planned.short),
        };
        self.board.units(self.slots.iter().map(identity).collect());
    }

    /// The unit of a slot, made when there is none.
    fn unit(&mut self, at: usize) -> &Unit {
        let (shared, board, plan) = (&self.shared, &self.board, &self.plan);
        let slot = &mut self.slots[at];
        let (planned, recorded) = (&slot.planned, slot.attach);
        slot.unit
            .get_or_insert_with(|| Unit::new(shared, board, plan, at, planned, recorded))
    }

    async fn start_wanted(&mut self) {
        if self.stopped {
            return;
        }
        if let Kind::Unmanaged(_) = self.plan.kind {
            if self.watchers.is_empty() && self.wants.any() {
                self.load_history().await;
                for (at, (endpoint, services)) in
                    unmanaged::endpoints(&self.plan).into_iter().enumerate()
                {
                    let (plan, board) = (Arc::clone(&self.plan), Arc::clone(&self.board));
                    let watching = unmanaged::keep_watching(plan, board, at, endpoint, services);
                    self.watchers.spawn(Box::pin(watching));
                }
            }
            return;
        }
        for at in 0..self.slots.len() {
            let slot = &self.slots[at];
            let wanted = self
                .serves(at)
                .iter()
                .any(|service| self.wants.wanted(*service));
            let idle = slot
                .unit
                .as_ref()
                .is_none_or(|unit| unit.phase() == Phase::Down);
            if wanted && idle {
                self.load_history().await;
                let attach = self.slots[at].attach;
                let unit = self.unit(at);
                unit.begin(attach).await;
                self.slots[at].attach = false;
            }
        }
    }

    /// The wanted services that this container is the first to offer.
    fn serves(&self, at: usize) -> Vec<Service> {
        let first = |service: &Service| {
            self.slots
                .iter()
                .position(|slot| slot.planned.services.contains(service))
                == Some(at)
        };
        self.plan.services.iter().copied().filter(first).collect()
    }

    async fn stop_slots(&mut self, which: &[usize]) {
        let grace = self.plan.config.kill_grace;
        for at in which {
            if std::mem::take(&mut self.slots[*at].attach) {
                self.unit(*at).begin(true).await;
            }
        }
        let stops = which.iter().filter_map(|at| self.slots[*at].unit.as_ref());
        let mut jobs = JoinSet::new();
        for unit in stops {
            let control = unit.daemon.control();
            jobs.spawn(async move { control.stopped(grace).await });
        }
        jobs.join_all().await;
        for at in which {
            self.slots[*at].unit = None;
        }
    }

    /// What happened in earlier lives, read when the plugin is first wanted.
    async fn load_history(&self) {
        if !self.board.begin_load() {
            return;
        }
        let (name, shared) = (self.plan.name().to_owned(), Arc::clone(&self.shared));
        let read = blocking(move || {
            let recover = |path: PathBuf| shared.writer.recover::<HistoryRecord>(path);
            let history = recover(history_path(&shared, &name));
            let totals = shared
                .writer
                .recover::<TotalsRecord>(totals_path(&shared, &name));
            (history, totals)
        });
        match read.await {
            Ok((history, totals)) => {
                if let Some(record) = self.recovered("history", history) {
                    self.board.load(&record);
                }
                if let Some(record) = self.recovered("totals", totals) {
                    self.board.load_totals(record);
                }
            }
            Err(failure) => tracing::warn!(failure.message, "no history"),
        }
    }

    /// The record, where there is a good one; a damaged one is named in the log and in the status.
    fn recovered<R>(&self, what: &str, read: Result<Recovered<R>, CheckpointError>) -> Option<R> {
        let plugin = self.plan.name();
        match read {
            Ok(Recovered::Record(record)) => return Some(record),
            Ok(Recovered::Nothing) => {}
            Ok(Recovered::Quarantined { damage, moved_to }) => {
                let aside = match &moved_to {
                    Ok(path) => path.display().to_string(),
                    Err(error) => line(error),
                };
                tracing::warn!(plugin, what, aside, %damage, "record set aside");
                self.shared.board.update(|status| status.set_aside += 1);
            }
            Ok(Recovered::Newer { damage }) => {
                tracing::warn!(plugin, what, %damage, "record left for the release that wrote it");
            }
            Err(error) => tracing::warn!(plugin, what, error = line(&error), "record not read"),
        }
        None
    }
}

/// Nobody may wait for the answer any more.
fn answer<T>(done: oneshot::Sender<T>, value: T) {
    if done.send(value).is_err() {
        tracing::debug!("nobody waits for the answer");
    }
}

/// The containers of a plan, asking for the agent's id where it matters.
pub(crate) async fn planned(shared: &Shared, plan: &Arc<Plan>) -> Vec<Planned> {
    let agent_id = agent_id(shared, plan).await;
    plan.planned(&shared.places, agent_id.as_ref())
}

/// The agent's id, asked for until there is an answer; `None` where it does not matter.
pub(crate) async fn agent_id(shared: &Shared, plan: &Plan) -> Option<Arc<str>> {
    let mut failures = 0_u32;
    loop {
        if !plan.needs_agent_id() {
            return None;
        }
        match shared.agent_id().await {
            Ok(id) => return Some(id),
            Err(error) => {
                tracing::warn!(%error, "the agent's id is needed");
                failures = failures.saturating_add(1);
                tokio::time::sleep(longshore_backoff::Backoff::default().delay(failures, 0.5))
                    .await;
            }
        }
    }
}

/// Where a plugin's history is.
pub(crate) fn history_path(shared: &Shared, name: &str) -> PathBuf {
    record_path(shared, name, "history")
}

/// Where it is written what was counted of a plugin.
pub(crate) fn totals_path(shared: &Shared, name: &str) -> PathBuf {
    record_path(shared, name, "totals")
}

/// The name is the operator's and may be anything.
fn record_path(shared: &Shared, name: &str, kind: &str) -> PathBuf {
    let short = crate::launch::LaunchHash::of(name.as_bytes()).to_string();
    let safe: String = name
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
        .take(40)
        .collect();
    let file = format!("{safe}-{}.{kind}", short.get(..8).unwrap_or_default());
    shared.places.state.history_dir().join(file)
}

/// The ids that a plan uses.
pub(crate) fn ids(plan: &Plan) -> Vec<ContainerId> {
    plan.drafts().iter().map(|draft| draft.id.clone()).collect()
}
