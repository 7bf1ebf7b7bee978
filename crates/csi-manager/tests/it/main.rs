//! The manager over a fake agent, with fake plugins on real sockets.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod change;
mod life;
mod mounts;
mod probes;
mod real;
mod recover;
mod rig;
mod unmanaged;
