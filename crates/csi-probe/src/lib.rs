#![doc = include_str!("../README.md")]
//!
//! # Invariants
//!
//! - Nothing waits longer than its deadline; every wait says in its error what was missing.
//! - v0 is asked only after v1 was answered with UNIMPLEMENTED; an expected version is never silently another one.
//! - A liveness probe dials afresh: the health of an old connection says nothing about the socket at the path.
//! - An answer is bounded ([`MAX_ANSWER_BYTES`]) before it is decoded; what a plugin writes is clipped before it is shown.
//! - Decisions are pure (`detect`, `retry`, `liveness`); the rest performs them. No task of ours outlives a call, except
//!   the one of the HTTP/2 connection, which ends with its channel.

mod beat;
mod call;
mod describe;
mod detect;
mod dial;
mod endpoint;
mod error;
mod liveness;
mod probe;
mod retry;
mod socket;
mod version;
mod watch;

pub use describe::{NodeDetails, PluginDetails, describe};
pub use dial::connect;
pub use endpoint::{Endpoint, SUN_PATH_MAX};
pub use error::{ProbeError, Waiting};
pub use liveness::{Liveness, LivenessEvent, LivenessPolicy, LivenessResult};
pub use probe::{ProbeOptions, Probed, probe};
pub use socket::{Links, SocketId, wait_for_socket};
pub use version::{ApiVersion, ParseVersionError};
pub use watch::{LivenessWatch, check, watch};

/// The most bytes that any answer to a call of this crate may have: 64 KiB. The specification bounds a manifest to
/// 4 KiB and its other strings to 128 bytes each.
pub const MAX_ANSWER_BYTES: usize = 64 * 1024;
