#![doc = include_str!("../README.md")]
//!
//! # Invariants
//!
//! - Nothing here does I/O, starts a task or reads a clock.
//! - Untrusted bytes are limited *before* they are decoded: [`decode`] and [`json::from_slice`]
//!   count bytes and elements first ([`DecodeLimits`]), because two bytes of protobuf can become
//!   kilobytes of structures. A RecordIO length is checked before its record is buffered.
//! - No input makes anything here panic.
//! - The `Debug` form of a message shows no value that may be a secret: of an environment variable, a secret, a
//!   credential, a parameter.
//! - The descriptors that the JSON mapping needs are read once, on the first use of JSON (or on
//!   the first protobuf body too large to be harmless by its size); a program that only speaks
//!   protobuf never pays for them.
//! - Generated code is committed (`src/gen`), made by `cargo xtask codegen` from `proto/`.

#[allow(
    missing_docs,
    unreachable_pub,
    clippy::all,
    clippy::pedantic,
    clippy::use_self
)]
mod r#gen;

mod api_message;
mod duration;
mod environment;
mod hidden;
pub mod json;
mod limits;
pub mod record_io;
mod schema;

pub use api_message::ApiMessage;
pub use duration::{DurationError, parse_duration};
pub use environment::{VariableError, variables};
pub use r#gen::mesos::v1;
pub use limits::{DecodeError, DecodeLimits, decode};
