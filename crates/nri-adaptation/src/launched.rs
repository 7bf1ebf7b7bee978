//! Plugins that the adaptation launches: a task for each drives its [`Supervision`].
//!
//! ```text
//!   spawn ─▶ one life: the process and its connection, whichever ends first ends the other ─▶ wait ─▶ spawn …
//! ```

use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longshore_nri_api::PluginId;
use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

use crate::core::{Core, take};
use crate::error::chain;
use crate::launch::{Action, Child, Event, Program, Supervision, spawn};
use crate::plugin::{self, Origin};
use crate::status::{CloseCause, Closed, PluginKind, PluginStatus};

/// How long a process has between TERM and KILL.
const GRACE: Duration = Duration::from_secs(2);
/// How long what a process that ended has sent is still read: another one may have inherited its
/// socket, and keep the connection open.
const DRAIN: Duration = Duration::from_secs(1);

/// What others may know of a launched plugin, and do to it.
#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) id: PluginId,
    /// The operator does not want it any more.
    removed: CancellationToken,
    past: Mutex<Past>,
}

/// What became of the lives before.
#[derive(Debug, Default)]
struct Past {
    /// How the last one ended.
    closed: Option<Closed>,
    /// It is not started again.
    gone: bool,
}

impl Launched {
    pub(crate) fn new(id: PluginId) -> Arc<Self> {
        Arc::new(Self {
            id,
            removed: CancellationToken::new(),
            past: Mutex::default(),
        })
    }

    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.id.base() == name || self.id.to_string() == name
    }

    /// Takes it out for good.
    pub(crate) fn remove(&self) {
        self.removed.cancel();
    }

    /// Its status while it is not there, once it has ended; takes what was known of it from `closed`.
    pub(crate) fn status(&self, closed: &mut Vec<PluginStatus>) -> Option<PluginStatus> {
        let past = self.past();
        let ended = past.closed.clone()?;
        let last = take(closed, |status| {
            status.kind == Some(PluginKind::Launched) && status.id.as_ref() == Some(&self.id)
        });
        Some(PluginStatus::ended(&self.id, ended, past.gone, last))
    }

    /// It has ended, and is not started again.
    pub(crate) fn is_gone(&self) -> bool {
        self.past().gone
    }

    fn note(&self, reason: String) {
        self.past().closed = Some(Closed::now(reason));
    }

    fn past(&self) -> MutexGuard<'_, Past> {
        self.past.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a plugin until it is not wanted any more. `settled` is told when its first life has
/// become active, and dropped when it has not.
pub(crate) async fn supervise(
    core: Arc<Core>,
    program: Program,
    launched: Arc<Launched>,
    settled: oneshot::Sender<()>,
) {
    let policy = core
        .settings
        .policies
        .get(&launched.id.to_string(), launched.id.base());
    let mut keeper = Keeper {
        supervision: Supervision::new(policy.restart),
        epoch: Instant::now(),
        settled: Some(settled),
        program,
        launched,
        core,
    };
    let mut action = keeper.step(Event::Start);
    loop {
        action = match action {
            Action::Spawn => keeper.spawn().await,
            Action::WaitUntil(at) => keeper.wait(at).await,
            // Its process has ended for good.
            _ => {
                keeper.launched.past().gone = true;
                keeper.core.registry.touch();
                return;
            }
        };
    }
}

struct Keeper {
    supervision: Supervision,
    epoch: Instant,
    settled: Option<oneshot::Sender<()>>,
    program: Program,
    launched: Arc<Launched>,
    core: Arc<Core>,
}

impl Keeper {
    fn step(&mut self, event: Event) -> Action {
        self.supervision.step(event, self.epoch.elapsed(), random())
    }

    fn unwanted(&self) -> bool {
        self.launched.removed.is_cancelled() || self.core.is_stopping()
    }

    async fn spawn(&mut self) -> Action {
        if self.unwanted() {
            self.step(Event::Stop);
            return self.step(Event::Ended);
        }
        match spawn(&self.program).await {
            Ok(child) => self.live(child).await,
            Err(error) => {
                let error = chain(&error);
                tracing::error!(plugin = %self.launched.id, error, "plugin cannot be started");
                self.launched.note(error);
                self.settled = None;
                self.step(Event::SpawnFailed)
            }
        }
    }

    /// One process, until it is reaped.
    async fn live(&mut self, mut child: Child) -> Action {
        let (ready, mut is_ready) = oneshot::channel();
        let orphaned = CancellationToken::new();
        let Some(stream) = child.take_stream() else {
            child.terminate(GRACE).await;
            return self.step(Event::Ended);
        };
        let origin = Origin {
            pid: u32::try_from(child.pid()).ok(),
            fixed: Some(self.launched.id.clone()),
            config: self.program.config.clone(),
            active: Some(ready),
            orphaned: orphaned.clone(),
            ..Origin::new(PluginKind::Launched)
        };
        let connection = plugin::run(Arc::clone(&self.core), stream, origin, None);
        let mut connection = self.core.tasks.spawn(connection);
        let mut waiting = true;
        let cause = loop {
            tokio::select! {
                settled = &mut is_ready, if waiting => {
                    waiting = false;
                    if settled.is_ok() {
                        self.step(Event::Ready);
                        if let Some(first) = self.settled.take() {
                            // Nobody listens any more when the start was given up.
                            let _ = first.send(());
                        }
                    }
                }
                cause = &mut connection => {
                    break cause.unwrap_or(CloseCause::Shutdown);
                }
                exit = child.wait() => {
                    tracing::warn!(plugin = %self.launched.id, %exit, "plugin's process has ended");
                    let ended = match timeout(DRAIN, &mut connection).await {
                        Ok(ended) => ended,
                        Err(_) => {
                            orphaned.cancel();
                            connection.await
                        }
                    };
                    break ended.unwrap_or(CloseCause::Shutdown);
                }
            }
        };
        self.settled = None;
        self.launched.note(cause.to_string());
        self.step(if self.unwanted() {
            Event::Stop
        } else {
            Event::Lost
        });
        let exit = child.terminate(GRACE).await;
        tracing::info!(plugin = %self.launched.id, %exit, %cause, "plugin has ended");
        let mut reason = format!("{cause}; its process {exit}");
        let last_words = child.last_words();
        if !last_words.is_empty() {
            reason = format!("{reason}; it said: {last_words}");
        }
        self.launched.note(reason);
        self.step(Event::Ended)
    }

    async fn wait(&mut self, at: Duration) -> Action {
        self.core.registry.touch();
        let at = self.epoch.checked_add(at);
        let due = async {
            match at {
                Some(at) => tokio::time::sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        let launched = Arc::clone(&self.launched);
        tokio::select! {
            () = due => self.step(Event::Due),
            () = launched.removed.cancelled() => self.step(Event::Stop),
            () = self.core.stopped() => self.step(Event::Stop),
        }
    }
}

/// A number from 0 to 1, different in each process and call.
fn random() -> f64 {
    let number = RandomState::new().hash_one(0_u8);
    f64::from(u32::try_from(number >> 32).unwrap_or(u32::MAX)) / f64::from(u32::MAX)
}
