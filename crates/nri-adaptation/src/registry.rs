//! Which plugins there are, in which order they are asked, and what is missing.
//!
//! One lock guards every change, and is never held across an await. Requests read what was last
//! published: a number for "does anybody want this event", and a list behind an `Arc`.
//!
//! ```text
//!   list ──subscribe──▶ syncing ──activate, once nothing is kept for it──▶ active
//!    │                     │                                                 │
//!    └──────────close──────┴────────────────────close────────────────────────┴──▶ gone
//!                                                                (a validator: missed)
//! ```

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use longshore_nri_api::{Event, EventMask};
use tokio::sync::watch;

use crate::merge::Compat;
use crate::plugin::Plugin;
use crate::policy::OnFailure;
use crate::status::{CloseCause, Closed, PluginState, PluginStatus};
use crate::sync::Kept;

/// What a request works with.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    /// In the order in which they are asked.
    pub(crate) active: Vec<Arc<Plugin>>,
    /// Those for which events are kept.
    pub(crate) syncing: Vec<Arc<Plugin>>,
    /// Names without which no container is created.
    pub(crate) missing: Vec<String>,
    pub(crate) generation: u64,
}

#[derive(Debug)]
pub(crate) struct Registry {
    state: Mutex<State>,
    roster: RwLock<Arc<Roster>>,
    /// The bits of all events that anybody wants.
    wanted: AtomicI32,
    /// Counts beginnings of requests, and completions of snapshots.
    clock: AtomicU64,
    /// The published generation.
    generation: AtomicU64,
    changes: watch::Sender<u64>,
    compat: Compat,
    kept_max: usize,
}

#[derive(Debug, Default)]
struct State {
    /// All of them, from Configure on.
    all: Vec<Arc<Plugin>>,
    /// Names that policies require.
    required: Vec<String>,
    /// Required names that the operator removed.
    waived: BTreeSet<String>,
    /// Full names of plugins that were active and whose loss fails creations.
    missed: BTreeSet<String>,
    /// The last of those that were closed and have not come back, oldest first.
    closed: VecDeque<PluginStatus>,
    arrivals: u64,
    shut: bool,
}

impl Registry {
    pub(crate) fn new(required: Vec<String>, compat: Compat, kept_max: usize) -> Self {
        let registry = Self {
            state: Mutex::new(State {
                required,
                ..State::default()
            }),
            roster: RwLock::default(),
            wanted: AtomicI32::new(0),
            clock: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            changes: watch::Sender::new(0),
            compat,
            kept_max,
        };
        registry.publish(&registry.lock());
        registry
    }

    /// Whether anybody wants the event: one atomic load.
    pub(crate) fn wants(&self, event: Event) -> bool {
        self.wanted.load(Ordering::Acquire) & EventMask::of(event).bits() != 0
    }

    pub(crate) fn roster(&self) -> Arc<Roster> {
        let roster = self.roster.read().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(&roster)
    }

