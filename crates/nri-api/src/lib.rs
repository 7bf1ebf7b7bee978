#![doc = include_str!("../README.md")]
//!
//! # Invariants
//!
//! - The messages are exactly those of `nri.pkg.api.v1alpha1`: numbers, names and types; nothing
//!   in this crate changes what goes over the wire.
//! - Everything here is a pure function of its arguments: no I/O, no clock, no globals.
//! - Input that comes from a plugin (names, masks, markers, annotation values) never panics.
//! - A key has at most one owner. Taking a key that is owned is a [`Conflict`], also for the
//!   plugin that owns it; only a key that the same plugin has cleared may be taken again.
//! - An optional wrapper that is present counts as set, whatever its value.

pub mod annotation;
mod builders;
pub mod cost;
mod event;
mod name;
mod optional;
mod owners;
mod removal;
mod resources;
pub mod service;
mod strip;
mod version;

#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
mod r#gen;

pub use event::{EventMask, EventParseError, event_name};
pub use r#gen::nri::pkg::api::v1alpha1::*;
pub use name::{InvalidName, PluginId, PluginIndex};
pub use optional::Wrapper;
pub use owners::Conflict;
pub use removal::{is_removal, mark_for_removal, removed_key};
pub use strip::Strip;
pub use version::{closest_version, infer_nri_version, strip_git_suffix};

/// The level of the protocol that this crate implements, as sent in `RegisterPlugin` and
/// `Configure`.
pub const NRI_VERSION: &str = "v0.12.0";
