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
    /// Since when it is in force.
    pub(crate) loaded_at: SystemTime,
    /// Why the newest one is not in force.
    pub(crate) refused: Option<(SystemTime, String)>,
    /// Each broken file of the plugin directory, and since when it is.
    pub(crate) broken: Vec<(SystemTime, String)>,
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
        let now = SystemTime::now();
        let state = DaemonState {
            generation: 0,
            broken: still_broken(&[], &config.errors, now),
            config,
            loaded_at: now,
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

    /// A configuration came into force, or was read again and says the same.
    pub(crate) fn accepted(&self, config: Arc<Config>) {
        self.change(|state| {
            let now = SystemTime::now();
            if !state.config.says_the_same(&config) {
                state.loaded_at = now;
            }
            state.broken = still_broken(&state.broken, &config.errors, now);
            state.config = config;
            state.refused = None;
        });
    }

    /// What was refused has not been looked at again: it is as wrong as it was, and for as long.
    pub(crate) fn still_refused(&self, refused: (SystemTime, String)) {
        self.change(|state| state.refused = Some(refused));
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

/// What is wrong now, each with the time since when: a later look is no beginning.
fn still_broken(
    before: &[(SystemTime, String)],
    now_wrong: &[String],
    now: SystemTime,
) -> Vec<(SystemTime, String)> {
    let since = |error: &String| {
        let known = before.iter().find(|(_, known)| known == error);
        known.map_or(now, |(since, _)| *since)
    };
    now_wrong
        .iter()
        .map(|error| (since(error), error.clone()))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn an_error_that_is_seen_again_is_as_old_as_it_was() {
        let (first, second) = (
            SystemTime::UNIX_EPOCH,
            SystemTime::UNIX_EPOCH + Duration::from_secs(9),
        );
        let one = still_broken(&[], &["a".to_owned()], first);
        let both = still_broken(&one, &["b".to_owned(), "a".to_owned()], second);
        assert_eq!(both, [(second, "b".to_owned()), (first, "a".to_owned())]);
        assert_eq!(still_broken(&both, &[], second), []);
    }
}
