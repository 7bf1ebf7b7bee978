//! All declared tasks of one root.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use longshore_backoff::RestartPolicy;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::actor::{Actor, Command, adopted, attempt_id};
use super::machine::{Moment, State};
use super::record::{Recorded, Store, WantedRecord};
use super::{CsiReadiness, Declaration, DeclaredBy, DeclaredStatus};
use crate::{TaskManager, TaskManagerError, id};

/// How many wishes wait for one task.
const WISHES: usize = 16;
/// How long one may wait until it is taken, and then until it is on record.
const TAKEN: Duration = Duration::from_secs(60);

/// What holds for all declared tasks.
#[derive(Clone, Debug)]
pub struct DeclaredOptions {
    /// How they are started again.
    pub policy: RestartPolicy,
    /// The CSI plugins, for `needs`.
    pub csi: watch::Receiver<Arc<CsiReadiness>>,
    /// Why nothing may be started from the beginning on.
    pub held: Option<String>,
}

/// What the files of a configuration declare.
#[derive(Clone, Debug, Default)]
pub struct Declared {
    /// Those that can be used.
    pub wanted: Vec<Declaration>,
    /// Files that cannot be used now: what they declared before goes on.
    pub broken: BTreeSet<PathBuf>,
    /// The files cannot be listed: nothing that a file has declared is given up.
    pub unknown: bool,
}

/// The declared tasks of one root. Clones are the same. Needs a tokio runtime with time.
///
/// With the last clone nothing is started any more; what runs goes on.
#[derive(Clone, Debug)]
pub struct DeclaredTasks {
    shared: Arc<Shared>,
    _last: Arc<Last>,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) manager: TaskManager,
    pub(super) store: Store,
    pub(super) csi: watch::Receiver<Arc<CsiReadiness>>,
    pub(super) hold: watch::Sender<Option<String>>,
    pub(super) changed: watch::Sender<u64>,
    pub(super) clock: Clock,
    policy: RestartPolicy,
    /// Names whose records a newer release has written: nothing is done about them, and the records stay as they are.
    newer: BTreeSet<String>,
    entries: Mutex<BTreeMap<String, Entry>>,
}

#[derive(Debug)]
struct Entry {
    commands: mpsc::Sender<Command>,
    status: watch::Receiver<Arc<DeclaredStatus>>,
    actor: AbortHandle,
}

/// Ends the actors with the last clone: they hold the rest, too.
#[derive(Debug)]
struct Last(Arc<Shared>);

impl Drop for Last {
    fn drop(&mut self) {
        for entry in std::mem::take(&mut *self.0.entries()).into_values() {
            entry.actor.abort();
        }
    }
}

/// The time since 1970 that never goes back within one life.
#[derive(Debug)]
pub(super) struct Clock {
    wall: Duration,
    since: Instant,
}

impl Clock {
    fn new() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            wall: wall.unwrap_or_default(),
            since: Instant::now(),
        }
    }

    pub(super) fn now(&self) -> Duration {
        self.wall.saturating_add(self.since.elapsed())
    }

    pub(super) fn moment(&self) -> Moment {
        let mut bytes = [0_u8; 4];
        // Without random bytes there is no jitter, which is no harm.
        let random = match getrandom::fill(&mut bytes) {
            Ok(()) => f64::from(u32::from_le_bytes(bytes)) / (f64::from(u32::MAX) + 1.0),
            Err(_) => 0.0,
        };
        Moment {
            now: self.now(),
            random,
        }
    }
}

