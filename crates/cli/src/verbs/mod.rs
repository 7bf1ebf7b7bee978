//! One file a verb.

pub(crate) mod completions;
pub(crate) mod config;
pub(crate) mod container;
pub(crate) mod csi;
pub(crate) mod daemon;
pub(crate) mod demo;
pub(crate) mod doctor;
pub(crate) mod man;
pub(crate) mod nri;
pub(crate) mod reload;
pub(crate) mod status;
pub(crate) mod task;

use std::time::Duration;

use anyhow::{Context as _, Result};

/// Runs a verb to its end.
pub(crate) fn block_on<T>(future: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = runtime()?;
    let outcome = runtime.block_on(future);
    // A blocking call that hangs must not keep a finished command from ending.
    runtime.shutdown_background();
    outcome
}

/// A runtime on this thread alone.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")
}

/// Reads a length of time given as an argument.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    longshore_supervisor::parse_duration(text)
}

/// The same, where docker counts in seconds.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse::<u32>() {
        Ok(seconds) => Ok(Duration::from_secs(seconds.into())),
        Err(_) => duration(text),
    }
}

/// Milliseconds as the control service counts them.
pub(crate) fn millis(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}
