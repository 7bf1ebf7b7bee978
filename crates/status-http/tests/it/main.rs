//! What is rendered, and the server on a real socket.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod exposition;
mod metrics_page;
mod rendering;
mod sample;
mod server;
