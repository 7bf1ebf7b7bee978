//! The log filter: a level, or `target=level` pairs.

use tracing_subscriber::filter::{LevelFilter, ParseError, Targets};

use super::raw::RawLogFormat;

/// How a line of the log looks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Text on a terminal, JSON elsewhere.
    #[default]
    Auto,
    /// For people.
    Text,
    /// For machines: an object a line.
    Json,
}

impl From<RawLogFormat> for LogFormat {
    fn from(raw: RawLogFormat) -> Self {
        match raw {
            RawLogFormat::Auto => Self::Auto,
            RawLogFormat::Text => Self::Text,
            RawLogFormat::Json => Self::Json,
        }
    }
}

/// Reads a filter such as `info` or `info,longshore_csi_manager=debug`. No patterns, which would bring an
/// engine for regular expressions along.
///
/// # Errors
/// A sentence fragment that says what is wrong and what the form is.
pub fn parse_log_filter(filter: &str) -> Result<Targets, String> {
    let refused = |why: &str| {
        format!(
            "`{filter}` is no filter: {why}; write a level like \"info\", or \
             \"info,longshore_csi_manager=debug\""
        )
    };
    let words: Vec<&str> = filter.split(',').map(str::trim).collect();
    for word in words.iter().filter(|word| !word.contains('=')) {
        // An empty word would be taken for a level.
        if word.is_empty() || word.parse::<LevelFilter>().is_err() {
            return Err(refused(&format!(
                "`{word}` is neither a level nor target=level"
            )));
        }
    }
    let names = |target: &str| words.iter().any(|word| word.starts_with(target));
    let quiet = LOUD.iter().filter(|target| !names(target));
    let mut all = words.clone();
    let quiet: Vec<_> = quiet.map(|target| format!("{target}=warn")).collect();
    // A level for all would have them say less than that.
    if !words
        .iter()
        .any(|word| matches!(*word, "off" | "error" | "0" | "1"))
    {
        all.extend(quiet.iter().map(String::as_str));
    }
    let parsed = all.join(",").parse();
    parsed.map_err(|error: ParseError| refused(&error.to_string()))
}

/// Libraries below, which say ten lines for each call; they are heard at `warn` unless they are named.
const LOUD: [&str; 4] = ["h2", "hyper", "tonic", "tower"];

#[cfg(test)]
mod tests {
    use super::*;
    use tracing::Level;

    #[test]
    fn a_filter_is_a_level_and_levels_of_targets() {
        let filter = parse_log_filter("info, longshore_csi_manager=debug,h2=off").unwrap();
        for (target, level, enabled) in [
            ("longshore", Level::INFO, true),
            ("longshore", Level::DEBUG, false),
            ("longshore_csi_manager::unit", Level::DEBUG, true),
            ("longshore_csi_manager::unit", Level::TRACE, false),
            ("h2::codec", Level::ERROR, false),
        ] {
            assert_eq!(filter.would_enable(target, &level), enabled, "{target}");
        }
        for (text, target, level, enabled) in [
            ("debug", "longshore", Level::DEBUG, true),
            ("debug", "h2::codec::framed_read", Level::INFO, false),
            ("trace", "hyper_util::client", Level::DEBUG, false),
            ("debug", "h2::codec", Level::WARN, true),
            ("debug,h2=debug", "h2::codec", Level::DEBUG, true),
            (
                "debug,hyper_util=trace",
                "hyper_util::client",
                Level::TRACE,
                true,
            ),
            ("off", "h2::codec", Level::ERROR, false),
            ("error", "hyper", Level::WARN, false),
        ] {
            let filter = parse_log_filter(text).unwrap();
            assert_eq!(
                filter.would_enable(target, &level),
                enabled,
                "{text} {target}"
            );
        }
        for bad in ["inof", "", "info,x=loud", "info,longshore"] {
            let error = parse_log_filter(bad).unwrap_err();
            assert!(error.contains("write a level like"), "{bad:?}: {error}");
        }
    }
}