impl DeclaredTasks {
    /// Takes up what is on record, and what `declared` says of it now. Nothing is started while it is held.
    ///
    /// Gives what is wrong with single tasks, one line each; the others go on.
    #[must_use]
    pub fn start(
        manager: TaskManager,
        options: DeclaredOptions,
        declared: Declared,
    ) -> (Self, Vec<String>) {
        let DeclaredOptions { policy, csi, held } = options;
        let recorded = manager.shared.take_recorded();
        let newer = recorded
            .iter()
            .filter(|one| matches!(one, Recorded::Newer { .. }))
            .map(|one| one.name().to_owned());
        let shared = Arc::new(Shared {
            newer: newer.collect(),
            store: Store::new(&manager.shared.options.state_dir),
            manager,
            csi,
            hold: watch::Sender::new(held),
            changed: watch::Sender::new(0),
            clock: Clock::new(),
            policy,
            entries: Mutex::default(),
        });
        let this = Self {
            _last: Arc::new(Last(Arc::clone(&shared))),
            shared,
        };
        let mut problems = Vec::new();
        let mut lost = BTreeSet::new();
        for one in recorded {
            let name = one.name().to_owned();
            match one.read(policy) {
                Ok((declaration, state)) => {
                    // What is wanted now is known before anything is started.
                    let (declaration, state) =
                        this.shared.as_declared(declaration, state, &declared);
                    this.shared.spawn(declaration, state);
                }
                Err(problem) if this.shared.newer.contains(&name) => {
                    problems.push(format!("declared task {name}: nothing is started: its record was {problem}; use that release"));
                }
                Err(problem) => {
                    tracing::error!(
                        task = name,
                        problem,
                        "what was wanted of a task cannot be read"
                    );
                    problems.push(format!(
                        "declared task {name}: its record is damaged: {problem}"
                    ));
                    lost.insert(name);
                }
            }
        }
        problems.extend(this.take(declared, &lost));
        (this, problems)
    }

    /// Puts in force what files declare; what follows from it goes on after this returns. Tasks that an operator has declared
    /// are not touched.
    ///
    /// Gives what cannot be done, one line each.
    pub async fn apply(&self, declared: Declared) -> Vec<String> {
        let mut problems = Vec::new();
        for (name, sender, status) in self.shared.senders() {
            let DeclaredBy::File(path) = &status.origin else {
                continue;
            };
            let command = match declared.wanted.iter().find(|it| it.name == name) {
                Some(wanted) => Command::Change(Box::new(wanted.clone())),
                None if declared.unknown || declared.broken.contains(path) => continue,
                None => Command::Leave,
            };
            match tokio::time::timeout(TAKEN, sender.send(command)).await {
                // One that is gone is declared anew below.
                Ok(_) => {}
                Err(_) => problems.push(format!(
                    "declared task {name}: the change was not taken within {}s",
                    TAKEN.as_secs()
                )),
            }
        }
        problems.extend(self.take(declared, &BTreeSet::new()));
        problems
    }

    /// Declares those that there are not yet. Of those in `lost` an attempt may run that no record names.
    fn take(&self, declared: Declared, lost: &BTreeSet<String>) -> Vec<String> {
        let mut problems = Vec::new();
        for declaration in declared.wanted {
            let name = declaration.name.clone();
            if self.shared.newer.contains(&name) {
                continue;
            }
            match self.shared.status(&name) {
                Some(status) if status.origin == DeclaredBy::Command => problems.push(format!(
                    "declared task {name}: `longshore task run --restart` has declared one of this name: remove it (`longshore task rm -f {name}`), or rename the file"
                )),
                Some(_) => {}
                None => {
                    let state = self.shared.fresh(&declaration, lost.contains(&name));
                    self.shared.spawn(declaration, state);
                }
            }
        }
        problems
    }

    /// Declares a task by an operator's command, and returns once it is on record.
    ///
    /// # Errors
    /// There is one of this name, or the name can be none; it cannot be put on record.
    pub async fn declare(&self, declaration: Declaration) -> Result<(), TaskManagerError> {
        let name = declaration.name.clone();
        id::check_declared(&name)?;
        let newer = self.shared.newer.contains(&name);
        if newer || self.shared.status(&name).is_some() || self.shared.manager.watch(&name).is_ok()
        {
            return Err(TaskManagerError::Taken {
                id: name,
                how: "declared or launched",
                advice: "remove it first, or take another name",
            });
        }
        // Before it is wanted for good.
        TaskManager::judge(&declaration)?;
        let state = self.shared.fresh(&declaration, false);
        let record = WantedRecord::of(&declaration, &state);
        self.shared.store.write(record).await?;
        self.shared.spawn(declaration, state);
        Ok(())
    }

