//! The Docker implementation: against a daemon that misbehaves on the wire, and against real engines.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod daemon;
mod engines;
mod events;
mod failures;
mod fake;
mod info;
mod pulls;
mod scenario;
