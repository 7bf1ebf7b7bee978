//! Trunks over in-memory streams, in virtual time: both ends ours, and a peer made of raw bytes.

mod calls;
mod peers;
mod raw;
