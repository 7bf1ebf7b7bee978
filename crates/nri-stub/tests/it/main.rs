//! The stub against runtimes of all kinds.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]
#![expect(
    clippy::duplicate_mod,
    reason = "each example brings what the examples share"
)]

mod adaptation;
mod attribute;
mod examples;
mod reconnect;
mod recorder;
mod registration;
mod requests;
mod runtime;
mod sync;
