//! One plugin's registration: does what the machine says, and tells it what happens.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use longshore_backoff::Backoff;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, DropGuard};
use tokio_util::task::TaskTracker;

use crate::ledger::Ledger;
use crate::machine::{Action, At, Event, Machine, Phase};
use crate::registrar::Board;
use crate::serve::{self, Told};
use crate::socket::{Obstacle, Own};
use crate::status::RegistrationState;
use crate::target::{Nothing, Offer, Target, judge};

/// What kubelet has said and nobody has read yet.
const TOLD: usize = 8;

pub(crate) struct Actor {
    name: String,
    dir: PathBuf,
    board: Board,
    ledger: Ledger,
    /// Of the servers, too.
    tasks: TaskTracker,
    machine: Machine,
    epoch: Instant,
    serving: Option<Serving>,
    /// Counts sockets.
    served: u64,
    told: mpsc::Sender<Told>,
    /// Why there is no target.
    nothing: Option<Nothing>,
    confirmed: u64,
}

struct Serving {
    own: Own,
    number: u64,
    _stop: DropGuard,
}

/// How an actor is ended.
#[derive(Clone, Debug)]
pub(crate) struct Ends {
    /// The plugin is not to be registered any more.
    pub(crate) removed: CancellationToken,
    /// The daemon ends: the socket stays.
    pub(crate) stopped: CancellationToken,
}

impl Actor {
    pub(crate) fn new(
        name: String,
        dir: PathBuf,
        board: Board,
        ledger: Ledger,
        tasks: TaskTracker,
        backoff: Backoff,
    ) -> Self {
        Self {
            name,
            dir,
            board,
            ledger,
            tasks,
            machine: Machine::new(backoff),
            epoch: Instant::now(),
            serving: None,
            served: 0,
            // The one of `run` takes its place.
            told: mpsc::channel(TOLD).0,
            nothing: None,
            confirmed: 0,
        }
    }

    pub(crate) async fn run(
        mut self,
        mut offers: watch::Receiver<Offer>,
        mut looks: watch::Receiver<u64>,
        ends: Ends,
    ) {
        let (told, mut answers) = mpsc::channel(TOLD);
        self.told = told;
        let offer = offers.borrow_and_update().clone();
        self.offered(&offer).await;
        loop {
            self.publish();
            let due = self.machine.deadline().map(|due| self.epoch + due);
            tokio::select! {
                biased;
                () = ends.stopped.cancelled() => return,
                () = ends.removed.cancelled() => {
                    self.step(Event::Target(None)).await;
                    return;
                }
                Some(told) = answers.recv() => self.answered(told).await,
                Ok(()) = offers.changed() => {
                    let offer = offers.borrow_and_update().clone();
                    self.offered(&offer).await;
                }
                Ok(()) = looks.changed() => self.look().await,
                () = until(due) => self.step(Event::Due).await,
            }
        }
    }

    async fn offered(&mut self, offer: &Offer) {
        let target = match judge(&self.dir, offer) {
            Ok(target) => {
                self.nothing = None;
                Some(target)
            }
            Err(nothing) => {
                self.nothing = Some(nothing);
                None
            }
        };
        self.step(Event::Target(target)).await;
    }

    async fn answered(&mut self, told: Told) {
        if self
            .serving
            .as_ref()
            .is_none_or(|serving| serving.number != told.serving)
        {
            return;
        }
        self.confirmed += u64::from(told.answer.is_ok());
        self.step(Event::Told(told.answer)).await;
    }

    async fn look(&mut self) {
        let event = match &self.serving {
            None => Event::Changed,
            Some(serving) => {
                let own = serving.own.clone();
                match blocking(move || own.is_there()).await {
                    Some(false) => Event::Lost,
                    _ => return,
                }
            }
        };
        self.step(event).await;
    }

    fn at(&self) -> At {
        At {
            now: self.epoch.elapsed(),
            random: random(),
        }
    }

    async fn step(&mut self, event: Event) {
        let mut actions = self.machine.step(event, self.at());
        // A bind is the last of the actions, and its outcome asks for none.
        while !actions.is_empty() {
            let mut next = Vec::new();
            for action in actions {
                match action {
                    Action::Release => self.release().await,
                    Action::Bind(target) => {
                        let outcome = self.bind(target).await;
                        next.extend(self.machine.step(Event::Bound(outcome), self.at()));
                    }
                }
            }
            actions = next;
        }
    }