    /// Stops a task until it is started again; returns once that is on record. It may have been stopped.
    ///
    /// # Errors
    /// [`TaskManagerError::Unknown`]; [`TaskManagerError::NotKept`]: it ends, and may be started by the next daemon.
    pub async fn stop(&self, name: &str, grace: Option<Duration>) -> Result<(), TaskManagerError> {
        self.wish(name, |answer| Command::Stop(grace, answer)).await
    }

    /// Starts a task that is stopped, done or backed off, at once; of one that runs it forgets past failures.
    ///
    /// # Errors
    /// As [`stop`](Self::stop).
    pub async fn start_task(&self, name: &str) -> Result<(), TaskManagerError> {
        self.wish(name, Command::Start).await
    }

    /// Gives up a task that an operator has declared, and waits until it has ended; with `force` it is killed.
    ///
    /// # Errors
    /// [`TaskManagerError::Unknown`], [`TaskManagerError::Running`]; [`TaskManagerError::OfFile`]; it does not end in time.
    pub async fn remove(&self, name: &str, force: bool) -> Result<(), TaskManagerError> {
        let status = self.status(name)?;
        if let DeclaredBy::File(path) = &status.origin {
            return Err(TaskManagerError::OfFile {
                name: name.to_owned(),
                path: path.clone(),
            });
        }
        if status.why.is_none() && !force {
            return Err(TaskManagerError::Running {
                id: name.to_owned(),
            });
        }
        if force {
            self.stop(name, Some(Duration::ZERO)).await?;
        }
        let sender = self.shared.sender(name)?;
        // One that is gone meanwhile is what was wanted.
        let _gone = tokio::time::timeout(TAKEN, sender.send(Command::Leave)).await;
        let mut changed = self.changes();
        let gone = async {
            while self.shared.status(name).is_some() && changed.changed().await.is_ok() {}
        };
        if tokio::time::timeout(TAKEN, gone).await.is_err() {
            return Err(TaskManagerError::StillRunning {
                id: name.to_owned(),
                within: TAKEN,
            });
        }
        Ok(())
    }

    /// Starts nothing from now on, and says why. What runs goes on, or is ended by whoever holds; it is not started again.
    pub fn hold(&self, why: impl Into<String>) {
        self.shared.hold.send_replace(Some(why.into()));
    }

    /// Starts what is wanted again.
    pub fn release(&self) {
        self.shared.hold.send_replace(None);
    }

    /// Why nothing is started, where it is held.
    #[must_use]
    pub fn held(&self) -> Option<String> {
        self.shared.hold.borrow().clone()
    }

    /// All of them, by name.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<DeclaredStatus>> {
        let entries = self.shared.entries();
        entries
            .values()
            .map(|entry| Arc::clone(&entry.status.borrow()))
            .collect()
    }

    /// One of them.
    ///
    /// # Errors
    /// [`TaskManagerError::Unknown`].
    pub fn status(&self, name: &str) -> Result<Arc<DeclaredStatus>, TaskManagerError> {
        let status = self.shared.status(name);
        status.ok_or_else(|| TaskManagerError::Unknown {
            id: name.to_owned(),
        })
    }

    /// The id of the last attempt of the declared task of this name; `None` for another name.
    ///
    /// # Errors
    /// [`TaskManagerError::NoAttempt`].
    pub fn attempt(&self, name: &str) -> Option<Result<String, TaskManagerError>> {
        let status = self.shared.status(name)?;
        let known = (1..=status.number)
            .rev()
            .take(usize::try_from(super::machine::KEPT).unwrap_or(1));
        let mut ids = known.map(|number| attempt_id(name, number));
        let found = ids.find(|id| self.shared.manager.watch(id).is_ok());
        Some(found.ok_or_else(|| {
            TaskManagerError::NoAttempt {
                name: name.to_owned(),
                reason: format!("{} {}", status.word(), status.reason())
                    .trim()
                    .to_owned(),
            }
        }))
    }

    /// A number that grows with each change of any of them.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }

    async fn wish(
        &self,
        name: &str,
        command: impl FnOnce(oneshot::Sender<Result<(), TaskManagerError>>) -> Command,
    ) -> Result<(), TaskManagerError> {
        let unknown = || TaskManagerError::Unknown {
            id: name.to_owned(),
        };
        let sender = self.shared.sender(name)?;
        let (answer, answered) = oneshot::channel();
        let asked = async {
            sender.send(command(answer)).await.map_err(|_| unknown())?;
            answered.await.map_err(|_| unknown())?
        };
        match tokio::time::timeout(TAKEN, asked).await {
            Ok(done) => done,
            Err(_) => Err(TaskManagerError::NotKept {
                name: name.to_owned(),
                problem: format!("the disk has not answered within {}s", TAKEN.as_secs()),
            }),
        }
    }
}

