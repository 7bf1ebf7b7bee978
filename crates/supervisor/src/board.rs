//! What the daemon knows of itself: one writer, everybody else through a watch with a generation.

use std::sync::Arc;
use std::time::SystemTime;

use tokio::sync::watch;

use crate::Config;
use crate::quarantine::SetAside;

/// The daemon's own state; the plugins' is the manager's.
#[derive(Debug, Clone)]
pub(crate) struct DaemonState {
    /// Grows with every change.
    pub(crate) generation: u64,
    /// The configuration in force.
    pub(crate) config: Arc<Config>,
    /// When it was read.
    pub(crate) loaded_at: SystemTime,
    /// Why the newest one is not in force.
    pub(crate) refused: Option<(SystemTime, String)>,
    /// Since when the agent has not answered, and why.
    pub(crate) silent: Option<(SystemTime, String)>,
    /// Damaged records that were set aside.
    pub(crate) quarantined: Vec<SetAside>,
}

/// Publishes the daemon's own state.
#[derive(Debug, Clone)]
pub(crate) struct Board(watch::Sender<Arc<DaemonState>>);

impl Board {
    pub(crate) fn new(config: Arc<Config>) -> Self {
        let state = DaemonState {
            generation: 0,
            config,
            loaded_at: SystemTime::now(),
            refused: None,
            silent: None,
            quarantined: Vec::new(),
        };
        Self(watch::Sender::new(Arc::new(state)))
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<DaemonState>> {
        self.0.subscribe()
    }

    pub(crate) fn now(&self) -> Arc<DaemonState> {
        Arc::clone(&self.0.borrow())
    }

    fn change(&self, change: impl FnOnce(&mut DaemonState)) {
        self.0.send_modify(|state| {
            let mut next = (**state).clone();
            change(&mut next);
            next.generation += 1;
            *state = Arc::new(next);
        });
    }

    /// A configuration came into force.
    pub(crate) fn accepted(&self, config: Arc<Config>) {
        self.change(|state| {
            state.config = config;
            state.loaded_at = SystemTime::now();
            state.refused = None;
        });
    }

    /// A configuration was refused; the old one stays.
    pub(crate) fn refused(&self, reason: String) {
        if self
            .now()
            .refused
            .as_ref()
            .is_some_and(|(_, before)| *before == reason)
        {
            return;
        }
        self.change(|state| state.refused = Some((SystemTime::now(), reason)));
    }

    /// The records that are set aside now.
    pub(crate) fn quarantined(&self, found: Vec<SetAside>) {
        if self.now().quarantined != found {
            self.change(|state| state.quarantined = found);
        }
    }

    /// The agent answered (`None`) or did not, and why.
    pub(crate) fn agent(&self, silent: Option<String>) {
        let before = self.now();
        match (&before.silent, silent) {
            (None, None) => {}
            (Some(_), None) => self.change(|state| state.silent = None),
            (Some((since, _)), Some(reason)) => {
                let since = *since;
                if before.silent.as_ref().is_none_or(|(_, old)| *old != reason) {
                    self.change(|state| state.silent = Some((since, reason)));
                }
            }
            (None, Some(reason)) => {
                self.change(|state| state.silent = Some((SystemTime::now(), reason)));
            }
        }
    }
}
