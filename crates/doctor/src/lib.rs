//! Internal to Longshore: what on a machine keeps a node from working, and what to do about it.
//!
#![doc = include_str!("../README.md")]
//!
//! # Invariants
//!
//! - Nothing is written, removed or connected to: whoever asks tells what an engine and a daemon answered.
//! - Links are not followed out of `root`; files are read up to a bound, directories up to a number of entries.
//! - What cannot be read is no finding by itself, but where it keeps the daemon from working.

mod checks;
mod files;
mod finding;
mod measure;
mod view;

pub use finding::{Finding, Severity};
pub use measure::clock_synchronized;
pub use view::{EngineFacts, Space, View};

/// All that was found, in the order of the checks. Blocking: it reads files.
#[must_use]
pub fn examine(view: &View) -> Vec<Finding> {
    checks::ALL.iter().flat_map(|check| check(view)).collect()
}
