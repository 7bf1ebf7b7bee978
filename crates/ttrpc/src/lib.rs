#![doc = include_str!("../README.md")]
//!
//! # Invariants
//!
//! - Every length is checked before anything is allocated for it; a trunk stores at most one
//!   frame of the multiplexer and one message for each of its two connections.
//! - Stream ids rise by two in the order in which requests are written, also when many tasks call
//!   at once.
//! - A message that has been begun is written to its end. Cancelling or timing out a call harms
//!   no other call.
//! - Answers never wait behind requests: both are handed out by the task that reads.
//! - A trunk is closed once, for one reason, which every pending and later call gets.
//! - No lock is held across an await; every queue has a bound ([`Options`]).

mod client;
mod eager;
mod envelope;
mod error;
mod frame;
mod mux;
mod observe;
mod options;
mod server;
mod shared;
mod status;
mod trunk;

pub use client::{CallOptions, Client};
pub use envelope::KeyValue;
pub use error::{CallError, CloseReason};
pub use frame::MAX_DATA;
pub use mux::MAX_PAYLOAD;
pub use observe::{Observed, Observer};
pub use options::{Layout, Options};
pub use server::{NoService, Request, Service};
pub use status::{Code, Status};
pub use trunk::start;
