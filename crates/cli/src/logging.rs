//! Logs go to stderr: text for a person on a terminal, JSON for a machine.

use std::io::IsTerminal as _;

use anyhow::{Result, anyhow};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::prelude::*;

use crate::fault::{Exit, Fault};

/// Logs by `filter` (a level, or `target=level` pairs).
///
/// # Errors
/// The filter cannot be parsed.
pub(crate) fn start(filter: &str) -> Result<()> {
    let filter = parse(filter).map_err(|why| {
        Fault::new(Exit::Config, format!("log: `{filter}` is no filter: {why}"))
            .hint("write a level like `info`, or `info,longshore_csi_manager=debug`")
    })?;
    let terminal = std::io::stderr().is_terminal();
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let registry = tracing_subscriber::registry().with(filter);
    let started = if terminal {
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let layer = layer.with_ansi(!no_colour).with_target(false);
        registry.with(layer).try_init()
    } else {
        let layer = layer
            .json()
            .flatten_event(true)
            .with_current_span(true)
            .with_span_list(false);
        registry.with(layer).try_init()
    };
    started.map_err(|error| anyhow!("logging cannot be started: {error}"))
}

/// A level, or `target=level` pairs. No patterns, which would bring an engine for regular expressions along.
fn parse(filter: &str) -> Result<Targets, String> {
    for word in filter.split(',').filter(|word| !word.contains('=')) {
        // An empty word would be taken for a level.
        if word.trim().is_empty() || word.trim().parse::<LevelFilter>().is_err() {
            return Err(format!("`{word}` is neither a level nor target=level"));
        }
    }
    let words: Vec<&str> = filter.split(',').map(str::trim).collect();
    words
        .join(",")
        .parse()
        .map_err(|error: tracing_subscriber::filter::ParseError| error.to_string())
}

/// Logs when `LONGSHORE_LOG` asks for it: for verbs that normally say nothing.
pub(crate) fn start_if_asked() -> Result<()> {
    match std::env::var("LONGSHORE_LOG") {
        Ok(filter) if !filter.is_empty() => start(&filter),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn a_filter_is_a_level_and_levels_of_targets() {
        let filter = parse("info, longshore_csi_manager=debug,h2=off").unwrap();
        for (target, level, enabled) in [
            ("longshore", Level::INFO, true),
            ("longshore", Level::DEBUG, false),
            ("longshore_csi_manager::unit", Level::DEBUG, true),
            ("longshore_csi_manager::unit", Level::TRACE, false),
            ("h2::codec", Level::ERROR, false),
        ] {
            assert_eq!(filter.would_enable(target, &level), enabled, "{target}");
        }
        for bad in ["inof", "", "info,x=loud", "info,longshore"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