impl Shared {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn status(&self, name: &str) -> Option<Arc<DeclaredStatus>> {
        let entries = self.entries();
        entries
            .get(name)
            .map(|entry| Arc::clone(&entry.status.borrow()))
    }

    fn senders(&self) -> Vec<(String, mpsc::Sender<Command>, Arc<DeclaredStatus>)> {
        let entries = self.entries();
        let all = entries.iter().map(|(name, entry)| {
            let status = Arc::clone(&entry.status.borrow());
            (name.clone(), entry.commands.clone(), status)
        });
        all.collect()
    }

    fn sender(&self, name: &str) -> Result<mpsc::Sender<Command>, TaskManagerError> {
        let entries = self.entries();
        let entry = entries.get(name).ok_or_else(|| TaskManagerError::Unknown {
            id: name.to_owned(),
        })?;
        Ok(entry.commands.clone())
    }

    pub(super) fn bump(&self) {
        self.changed.send_modify(|generation| *generation += 1);
        self.manager.shared.bump();
    }

    /// An actor is done with its task.
    pub(super) fn left(&self, name: &str) {
        self.entries().remove(name);
        self.manager.shared.declared.fetch_sub(1, Ordering::Relaxed);
        self.manager.shared.let_go(name);
        self.bump();
    }

    /// One that is on record, as the files say it now.
    fn as_declared(
        &self,
        recorded: Declaration,
        state: State,
        declared: &Declared,
    ) -> (Declaration, State) {
        let DeclaredBy::File(path) = &recorded.origin else {
            return (recorded, state);
        };
        // The first event is not told yet, so no action can follow but the record, which the next launch writes.
        let moment = self.clock.moment();
        match declared.wanted.iter().find(|it| it.name == recorded.name) {
            Some(wanted) => {
                let replace = !recorded.runs_as(wanted);
                let rule = wanted.rule;
                let changed = *wanted != recorded || state.leaving;
                let state = match changed {
                    true => {
                        let event = super::Event::Changed { rule, replace };
                        state.step(event, moment).0
                    }
                    false => state,
                };
                (wanted.clone(), state)
            }
            None if declared.unknown || declared.broken.contains(path) => (recorded, state),
            None => {
                let state = state.step(super::Event::Left, moment).0;
                (recorded, state)
            }
        }
    }

    /// The state of one that is on no record. Its numbers go on behind those of tasks that are.
    fn fresh(&self, declaration: &Declaration, lost: bool) -> State {
        let mut state = State::new(declaration.rule, self.policy);
        let tasks = self.manager.tasks();
        let numbered = tasks.iter().filter_map(|task| {
            let number = task.id.strip_prefix(&declaration.name)?.strip_prefix('.')?;
            Some((number.parse::<u64>().ok()?, task))
        });
        let last = numbered.max_by_key(|(number, _)| *number);
        if let Some((number, task)) = last {
            state.number = number;
            if lost && !task.has_ended() {
                state.attempts.push_back(adopted(number, task.launched));
            }
        }
        state
    }

    fn spawn(self: &Arc<Self>, declaration: Declaration, state: State) {
        let name = declaration.name.clone();
        if state.number > 0 {
            let last = attempt_id(&name, state.number);
            self.manager.shared.keep(&name, &last);
        }
        let (commands, wishes) = mpsc::channel(WISHES);
        let (actor, status) = Actor::new(Arc::clone(self), declaration, state, wishes);
        self.manager.shared.declared.fetch_add(1, Ordering::Relaxed);
        // Whoever looks for another's status finds it before the actor runs.
        let mut entries = self.entries();
        let actor = tokio::spawn(actor.run()).abort_handle();
        entries.insert(
            name,
            Entry {
                commands,
                status,
                actor,
            },
        );
    }
}
