//! What a plugin writes to its standard error: into the log line by line, the last lines kept.
//!
//! A plugin is never held up by it and cannot flood anything with it: lines are cut, and those that
//! come too fast are counted instead of logged.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::time::Instant;

/// The most of a line that is kept, in bytes.
const LINE_MAX: usize = 4096;
/// How many lines are kept.
const LINES_KEPT: usize = 50;
/// How many lines are logged in each [`WINDOW`].
const LINES_LOGGED: u32 = 500;
/// The time over which lines are counted.
const WINDOW: Duration = Duration::from_secs(5);
/// How much is read at once, in bytes.
const READ: usize = 4096;
/// How many lines go into a message.
const WORDS_LINES: usize = 5;
/// The most of each, in characters.
const WORDS_MAX: usize = 200;

/// The last lines.
#[derive(Debug, Clone, Default)]
pub(super) struct Tail(Arc<Mutex<VecDeque<String>>>);

impl Tail {
    pub(super) fn lines(&self) -> Vec<String> {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().cloned().collect()
    }

    /// The last lines that are not blank in one, each cut.
    pub(super) fn words(&self) -> String {
        let lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut last: Vec<String> = lines
            .iter()
            .rev()
            .map(|line| line.trim())
            .filter(|line| !line.is_empty())
            .take(WORDS_LINES)
            .map(|line| match line.char_indices().nth(WORDS_MAX) {
                Some((end, _)) => format!("{}…", &line[..end]),
                None => line.to_owned(),
            })
            .collect();
        last.reverse();
        last.join(" | ")
    }

    fn push(&self, line: String) {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lines.len() == LINES_KEPT {
            lines.pop_front();
        }
        lines.push_back(line);
    }
}

/// Reads one plugin's standard error.
#[derive(Debug)]
pub(super) struct Capture {
    plugin: String,
    pid: i32,
    tail: Tail,
    lines: Lines,
    throttle: Throttle,
}

impl Capture {
    pub(super) fn new(plugin: String, pid: i32, tail: Tail) -> Self {
        Self {
            plugin,
            pid,
            tail,
            lines: Lines::default(),
            throttle: Throttle::default(),
        }
    }

    /// Reads until nobody can write any more.
    pub(super) async fn run(mut self, mut pipe: pipe::Receiver) {
        let start = Instant::now();
        let mut buffer = Vec::with_capacity(READ);
        loop {
            buffer.clear();
            match pipe.read_buf(&mut buffer).await {
                Ok(0) => break,
                Ok(_) => {
                    for line in self.lines.push(&buffer) {
                        self.line(line, start.elapsed());
                    }
                    // Whoever writes without end must not keep this worker.
                    tokio::task::yield_now().await;
                }
                Err(error) => {
                    tracing::warn!(plugin = self.plugin, pid = self.pid, %error, "cannot read its stderr");
                    break;
                }
            }
        }
        if let Some(line) = self.lines.finish() {
            self.line(line, start.elapsed());
        }
    }

    fn line(&mut self, line: String, now: Duration) {
        let (plugin, pid) = (self.plugin.as_str(), self.pid);
        match self.throttle.take(now) {
            Pass::No => {}
            Pass::After { dropped } => {
                if dropped > 0 {
                    tracing::warn!(plugin, pid, dropped, "lines of its stderr were not logged");
                }
                tracing::info!(plugin, pid, line, "stderr");
            }
        }
        self.tail.push(line);
    }
}

/// Cuts bytes into lines. Holds at most one line.
#[derive(Debug, Default)]
struct Lines {
    partial: Vec<u8>,
    cut: bool,
}

impl Lines {
    /// The lines that are complete with these bytes.
    fn push(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut lines = Vec::new();
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            let (text, ends) = match piece.split_last() {
                Some((b'\n', text)) => (text, true),
                _ => (piece, false),
            };
            let room = LINE_MAX - self.partial.len();
            self.cut |= text.len() > room;
            self.partial
                .extend_from_slice(&text[..text.len().min(room)]);
            if ends {
                lines.push(self.take());
            }
        }
        lines
    }

    /// What came after the last line feed.
    fn finish(&mut self) -> Option<String> {
        (!self.partial.is_empty()).then(|| self.take())
    }

    /// Text without control characters: a terminal that shows the log obeys the plugin otherwise.
    fn take(&mut self) -> String {
        let text = String::from_utf8_lossy(&self.partial);
        let text = text.strip_suffix('\r').unwrap_or(&text);
        let mut line: String = text
            .chars()
            .map(|c| match c {
                '\t' => ' ',
                c if c.is_control() => char::REPLACEMENT_CHARACTER,
                c => c,
            })
            .collect();
        if self.cut {
            line.push('…');
        }
        self.partial.clear();
        self.cut = false;
        line
    }
}

