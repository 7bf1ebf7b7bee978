#![doc = include_str!("../README.md")]
//!
//! # Invariants
//!
//! - Merging is a pure function of the request and the replies in their order.
//! - A key has one owner; a second claim fails the request, and names both plugins.
//! - What the runtime is told to apply, removals first, gives exactly the container that the last
//!   plugin would have been shown.
//! - A contribution that is ignored leaves nothing behind.

mod adaptation;
mod builtin;
mod chain;
mod core;
mod error;
mod fields;
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
pub use limits::Limits;
pub use merge::Compat;
pub use metrics::{Metrics, NoMetrics};
pub use policy::{OnFailure, PluginPolicy, Timeouts};
pub use runtime::{ApplyUpdates, ChangeCause, Changes, NodeState, RuntimeError, Snapshot};
pub use status::{CloseCause, PluginKind, PluginState, PluginStatus};
