//! The adaptation through its public API, with plugins at the other end of an in-memory stream.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod adjust;
mod closed;
mod connection;
mod events;
mod fake;
mod hostile;
mod launch;
mod launched;
mod metrics;
mod order;
mod points;
mod policies;
mod raw;
mod socket;
mod sync;
mod validation;
