//! Executors that die, before an engine that is fake or real.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod deaths;
mod engine;
mod executor;
mod real;
