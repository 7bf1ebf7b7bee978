//! What the bench of NRI and its plugin share.

pub mod subject;

use std::io;

use tokio::runtime::{Builder, Runtime};

/// One thread on each side of a socket: what is measured is the hop, not the scheduling of workers.
///
/// # Errors
/// When the system gives no event queue.
pub fn runtime() -> io::Result<Runtime> {
    Builder::new_current_thread().enable_all().build()
}

/// The name of the nth plugin, without its index.
#[must_use]
pub fn plugin_name(nth: usize) -> String {
    format!("bench-{nth:03}")
}

/// Its index: two digits.
#[must_use]
pub fn plugin_index(nth: usize) -> String {
    format!("{:02}", nth % 100)
}
