//! One plugin: what is known of it, and how it is called.

mod ask;
mod notice;
mod payload;
mod rpc;
mod run;
mod service;
mod session;

pub(crate) use ask::Asked;
pub(crate) use notice::Notice;
pub(crate) use payload::{Part, Payload};
pub(crate) use rpc::{Rpc, Terms, within};
pub(crate) use run::{Origin, run};
pub(crate) use session::{Session, Subscription};

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longshore_nri_api::{Event, EventMask, PluginId};
use longshore_ttrpc::{Client, CloseReason};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::builtin::Builtin;
use crate::policy::PluginPolicy;
use crate::status::{CloseCause, PluginKind, PluginState, PluginStatus};
use crate::sync::Queue;

/// How a plugin is reached.
pub(crate) enum Link {
    Remote(Client),
    Builtin(Arc<dyn Builtin>),
}

/// A plugin from its registration until it is closed.
pub(crate) struct Plugin {
    pub(crate) id: PluginId,
    /// Index and base name, the owner id of merging.
    pub(crate) name: Arc<str>,
    pub(crate) kind: PluginKind,
    pub(crate) arrival: u64,
    pub(crate) pid: Option<u32>,
    pub(crate) nri_version: String,
    pub(crate) policy: PluginPolicy,
    pub(crate) link: Link,
    /// Lets one request in at a time, in order; `None` when the plugin takes several at once.
    gate: Option<Arc<Semaphore>>,
    events: AtomicI32,
    inner: Mutex<Inner>,
    kept: Mutex<Queue>,
    /// Ends the plugin's task.
    ended: CancellationToken,
    /// Answered "unimplemented" once: gets StateChange for ever.
    state_change_only: AtomicBool,
    /// The events for which that was said in the log.
    warned: AtomicI32,
    requests: AtomicU64,
    strikes: AtomicU32,
    latency_ns: AtomicU64,
    waiting: AtomicUsize,
}

#[derive(Debug)]
struct Inner {
    state: PluginState,
    since: Instant,
    cause: Option<CloseCause>,
    last_error: Option<String>,
}

/// What is known of a plugin when it has registered.
pub(crate) struct Identity {
    pub(crate) id: PluginId,
    pub(crate) kind: PluginKind,
    pub(crate) pid: Option<u32>,
    pub(crate) nri_version: String,
}

impl Plugin {
    pub(crate) fn new(
        identity: Identity,
        arrival: u64,
        policy: PluginPolicy,
        link: Link,
    ) -> Arc<Self> {
        let gate = policy.serial.then(|| Arc::new(Semaphore::new(1)));
        Arc::new(Self {
            name: identity.id.to_string().into(),
            id: identity.id,
            kind: identity.kind,
            arrival,
            pid: identity.pid,
            nri_version: identity.nri_version,
            policy,
            link,
            gate,
            events: AtomicI32::new(0),
            inner: Mutex::new(Inner {
                state: PluginState::Registered,
                since: Instant::now(),
                cause: None,
                last_error: None,
            }),
            kept: Mutex::default(),
            ended: CancellationToken::new(),
            state_change_only: AtomicBool::new(false),
            warned: AtomicI32::new(0),
            requests: AtomicU64::new(0),
            strikes: AtomicU32::new(0),
            latency_ns: AtomicU64::new(0),
            waiting: AtomicUsize::new(0),
        })
    }

    /// By index, then name, then arrival.
    pub(crate) fn order(&self) -> (&PluginId, u64) {
        (&self.id, self.arrival)
    }

    /// Whether this is its full or its base name.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        *self.name == *name || self.id.base() == name
    }

    pub(crate) fn events(&self) -> EventMask {
        EventMask::from_bits(self.events.load(Ordering::Acquire))
    }

    pub(crate) fn wants(&self, event: Event) -> bool {
        self.events().contains(event)
    }

    pub(crate) fn state(&self) -> PluginState {
        self.lock().state
    }

    /// Only the registry calls this, under its lock.
    pub(crate) fn advance(&self, to: PluginState, events: Option<EventMask>) {
        if let Some(events) = events {
            self.events.store(events.bits(), Ordering::Release);
        }
        let from = {
            let mut inner = self.lock();
            inner.since = Instant::now();
            std::mem::replace(&mut inner.state, to)
        };
        tracing::debug!(plugin = %self.name, ?from, ?to, "plugin advances");
    }

    /// The events that are kept for it; taken under the registry's lock only.
    pub(crate) fn kept(&self) -> MutexGuard<'_, Queue> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks its task to end it; the first cause stays. No more requests reach it.
    pub(crate) fn end(&self, cause: CloseCause) {
        let text = cause.to_string();
        let has_to_be_told = cause.has_to_be_told();
        self.lock().cause.get_or_insert(cause);
        if let Link::Remote(client) = &self.link
            && !has_to_be_told
        {
            client.close(text);
        }
        if let Some(gate) = &self.gate {
            gate.close();
        }
        self.ended.cancel();
    }

    /// Waits until [`Self::end`] was called.
    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    /// Why it was ended, if it was.
    pub(crate) fn cause(&self) -> Option<CloseCause> {
        self.lock().cause.clone()
    }

    /// Why it cannot be asked.
    fn closed_reason(&self) -> CloseReason {
        let open = || CloseReason::Local("it was closed".into());
        match &self.link {
            Link::Remote(client) => client.close_reason().unwrap_or_else(open),
            Link::Builtin(_) => self
                .cause()
                .map_or_else(open, |cause| CloseReason::Local(cause.to_string().into())),
        }
    }

    /// True the first time for each event.
    fn warns(&self, event: Event) -> bool {
        let bit = EventMask::of(event).bits();
        self.warned.fetch_or(bit, Ordering::AcqRel) & bit == 0
    }

    fn note(&self, error: String) {
        self.lock().last_error = Some(error);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn status(&self) -> PluginStatus {
        let requests = self.requests.load(Ordering::Relaxed);
        let latency = self.latency_ns.load(Ordering::Relaxed);
        let (state, since, last_error) = {
            let inner = self.lock();
            (inner.state, inner.since, inner.last_error.clone())
        };
        PluginStatus {
            name: self.name.to_string(),
            id: Some(self.id.clone()),
            kind: Some(self.kind),
            state,
            since: Some(since),
            events: self.events(),
            pid: self.pid,
            nri_version: self.nri_version.clone(),
            state_change_only: self.state_change_only.load(Ordering::Relaxed),
            requests,
            strikes: self.strikes.load(Ordering::Relaxed),
            last_latency: (latency > 0).then(|| Duration::from_nanos(latency)),
            last_error,
            closed: None,
            queued: self.waiting.load(Ordering::Relaxed) + self.kept().len(),
        }
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin")
            .field("name", &self.name)
            .field("kind", &self.kind)
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}
