//! What can be told about plugins.

use std::time::Duration;

use longshore_nri_api::{EventMask, InvalidName, PluginId};
use longshore_ttrpc::CloseReason;
use tokio::time::Instant;

use crate::error::CallFailure;

/// How a plugin came to the adaptation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PluginKind {
    /// Part of the runtime.
    Builtin,
    /// Started by the adaptation.
    Launched,
    /// Connected to the socket.
    External,
    /// Handed over as a stream.
    Attached,
}

impl PluginKind {
    /// As it is logged: `builtin`, `launched`, `external`, `attached`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Builtin => "builtin",
            Self::Launched => "launched",
            Self::External => "external",
            Self::Attached => "attached",
        }
    }
}

/// Where a plugin is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PluginState {
    /// It has said who it is.
    Registered,
    /// It has said which events it wants.
    Configured,
    /// It is being told what runs; events are kept for it.
    Synchronizing,
    /// It gets events.
    Active,
    /// It was launched, ended, and will be started again.
    Restarting,
    /// It is required, and not there: containers are not created.
    Missing,
    /// It was closed, or ended for good; [`closed`](field@PluginStatus::closed) says why. Of plugins that are not
    /// launched, and of those that an operator removed, the last 64 are remembered, until they register again or
    /// are removed by name once more.
    Closed,
}

/// What is known about one plugin.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PluginStatus {
    /// Its full name, as `10-logger`; of a missing one the name under which it is required.
    pub name: String,
    /// Index and base name; `None` only for a missing one that is required by its base name.
    pub id: Option<PluginId>,
    /// How it came; `None` for a missing one that was never there.
    pub kind: Option<PluginKind>,
    /// Where it is in its life.
    pub state: PluginState,
    /// Since when; `None` for a missing one that was never there.
    pub since: Option<Instant>,
    /// The events that it gets.
    pub events: EventMask,
    /// The process, where the system tells.
    pub pid: Option<u32>,
    /// The version of the protocol that it named; empty when it named none.
    pub nri_version: String,
    /// Whether it gets the nine events that only tell something as StateChange.
    pub state_change_only: bool,
    /// How many requests it has answered.
    pub requests: u64,
    /// How many of the last requests in a row timed out.
    pub strikes: u32,
    /// How long the last answer took.
    pub last_latency: Option<Duration>,
    /// The last failure of a request to it, else why it was closed. Of a launched plugin that ended
    /// also how, and the last lines of its standard error.
    pub last_error: Option<String>,
    /// Its end, of one that is not there any more.
    pub closed: Option<Closed>,
    /// How many requests wait for it, or are kept until it is synchronized.
    pub queued: usize,
}

/// The end of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Closed {
    /// Why, in words.
    pub reason: String,
    /// When.
    pub at: Instant,
}

impl Closed {
    pub(crate) fn now(reason: String) -> Self {
        Self {
            reason,
            at: Instant::now(),
        }
    }
}

impl PluginStatus {
    /// Of a required plugin that is not there; `last` is what was known of it when it was.
    pub(crate) fn missing(name: &str, last: Option<Self>) -> Self {
        let closed = last.as_ref().and_then(|last| last.closed.as_ref());
        Self {
            name: name.to_owned(),
            state: PluginState::Missing,
            since: closed.map(|closed| closed.at),
            ..last.unwrap_or_else(|| Self::unknown(name, name.parse().ok()))
        }
    }

    /// Of a launched plugin that has ended; `last` is what was known of it when it was there.
    pub(crate) fn ended(id: &PluginId, closed: Closed, gone: bool, last: Option<Self>) -> Self {
        Self {
            kind: Some(PluginKind::Launched),
            state: match gone {
                true => PluginState::Closed,
                false => PluginState::Restarting,
            },
            since: Some(closed.at),
            pid: None,
            last_error: Some(closed.reason.clone()),
            closed: Some(closed),
            ..last.unwrap_or_else(|| Self::unknown(&id.to_string(), Some(id.clone())))
        }
    }

    /// This one, which was closed.
    pub(crate) fn closed(self, closed: Closed) -> Self {
        Self {
            state: PluginState::Closed,
            since: Some(closed.at),
            queued: 0,
            last_error: self.last_error.or_else(|| Some(closed.reason.clone())),
            closed: Some(closed),
            ..self
        }
    }

