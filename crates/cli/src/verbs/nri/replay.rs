//! `longshore nri simulate --replay`: what a runtime once asked of plugins, asked again.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use longshore_nri_simulate::{Plugins, Replay, Report, replay};

use crate::signals::Interrupts;
use crate::verbs::block_on;

/// Repeats a record to plugins.
pub(crate) fn run(file: &Path, plugins: &Plugins, wait: Duration) -> Result<Report> {
    let mut record = Replay::read(file)?;
    record.wait = wait;
    block_on(Box::pin(async {
        let mut interrupts = Interrupts::new().context("cannot handle signals")?;
        // What was started is killed with the future.
        tokio::select! {
            report = replay(&record, plugins) => Ok(report?),
            signal = interrupts.next() => Err(anyhow::anyhow!("interrupted by {signal}")),
        }
    }))
}
