//! Trunks over in-memory streams, most of them in virtual time: both ends ours, a peer made of raw
//! bytes, and the `ttrpc` crate.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod calls;
mod peers;
mod raw;
mod rust_ttrpc;