    /// Whether this is its full or its base name.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.name == name || self.id.as_ref().is_some_and(|id| id.base() == name)
    }

    fn unknown(name: &str, id: Option<PluginId>) -> Self {
        Self {
            name: name.to_owned(),
            id,
            kind: None,
            state: PluginState::Missing,
            since: None,
            events: EventMask::NONE,
            pid: None,
            nri_version: String::new(),
            state_change_only: false,
            requests: 0,
            strikes: 0,
            last_latency: None,
            last_error: None,
            closed: None,
            queued: 0,
        }
    }
}

/// Why a plugin was closed.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum CloseCause {
    /// The connection ended.
    #[error("{0}")]
    Connection(CloseReason),
    /// It did not register in time.
    #[error("it did not register within {0:?}")]
    NotRegistered(Duration),
    /// Its name or index is none.
    #[error("{0}")]
    Name(#[from] InvalidName),
    /// Too many plugins are connected.
    #[error("{registered} plugins are connected, no more are accepted")]
    TooMany {
        /// How many.
        registered: usize,
    },
    /// Too many connections have not registered yet.
    #[error("{max} connections have not registered yet, no more are accepted")]
    TooManyUnregistered {
        /// How many are accepted.
        max: usize,
    },
    /// It did something before it registered, or registered twice.
    #[error("it called {method} {when}")]
    OutOfOrder {
        /// The method.
        method: String,
        /// Such as `before it registered`.
        when: &'static str,
    },
    /// It sent a request that is no message of its type, or that would take too much memory.
    #[error("its {method} was refused: {error}")]
    Undecodable {
        /// The method.
        method: String,
        /// What is wrong.
        error: String,
    },
    /// Configure failed.
    #[error("it could not be configured: {0}")]
    Configure(CallFailure),
    /// It subscribed to events that do not exist (only under `Compat::GoAdaptation`).
    #[error("it subscribed to unknown events {0:?}")]
    Events(EventMask),
    /// The snapshot of the runtime failed.
    #[error("there is no snapshot to synchronize it with: {0}")]
    Snapshot(String),
    /// One object is larger than a message may be.
    #[error("{what} {id:?} has {length} bytes, which no message of {max} can hold")]
    Oversized {
        /// `pod` or `container`.
        what: &'static str,
        /// Its id.
        id: String,
        /// Its length in bytes.
        length: usize,
        /// What fits, in bytes.
        max: usize,
    },
    /// Synchronize failed.
    #[error("it could not be synchronized: {0}")]
    Synchronize(CallFailure),
    /// It does not understand a Synchronize in parts: an answer to a part said otherwise, or held
    /// updates.
    #[error(
        "it does not handle a Synchronize in parts: part {part} of {parts} was answered as if it were the last"
    )]
    Unsplit {
        /// The part, from 1.
        part: usize,
        /// How many there are.
        parts: usize,
    },
    /// More events came while it was synchronized than are kept.
    #[error("it was synchronized so slowly that more than {max} events came")]
    Overrun {
        /// How many are kept.
        max: usize,
    },
    /// A request failed in a way that ends the connection.
    #[error("{operation} failed: {failure}")]
    Request {
        /// The operation.
        operation: &'static str,
        /// How.
        failure: CallFailure,
    },
    /// The process that was launched has ended, and another one that inherited its socket keeps it.
    #[error("its process has ended, and another one keeps its connection open")]
    Orphaned,
    /// The operator removed it.
    #[error("the operator removed it{}{reason}", if reason.is_empty() { "" } else { ": " })]
    Removed {
        /// Why, in the operator's words; may be empty.
        reason: String,
    },
    /// The adaptation ends.
    #[error("the adaptation is shut down")]
    Shutdown,
}

impl CloseCause {
    /// Whether a request of the peer is being answered with the reason: the connection stays open
    /// for a moment, so that the answer reaches it.
    pub(crate) fn has_to_be_told(&self) -> bool {
        matches!(
            self,
            Self::Name(_)
                | Self::TooMany { .. }
                | Self::OutOfOrder { .. }
                | Self::Undecodable { .. }
        )
    }
}
