//! Internal to Longshore: what plugins and runtimes say to each other over NRI, recorded.
//!
//! ```text
//!  plugin --bytes--> Proxy --bytes--> runtime
//!                      | each piece, before it is passed on
//!                    Tracer --Entry--> a record: a line of JSON each --Record::read--> Entry
//!                                                                      '--line--> text
//! ```
//!
//! # Invariants
//!
//! - The proxy changes, delays and reorders nothing: what it cannot read it passes on all the same.
//! - A request is on record before whoever gets it can answer.
//! - Decoding is a pure function of the bytes and their times; what a message costs is measured before
//!   it is decoded. Nothing that comes from a peer or a file panics.
//! - This crate prints nothing and opens no file.

mod error;
mod messages;
mod proxy;
mod record;
mod text;
mod tracer;

pub use error::TraceError;
pub use messages::{METHODS, Payload, Role, decode, encode};
pub use proxy::Proxy;
pub use record::{Caller, Entry, Event, Header, LINE_MAX, Message, Record, Side};
pub use text::line;
pub use tracer::Tracer;
