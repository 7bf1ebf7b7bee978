#![doc = include_str!("../README.md")]
//!
//! # Invariants
//!
//! - Merging is a pure function of the request and the replies in their order.
//! - A key has one owner; a second claim fails the request, and names both plugins.
//! - What the runtime is told to apply, removals first, gives exactly the container that the last
//!   plugin would have been shown.
//! - A contribution that is ignored leaves nothing behind.
//! - From a peer that has not registered nothing but RegisterPlugin is decoded, of at most 64 KiB;
//!   every answer is measured before it is decoded.
//! - An event is neither lost nor delivered before Synchronize returned: who is asked, and for whom
//!   it is kept, is decided under one lock, in which a plugin also becomes active.
//! - Requests of a pod do not overtake each other, not even one that the caller has given up on.
//! - No lock is held across an await; every task is tracked, every queue and every wait bounded.
//! - A plugin is closed for what it does, never for what its caller or another plugin does.
//! - A container is not created past a validator that was active, or a plugin that is required.

mod adaptation;
mod builtin;
mod chain;
mod core;
mod error;
mod fields;
mod imitation;
pub mod launch;
mod launched;
mod limits;
pub mod merge;
mod metrics;
mod plugin;
mod pods;
mod policy;
mod registry;
mod runtime;
pub mod socket;
mod status;
mod sync;
pub mod validate;

pub use adaptation::{Adaptation, Builder, RequestOptions};
pub use builtin::BuiltinPlugin;
pub use error::{AdaptationError, CallFailure, RequestError};
pub use fields::FieldSet;
pub use imitation::Imitation;
pub use limits::Limits;
pub use merge::Compat;
pub use metrics::{Metrics, NoMetrics};
pub use policy::{OnFailure, PluginPolicy, Timeouts};
pub use runtime::{ApplyUpdates, ChangeCause, Changes, NodeState, RuntimeError, Snapshot};
pub use status::{CloseCause, Closed, PluginKind, PluginState, PluginStatus};
