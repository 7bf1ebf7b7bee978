//! The Longshore control service: generated messages, client and server.

#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
mod r#gen;

pub use r#gen::longshore::control::v1;
