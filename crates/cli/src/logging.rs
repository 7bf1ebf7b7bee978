//! Logs go to stderr: text for a person on a terminal, JSON for a machine.

use std::io::IsTerminal as _;

use anyhow::{Result, anyhow};
use tracing_subscriber::EnvFilter;

use crate::fault::{Exit, Fault};

/// Logs by `filter` (a level, or `target=level` pairs).
///
/// # Errors
/// The filter cannot be parsed.
pub(crate) fn start(filter: &str) -> Result<()> {
    let filter = EnvFilter::try_new(filter).map_err(|error| {
        Fault::new(
            Exit::Config,
            format!("log: `{filter}` is no filter: {error}"),
        )
        .hint("write a level like `info`, or `info,longshore_csi_manager=debug`")
    })?;
    let terminal = std::io::stderr().is_terminal();
    let base = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr);
    let started = if terminal {
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        base.with_ansi(!no_colour).with_target(false).try_init()
    } else {
        base.json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false)
            .try_init()
    };
    started.map_err(|error| anyhow!("logging cannot be started: {error}"))
}

/// Logs when `LONGSHORE_LOG` asks for it: for verbs that normally say nothing.
pub(crate) fn start_if_asked() -> Result<()> {
    match std::env::var("LONGSHORE_LOG") {
        Ok(filter) if !filter.is_empty() => start(&filter),
        _ => Ok(()),
    }
}
