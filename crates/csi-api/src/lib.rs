//! Generated Container Storage Interface messages, clients and servers, v0 and v1.

#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
mod r#gen;

pub use r#gen::csi::{v0, v1};
