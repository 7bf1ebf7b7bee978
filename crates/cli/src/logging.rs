//! Logs go to stderr: text for a person on a terminal, JSON for a machine.

use std::io::IsTerminal as _;

use anyhow::{Result, anyhow};
use longshore_supervisor::{LogFormat, LogHandle, parse_log_filter};
use tracing_subscriber::prelude::*;
use tracing_subscriber::reload;

use crate::fault::{Exit, Fault};

/// Logs by `filter` (a level, or `target=level` pairs), until another is put into the handle.
///
/// # Errors
/// The filter cannot be parsed.
pub(crate) fn start(filter: &str, format: LogFormat) -> Result<LogHandle> {
    let filter =
        parse_log_filter(filter).map_err(|why| Fault::new(Exit::Config, format!("log: {why}")))?;
    let (filter, handle) = reload::Layer::new(filter);
    let terminal = std::io::stderr().is_terminal();
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry().with(filter);
    let text = match format {
        LogFormat::Auto => terminal,
        LogFormat::Text => true,
        LogFormat::Json => false,
    };
    let started = if text {
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let layer = layer.with_ansi(terminal && !no_colour).with_target(false);
        registry.with(layer).try_init()
    } else {
        let layer = layer
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false);
        registry.with(layer).try_init()
    };
    started.map_err(|error| anyhow!("logging cannot be started: {error}"))?;
    Ok(handle)
}

/// Logs when `LONGSHORE_LOG` asks for it: for verbs that normally say nothing.
pub(crate) fn start_if_asked() -> Result<()> {
    match std::env::var("LONGSHORE_LOG") {
        Ok(filter) if !filter.is_empty() => start(&filter, LogFormat::Auto).map(drop),
        _ => Ok(()),
    }
}
