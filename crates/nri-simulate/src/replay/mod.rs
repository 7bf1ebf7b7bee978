//! What a runtime once asked of plugins, asked again.
//!
//! ```text
//!  record ──survey──▶ which plugins there were ──cast──▶ who plays them
//!     │
//!     └─entry by entry─▶ request of the runtime ──▶ the plugin is asked, in the order of the record
//!                        answer of the plugin   ──▶ its answer is waited for, and compared
//! ```
//!
//! A request is made once everything that the record has before it has happened again: what ran side by
//! side then does so now, and what waited for an answer waits for it.

mod cast;
mod compare;
mod link;
mod player;

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

use longshore_nri_trace::{Entry, Event, Record, Side, TraceError};

use crate::{Plugins, Report, SimulateError};

/// The most requests of a record that is repeated: the report holds every answer.
const REQUESTS_MAX: usize = 200_000;

/// A record that is good to be repeated.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Replay {
    /// The file.
    pub path: PathBuf,
    /// The plugins that registered, by their full names, in the order in which they did.
    pub recorded: Vec<String>,
    /// How many requests the runtime made.
    pub requests: usize,
    /// The last line is not complete.
    pub cut: bool,
    /// How long a plugin may take to come, and to answer where the record has no limit.
    pub wait: Duration,
}

impl Replay {
    /// Reads a record to its end, so that what is wrong with it is known before a plugin is started.
    ///
    /// # Errors
    /// [`SimulateError::Record`]: it cannot be read, is none, is damaged, or of another version.
    /// [`SimulateError::NothingToRepeat`]: no plugin registered, or too many requests were made.
    pub fn read(path: &Path) -> Result<Self, SimulateError> {
        let mut record = open(path)?;
        let mut recorded = Vec::new();
        let mut requests = 0;
        for entry in record.by_ref() {
            let entry = entry.map_err(|source| refused(path, source))?;
            if let Some(name) = registers(&entry)
                && !recorded.contains(name)
            {
                recorded.push(name.clone());
            }
            if let (Side::Runtime, Event::Request { .. }) = (entry.from, &entry.event) {
                requests += 1;
            }
        }
        let nothing = |why: String| SimulateError::NothingToRepeat {
            path: path.to_owned(),
            why,
        };
        if recorded.is_empty() {
            return Err(nothing("no plugin registered in it".to_owned()));
        }
        if requests > REQUESTS_MAX {
            let why = format!("it has {requests} requests, at most {REQUESTS_MAX} are repeated");
            return Err(nothing(why));
        }
        Ok(Self {
            path: path.to_owned(),
            recorded,
            requests,
            cut: record.is_cut(),
            wait: Duration::from_secs(10),
        })
    }
}

/// Repeats a record to these plugins. Dropping the future kills the plugins that were started.
///
/// The report has a step for each request of the runtime, and one for each plugin that comes; an answer
/// that differs from the recorded one is a problem. Recorded plugins that nobody plays are left out.
///
/// # Errors
/// [`SimulateError`]: no plugin fits the record, the socket cannot be made, or the file has changed and
/// cannot be read any more. What plugins do wrong is in the report.
pub async fn replay(replay: &Replay, plugins: &Plugins) -> Result<Report, SimulateError> {
    let cast = cast::Cast::new(replay, plugins)?;
    let mut player = player::Player::new(replay, cast, plugins)?;
    for entry in open(&replay.path)? {
        let entry = entry.map_err(|source| refused(&replay.path, source))?;
        player.play(entry).await;
    }
    Ok(player.end().await)
}

fn open(path: &Path) -> Result<Record<BufReader<File>>, SimulateError> {
    let file = File::open(path).map_err(|source| SimulateError::File {
        path: path.to_owned(),
        source,
    })?;
    Record::read(BufReader::new(file)).map_err(|source| refused(path, source))
}

fn refused(path: &Path, source: TraceError) -> SimulateError {
    SimulateError::Record {
        path: path.to_owned(),
        source,
    }
}

/// The plugin that says with this entry who it is.
fn registers(entry: &Entry) -> Option<&String> {
    match &entry.event {
        Event::Request { method, .. } if method == "RegisterPlugin" => entry.plugin.as_ref(),
        _ => None,
    }
}