    async fn bind(&mut self, target: Target) -> Result<(), String> {
        let path = target.socket.clone();
        let (ledger, name) = (self.ledger.clone(), self.name.clone());
        let bound = blocking(move || {
            ledger.begin(&name, &path);
            Own::bind(&path).inspect_err(|_| ledger.end(&name, &path))
        });
        let bound = bound.await;
        let (own, listener) = match bound {
            Some(Ok(bound)) => bound,
            Some(Err(obstacle)) => return Err(line(&obstacle)),
            None => return Err("the daemon is stopping".to_owned()),
        };
        self.served += 1;
        let stop = CancellationToken::new();
        let spawned = serve::spawn(
            &self.tasks,
            listener,
            &target,
            self.served,
            self.told.clone(),
            stop.clone(),
        );
        let serving = Serving {
            own,
            number: self.served,
            _stop: stop.drop_guard(),
        };
        if let Err(error) = spawned {
            self.remove(serving.own).await;
            return Err(format!("cannot serve {}: {error}", target.socket.display()));
        }
        self.serving = Some(serving);
        Ok(())
    }

    /// The file first: what kubelet sees is that the plugin is gone.
    async fn release(&mut self) {
        if let Some(Serving { own, _stop, .. }) = self.serving.take() {
            self.remove(own).await;
        }
    }

    async fn remove(&self, own: Own) {
        let (ledger, name) = (self.ledger.clone(), self.name.clone());
        blocking(move || {
            own.remove();
            ledger.end(&name, own.path());
        })
        .await;
    }

    fn shown(&self) -> (RegistrationState, String) {
        match (&self.machine.phase, &self.nothing) {
            (Phase::Down, Some(Nothing::Unfit(reason))) => {
                (RegistrationState::Unfit, reason.clone())
            }
            (Phase::Down, Some(Nothing::Absent(reason))) => {
                (RegistrationState::Waiting, reason.clone())
            }
            // For no longer than it takes to make the socket.
            (Phase::Down | Phase::Binding { .. }, _) => (RegistrationState::Waiting, String::new()),
            (Phase::Blocked { reason, .. }, _) => (RegistrationState::Blocked, reason.clone()),
            (Phase::Offered { .. }, _) => {
                let reason = "kubelet has not answered yet".to_owned();
                (RegistrationState::Offered, reason)
            }
            (Phase::Registered { .. }, _) => (RegistrationState::Registered, String::new()),
            (Phase::Refused { error, .. }, _) => (RegistrationState::Refused, error.clone()),
        }
    }

    fn publish(&self) {
        let (state, reason) = self.shown();
        let due = self.machine.deadline().map(|due| {
            let left = (self.epoch + due).saturating_duration_since(Instant::now());
            SystemTime::now() + left
        });
        let socket = self.machine.target.as_ref().map(|it| it.socket.clone());
        let confirmed = self.confirmed;
        self.board.change(&self.name, |registration| {
            // A deadline that was worked out again is some microseconds another.
            let same = registration.state == state && registration.reason == reason;
            if registration.state != state {
                tracing::info!(
                    plugin = self.name,
                    from = registration.state.as_str(),
                    to = state.as_str(),
                    reason,
                    "registration at kubelet"
                );
                registration.since = SystemTime::now();
            }
            if !same || registration.next_retry.is_some() != due.is_some() {
                registration.next_retry = due;
            }
            registration.state = state;
            registration.reason = reason;
            registration.socket = socket;
            registration.confirmed = confirmed;
        });
    }
}

async fn until(due: Option<Instant>) {
    match due {
        Some(due) => tokio::time::sleep_until(due).await,
        None => std::future::pending().await,
    }
}

/// `None` when the runtime ends.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work).await.ok()
}

/// An error with its cause on one line.
fn line(obstacle: &Obstacle) -> String {
    match std::error::Error::source(obstacle) {
        Some(cause) => format!("{obstacle}: {cause}"),
        None => obstacle.to_string(),
    }
}

/// In `0.0..1.0`. Jitter needs spread, not secrecy.
fn random() -> f64 {
    use std::hash::{BuildHasher as _, RandomState};
    let bits = u32::try_from(RandomState::new().hash_one(0u8) >> 32).unwrap_or(0);
    f64::from(bits) / (f64::from(u32::MAX) + 1.0)
}

/// How long a removal may take once it is asked for.
pub(crate) const END: Duration = Duration::from_secs(5);
