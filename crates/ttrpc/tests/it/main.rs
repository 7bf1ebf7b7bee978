//! Trunks over in-memory streams, in virtual time: both ends ours, and a peer made of raw bytes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod calls;
mod peers;
mod raw;
