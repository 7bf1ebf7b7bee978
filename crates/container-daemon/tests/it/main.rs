//! The daemon over a fake runtime, in virtual time.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod hooks;
mod lifecycle;
mod support;