/// Whether a line is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pass {
    No,
    /// It is, after so many that were not.
    After {
        dropped: u64,
    },
}

/// At most [`LINES_LOGGED`] in a [`WINDOW`].
#[derive(Debug, Default)]
struct Throttle {
    window: Duration,
    passed: u32,
    dropped: u64,
}

impl Throttle {
    fn take(&mut self, now: Duration) -> Pass {
        if now.saturating_sub(self.window) >= WINDOW {
            self.window = now;
            self.passed = 0;
        }
        if self.passed == LINES_LOGGED {
            self.dropped += 1;
            return Pass::No;
        }
        self.passed += 1;
        Pass::After {
            dropped: std::mem::take(&mut self.dropped),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_are_cut_cleaned_and_kept_across_reads() {
        let mut lines = Lines::default();
        assert_eq!(lines.push(b"one\ntw"), ["one"]);
        assert_eq!(lines.push(b"o\r\n\n"), ["two", ""]);
        assert_eq!(
            lines.push(b"\x1b[31mred\tx\xff\n"),
            ["\u{fffd}[31mred x\u{fffd}"]
        );
        let long = [b'x'; LINE_MAX + 10];
        assert!(lines.push(&long).is_empty());
        assert_eq!(
            lines.push(b"yy\nnext\n"),
            [format!("{}…", "x".repeat(LINE_MAX)), "next".to_owned()]
        );
        assert_eq!(lines.push(b"rest"), Vec::<String>::new());
        assert_eq!(lines.finish(), Some("rest".to_owned()));
        assert_eq!(lines.finish(), None);
    }

    #[test]
    fn a_flood_is_counted_and_said_so_once_it_is_over() {
        let mut throttle = Throttle::default();
        let second = Duration::from_secs(1);
        for _ in 0..LINES_LOGGED {
            assert_eq!(throttle.take(second), Pass::After { dropped: 0 });
        }
        for _ in 0..7 {
            assert_eq!(throttle.take(2 * second), Pass::No);
        }
        assert_eq!(throttle.take(5 * second), Pass::After { dropped: 7 });
        assert_eq!(throttle.take(5 * second), Pass::After { dropped: 0 });
    }

    #[test]
    fn the_last_lines_are_kept() {
        let tail = Tail::default();
        for n in 0..LINES_KEPT + 3 {
            tail.push(n.to_string());
        }
        let lines = tail.lines();
        assert_eq!((lines.len(), lines[0].as_str()), (LINES_KEPT, "3"));
        assert_eq!(tail.words(), "48 | 49 | 50 | 51 | 52");
    }

    #[test]
    fn last_words_are_short_and_not_blank() {
        let tail = Tail::default();
        assert_eq!(tail.words(), "");
        for line in ["first", "", "  ", &"é".repeat(WORDS_MAX + 1), "  last "] {
            tail.push(line.to_owned());
        }
        let cut = "é".repeat(WORDS_MAX);
        assert_eq!(tail.words(), format!("first | {cut}… | last"));
    }

    proptest! {
        #[test]
        fn any_bytes_give_the_same_lines_however_they_are_cut(
            chunks in proptest::collection::vec(proptest::collection::vec(prop_oneof![Just(b'\n'), any::<u8>()], 0..40), 0..10),
        ) {
            let (mut whole, mut pieces) = (Lines::default(), Lines::default());
            let mut expected = whole.push(&chunks.concat());
            expected.extend(whole.finish());
            let mut seen: Vec<String> = chunks.iter().flat_map(|chunk| pieces.push(chunk)).collect();
            seen.extend(pieces.finish());
            prop_assert!(seen.iter().all(|line| !line.chars().any(char::is_control)));
            prop_assert_eq!(seen, expected);
        }
    }
}
