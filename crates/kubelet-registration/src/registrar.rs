//! The handle, and the actors behind it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use longshore_backoff::Backoff;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::actor::{Actor, END, Ends};
use crate::inotify;
use crate::ledger::Ledger;
use crate::status::{RegistrarStatus, Registration};
use crate::target::Offer;

/// What is to be registered, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Kubelet's directory of registrations.
    pub dir: PathBuf,
    /// By the operator's names of the plugins.
    pub plugins: BTreeMap<String, Offer>,
}

/// Keeps plugins registered. Clones are handles of one registrar.
#[derive(Clone, Debug)]
pub struct Registrar {
    /// `None` until somebody has said it.
    wanted: watch::Sender<Option<Wanted>>,
    status: watch::Receiver<Arc<RegistrarStatus>>,
    stop: CancellationToken,
    tasks: TaskTracker,
}

impl Registrar {
    /// Spawns a registrar that has nothing to do yet, with a file for its record. Needs a tokio runtime with I/O and time.
    #[must_use]
    pub fn spawn(record: PathBuf) -> Self {
        Self::with_backoff(Some(record), Backoff::default())
    }

    /// The same, with another pause between attempts.
    #[must_use]
    pub fn with_backoff(record: Option<PathBuf>, backoff: Backoff) -> Self {
        let wanted = watch::Sender::new(None);
        let board = Board::default();
        let status = board.0.subscribe();
        let (stop, tasks) = (CancellationToken::new(), TaskTracker::new());
        let crew = Crew {
            board,
            ledger: Ledger::default(),
            backoff,
            stop: stop.clone(),
            tasks: tasks.clone(),
            dir: PathBuf::new(),
            looks: watch::Sender::default(),
            actors: BTreeMap::new(),
        };
        let receiver = wanted.subscribe();
        tasks.spawn(crew.run(record, receiver));
        tasks.close();
        Self {
            wanted,
            status,
            stop,
            tasks,
        }
    }

    /// Puts all that is wanted in place of what was. Returns at once.
    pub fn want(&self, wanted: Wanted) {
        self.wanted.send_if_modified(|before| {
            let changed = before.as_ref() != Some(&wanted);
            if changed {
                *before = Some(wanted);
            }
            changed
        });
    }

    /// The status of everything that is wanted, from memory.
    #[must_use]
    pub fn status(&self) -> watch::Receiver<Arc<RegistrarStatus>> {
        self.status.clone()
    }

    /// Ends, and leaves the sockets' files: the plugins are there, and kubelet goes on using them.
    pub async fn shutdown(&self) {
        self.stop.cancel();
        self.tasks.wait().await;
    }
}

/// Publishes what is known; each actor has its own part.
#[derive(Clone, Debug, Default)]
pub(crate) struct Board(watch::Sender<Arc<RegistrarStatus>>);

impl Board {
    /// Does nothing for a plugin that is not wanted any more.
    pub(crate) fn change(&self, name: &str, change: impl FnOnce(&mut Registration)) {
        self.0.send_if_modified(|status| {
            let Some(before) = status.plugins.get(name) else {
                return false;
            };
            let mut next = before.clone();
            change(&mut next);
            if next == *before {
                return false;
            }
            let status = Arc::make_mut(status);
            status.plugins.insert(name.to_owned(), next);
            status.generation += 1;
            true
        });
    }

    fn set(&self, name: &str, registration: Option<Registration>) {
        self.0.send_modify(|status| {
            let status = Arc::make_mut(status);
            match registration {
                Some(registration) => status.plugins.insert(name.to_owned(), registration),
                None => status.plugins.remove(name),
            };
            status.generation += 1;
        });
    }
}

/// Who starts and ends actors.
struct Crew {
    board: Board,
    ledger: Ledger,
    backoff: Backoff,
    stop: CancellationToken,
    tasks: TaskTracker,
    dir: PathBuf,
    /// Of the directory; the task that counts ends when another one takes its place.
    looks: watch::Sender<u64>,
    actors: BTreeMap<String, Handle>,
}

struct Handle {
    offer: watch::Sender<Offer>,
    removed: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl Crew {
    async fn run(mut self, record: Option<PathBuf>, mut wanted: watch::Receiver<Option<Wanted>>) {
        let opened = tokio::task::spawn_blocking(|| Ledger::open(record)).await;
        self.ledger = opened.unwrap_or_default();
        let mut first = true;
        loop {
            let next = wanted.borrow_and_update().clone();
            if let Some(next) = next {
                if std::mem::take(&mut first) {
                    self.discard(&next).await;
                }
                self.follow(next).await;
            }
            tokio::select! {
                changed = wanted.changed() => if changed.is_err() { break },
                () = self.stop.cancelled() => break,
            }
        }
        self.stop.cancel();
        for (_, handle) in std::mem::take(&mut self.actors) {
            drop(tokio::time::timeout(END, handle.task).await);
        }
    }

    /// What an earlier daemon left of plugins that are not wanted any more.
    async fn discard(&self, wanted: &Wanted) {
        let ledger = self.ledger.clone();
        let plugins: BTreeSet<String> = wanted.plugins.keys().cloned().collect();
        let discarded = tokio::task::spawn_blocking(move || {
            ledger.discard(|plugin, _| !plugins.contains(plugin));
        });
        // Fails when the runtime ends.
        drop(discarded.await);
    }

    async fn follow(&mut self, wanted: Wanted) {
        let elsewhere = wanted.dir != self.dir;
        let gone = self
            .actors
            .keys()
            .filter(|name| elsewhere || !wanted.plugins.contains_key(*name))
            .cloned()
            .collect::<Vec<_>>();
        for name in gone {
            if let Some(handle) = self.actors.remove(&name) {
                handle.removed.cancel();
                if tokio::time::timeout(END, handle.task).await.is_err() {
                    tracing::warn!(plugin = name, "its registration does not end");
                }
                self.board.set(&name, None);
            }
        }
        if elsewhere {
            self.dir.clone_from(&wanted.dir);
            self.looks = watch::Sender::default();
        }
        if wanted.plugins.is_empty() {
            // Nobody asks for looks: the task that gives them ends.
            self.looks = watch::Sender::default();
            return;
        }
        let first = self.looks.receiver_count() == 0;
        if first {
            self.looks = watch::Sender::default();
        }
        for (name, offer) in wanted.plugins {
            match self.actors.get(&name) {
                Some(handle) => {
                    handle.offer.send_if_modified(|before| {
                        let changed = *before != offer;
                        if changed {
                            *before = offer;
                        }
                        changed
                    });
                }
                None => self.begin(name, offer),
            }
        }
        // Once somebody reads: it ends when nobody does.
        if first {
            self.tasks
                .spawn(inotify::follow(self.dir.clone(), self.looks.clone()));
        }
    }

    fn begin(&mut self, name: String, offer: Offer) {
        self.board
            .set(&name, Some(Registration::new(SystemTime::now())));
        let (removed, offer) = (CancellationToken::new(), watch::Sender::new(offer));
        let ends = Ends {
            removed: removed.clone(),
            stopped: self.stop.clone(),
        };
        let actor = Actor::new(
            name.clone(),
            self.dir.clone(),
            self.board.clone(),
            self.ledger.clone(),
            self.tasks.clone(),
            self.backoff,
        );
        let run = actor.run(offer.subscribe(), self.looks.subscribe(), ends);
        let handle = Handle {
            task: self.tasks.spawn(run),
            offer,
            removed,
        };
        self.actors.insert(name, handle);
    }
}
