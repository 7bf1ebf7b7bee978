//! The stub against runtimes of all kinds.

mod attribute;
mod reconnect;
mod registration;
mod requests;
mod runtime;
mod sync;
