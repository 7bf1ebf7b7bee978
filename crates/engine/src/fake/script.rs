use std::time::Duration;

use crate::error::EngineError;
use crate::log::LogSource;

/// What a container of the fake engine does.
#[derive(Debug, Clone, Default)]
pub struct Script {
    /// It exits so long after its start, with this code; otherwise it runs until it is killed.
    pub exit: Option<(Duration, i64)>,
    /// Signals that it ignores, as `TERM`; KILL cannot be.
    pub ignores: Vec<String>,
    /// It exits with this code on a signal that it does not ignore; otherwise with 128 and the signal's number.
    pub code_on_signal: Option<i64>,
    /// How long it takes to exit on such a signal.
    pub dies_after: Duration,
    /// Its start fails so.
    pub start_error: Option<EngineError>,
    /// The id of its process; otherwise one that no process has.
    pub pid: Option<i32>,
    /// What it prints as soon as it has started.
    pub output: Vec<(LogSource, String)>,
    /// Messages of it that a stream which follows leaves out: as engines do, without a word, where the reader is behind.
    pub followers_miss: std::ops::Range<usize>,
    /// What commands in it exit with, and after what time; otherwise at once with 0.
    pub exec: Option<(Duration, i64)>,
}

impl Script {
    /// Exits after `time` with `code`.
    #[must_use]
    pub fn exits(time: Duration, code: i64) -> Self {
        Self {
            exit: Some((time, code)),
            ..Self::default()
        }
    }

    /// Runs until it is sent KILL.
    #[must_use]
    pub fn ignores_term() -> Self {
        Self {
            ignores: vec!["TERM".to_owned()],
            ..Self::default()
        }
    }
}

/// The number and the bare name of a signal, as engines take it.
pub(super) fn signal(text: &str) -> Option<(i64, String)> {
    const NAMES: &[(i64, &str)] = &[
        (1, "HUP"),
        (2, "INT"),
        (3, "QUIT"),
        (6, "ABRT"),
        (9, "KILL"),
        (10, "USR1"),
        (12, "USR2"),
        (13, "PIPE"),
        (14, "ALRM"),
        (15, "TERM"),
        (18, "CONT"),
        (19, "STOP"),
        (28, "WINCH"),
    ];
    let upper = text.to_ascii_uppercase();
    let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
    let found = NAMES
        .iter()
        .find(|(number, name)| *name == bare || number.to_string() == bare)?;
    Some((found.0, found.1.to_owned()))
}
