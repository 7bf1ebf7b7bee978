//! The client against the scripted fake agent: every call in both forms, every way an agent can
//! misbehave, and the transports.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bounds;
mod calls;
mod connections;
mod credentials;
mod executor;
mod helpers;
mod retries;
mod tls;
mod waits;