    /// A tick for something that begins, or is complete, now.
    pub(crate) fn tick(&self) -> u64 {
        self.clock.fetch_add(1, Ordering::AcqRel) + 1
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// A number that orders plugins of the same name by arrival.
    pub(crate) fn arrival(&self) -> u64 {
        let mut state = self.lock();
        state.arrivals += 1;
        state.arrivals
    }

    /// Lists a plugin that has registered. False after shutdown.
    pub(crate) fn list(&self, plugin: &Arc<Plugin>) -> bool {
        let mut state = self.lock();
        if state.shut {
            return false;
        }
        let place = state
            .all
            .partition_point(|other| other.order() <= plugin.order());
        state.all.insert(place, Arc::clone(plugin));
        state.closed.retain(|closed| *closed.name != *plugin.name);
        self.publish(&state);
        true
    }

    /// From here on events are kept for the plugin.
    pub(crate) fn subscribe(&self, plugin: &Plugin, events: EventMask) {
        let state = self.lock();
        plugin.advance(PluginState::Synchronizing, Some(events));
        self.publish(&state);
    }

    /// Tells those who watch that something else changed.
    pub(crate) fn touch(&self) {
        self.publish(&self.lock());
    }

    /// The next event that was kept for the plugin; when there is none it is active.
    pub(crate) fn next_kept(&self, plugin: &Plugin) -> Option<Kept> {
        let mut state = self.lock();
        if let Some(kept) = plugin.kept().pop() {
            return Some(kept);
        }
        let listed = state.all.iter().any(|other| std::ptr::eq(&**other, plugin));
        if listed && plugin.state() == PluginState::Synchronizing {
            plugin.advance(PluginState::Active, None);
            state.missed.remove(&*plugin.name);
            state.waived.retain(|name| !plugin.is_named(name));
            self.publish(&state);
        }
        None
    }

    /// Ends a request that asked the plugins with these arrivals: keeps it for those that are
    /// being synchronized, or returns those that became active meanwhile and have yet to be asked.
    pub(crate) fn finish(
        &self,
        roster: &Roster,
        event: Event,
        asked: &[u64],
        keep: impl FnOnce() -> Kept,
    ) -> Vec<Arc<Plugin>> {
        let changed = self.generation.load(Ordering::Acquire) != roster.generation;
        if !changed && roster.syncing.is_empty() {
            return Vec::new();
        }
        let state = self.lock();
        let unasked = |wanted: PluginState| {
            state.all.iter().filter(move |plugin| {
                plugin.state() == wanted && plugin.wants(event) && !asked.contains(&plugin.arrival)
            })
        };
        let late: Vec<_> = unasked(PluginState::Active).cloned().collect();
        if !late.is_empty() {
            return late;
        }
        let mut syncing = unasked(PluginState::Synchronizing).peekable();
        if syncing.peek().is_some() {
            let kept = keep();
            for plugin in syncing {
                if !plugin.kept().push(kept.clone(), self.kept_max) {
                    plugin.end(CloseCause::Overrun { max: self.kept_max });
                }
            }
        }
        Vec::new()
    }

    /// Takes a plugin out; true the first time.
    pub(crate) fn close(&self, plugin: &Arc<Plugin>, cause: &CloseCause) -> bool {
        let mut state = self.lock();
        let place = state
            .all
            .iter()
            .position(|other| Arc::ptr_eq(other, plugin));
        let Some(place) = place else {
            return false;
        };
        state.all.remove(place);
        let was_active = plugin.state() == PluginState::Active;
        let wanted = matches!(cause, CloseCause::Removed { .. } | CloseCause::Shutdown);
        if !matches!(cause, CloseCause::Shutdown) {
            let reason = plugin
                .cause()
                .filter(|_| !wanted)
                .map_or_else(|| cause.to_string(), |it| it.to_string());
            let mut status = plugin.status().closed(Closed::now(reason.clone()));
            if wanted {
                // What failed before is not why it is gone.
                status.last_error = Some(reason);
            }
            state.remember(status);
        }
        if was_active && !wanted && self.is_missed(plugin) {
            let twin = state
                .all
                .iter()
                .any(|other| other.name == plugin.name && other.state() == PluginState::Active);
            if !twin && state.missed.len() < MISSED_MAX {
                state.missed.insert(plugin.name.to_string());
            }
        }
        self.publish(&state);
        true
    }

    /// Whether containers must not be created after the plugin is lost.
    fn is_missed(&self, plugin: &Plugin) -> bool {
        let validator = plugin.wants(Event::ValidateContainerAdjustment);
        let required = plugin.policy.on_failure == OnFailure::FailUntilBack;
        required || (validator && self.compat == Compat::Correct)
    }

    /// Keeps what is known of a plugin that is gone for good and was not there at that moment.
    pub(crate) fn remember(&self, closed: PluginStatus) {
        let mut state = self.lock();
        state.remember(closed);
        self.publish(&state);
    }

    /// Forgets those of a name that were closed; tells whether there were any.
    pub(crate) fn forget(&self, name: &str) -> bool {
        let mut state = self.lock();
        let before = state.closed.len();
        state.closed.retain(|closed| !closed.is_named(name));
        let forgotten = state.closed.len() < before;
        self.publish(&state);
        forgotten
    }

    /// Forgets that a name is required or missed; tells whether it was.
    pub(crate) fn waive(&self, name: &str) -> bool {
        let mut state = self.lock();
        let is = |known: &str| is_called(known, name);
        let before = state.missed.len();
        state.missed.retain(|known| !is(known));
        let required: Vec<String> = state
            .required
            .iter()
            .filter(|known| is(known))
            .cloned()
            .collect();
        let gone = state.missed.len() < before;
        let waived = required.iter().any(|known| !state.waived.contains(known));
        state.waived.extend(required);
        self.publish(&state);
        gone || waived
    }

    /// All plugins, in order: active or not.
    pub(crate) fn all(&self) -> Vec<Arc<Plugin>> {
        self.lock().all.clone()
    }

    /// All plugins, and those that were closed, at one moment.
    pub(crate) fn known(&self) -> (Vec<Arc<Plugin>>, Vec<PluginStatus>) {
        let state = self.lock();
        (state.all.clone(), state.closed.iter().cloned().collect())
    }

    /// Accepts no plugin any more. True the first time.
    pub(crate) fn shut(&self) -> bool {
        let mut state = self.lock();
        let first = !std::mem::replace(&mut state.shut, true);
        state.closed.clear();
        self.publish(&state);
        first
    }

    pub(crate) fn is_shut(&self) -> bool {
        self.lock().shut
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish(&self, state: &State) {
        let of = |wanted: PluginState| {
            let plugins = state
                .all
                .iter()
                .filter(move |plugin| plugin.state() == wanted);
            plugins.cloned().collect::<Vec<_>>()
        };
        let (active, syncing) = (of(PluginState::Active), of(PluginState::Synchronizing));
        let missing = state.missing(&active);
        let mut wanted = active
            .iter()
            .chain(&syncing)
            .fold(EventMask::NONE, |mask, plugin| mask | plugin.events());
        if !missing.is_empty() || wanted.contains(Event::ValidateContainerAdjustment) {
            wanted |= EventMask::of(Event::CreateContainer);
        }
        if state.shut {
            // Requests have to learn of it.
            wanted = EventMask::ALL;
        }
        let generation = self.generation.load(Ordering::Acquire) + 1;
        let roster = Arc::new(Roster {
            active,
            syncing,
            missing,
            generation,
        });
        *self.roster.write().unwrap_or_else(PoisonError::into_inner) = roster;
        self.generation.store(generation, Ordering::Release);
        self.wanted.store(wanted.bits(), Ordering::Release);
        self.changes.send_replace(generation);
    }
}

/// Whether `name` is the full name `full` or its base name.
fn is_called(full: &str, name: &str) -> bool {
    full == name || full.split_once('-').is_some_and(|(_, base)| base == name)
}

/// The most names that are missed: plugins choose their names.
const MISSED_MAX: usize = 1024;

/// The most plugins that are remembered after they were closed.
const CLOSED_MAX: usize = 64;

impl State {
    /// Keeps what is known of a plugin that was closed, unless another one of its name is there.
    fn remember(&mut self, closed: PluginStatus) {
        if self.shut || self.all.iter().any(|other| *other.name == *closed.name) {
            return;
        }
        self.closed.retain(|earlier| earlier.name != closed.name);
        if self.closed.len() == CLOSED_MAX {
            self.closed.pop_front();
        }
        self.closed.push_back(closed);
    }

    fn missing(&self, active: &[Arc<Plugin>]) -> Vec<String> {
        let required = self.required.iter().filter(|name| {
            !self.waived.contains(*name) && !active.iter().any(|plugin| plugin.is_named(name))
        });
        let mut missing: Vec<String> = required.cloned().collect();
        let covered = |name: &str| missing.iter().any(|known| is_called(name, known));
        let missed = self.missed.iter().filter(|name| !covered(name));
        let missed: Vec<String> = missed.cloned().collect();
        missing.extend(missed);
        missing
    }
}
