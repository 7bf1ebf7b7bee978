#![doc = include_str!("../README.md")]
//!
//! # Invariants
//!
//! - Applying is a pure function of the spec, the adjustment and what the injected functions
//!   answer; only the default propagation lookup reads a file (`/proc/self/mountinfo`).
//! - All or nothing: after an error the spec is what it was.
//! - Removals come first, then additions, whatever order a map or a list has; a key that is
//!   removed and not added is not in the spec afterwards.
//! - Nothing is dropped: each member of the adjustment is applied or named in the error.
//! - Applying twice gives what applying once gave, except for hooks, which are appended.
//! - No input panics.

mod adjuster;
mod device;
mod error;
mod keyed;
mod linux;
mod mount;
mod process;
mod propagation;
mod resources;
mod seccomp;

pub use adjuster::{Adjuster, Refusal};
pub use error::ApplyError;
pub use propagation::{Propagation, host_propagation, propagation_in};

/// The OCI types of the public API.
pub use oci_spec;
