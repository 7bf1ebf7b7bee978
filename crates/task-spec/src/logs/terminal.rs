//! The output of a terminal, which comes as one raw stream, taken apart into the messages that the engine has kept.
//!
//! An engine keeps a message for each line, and for each 16 KiB of a longer one; each begins with its time. So one ends at
//! a line feed, or where 16 KiB of it are followed by a time.

use bytes::{Bytes, BytesMut};
use longshore_engine::{EngineTime, LogFrame, LogSource};

/// What an engine keeps of a long line as one message.
const PART: usize = 16 << 10;
/// Room for a time and the space behind it.
const TIME_MAX: usize = 40;

/// Bytes of which no message has been made yet: at most a part, two times, and one piece of the stream.
#[derive(Debug, Default)]
pub(super) struct Terminal {
    pending: BytesMut,
}

impl Terminal {
    /// What is pending comes again.
    pub(super) fn reopen(&mut self) {
        self.pending.clear();
    }

    /// The messages that end with this piece.
    pub(super) fn split(&mut self, piece: &[u8]) -> Vec<LogFrame> {
        self.pending.extend_from_slice(piece);
        let mut messages = Vec::new();
        while let Some(length) = end(&self.pending) {
            messages.push(message(self.pending.split_to(length).freeze()));
        }
        messages
    }

    /// The last message, which needs no line feed.
    pub(super) fn end(&mut self) -> Option<LogFrame> {
        let rest = self.pending.split().freeze();
        (!rest.is_empty()).then(|| message(rest))
    }
}

fn message(data: Bytes) -> LogFrame {
    LogFrame {
        source: LogSource::Stdout,
        data,
        continues: false,
    }
}

/// Where the first message ends, if it does.
fn end(pending: &[u8]) -> Option<usize> {
    let data = time_length(pending).unwrap_or(0);
    let part = data + PART;
    match pending.iter().position(|byte| *byte == b'\n') {
        Some(at) if at < part => Some(at + 1),
        line => {
            let rest = pending.get(part..).filter(|rest| !rest.is_empty())?;
            if time_length(rest).is_some() {
                return Some(part);
            }
            // A time may be cut off; a longer line than an engine keeps whole is one that keeps it otherwise.
            let decided = line.is_some() || rest.len() >= TIME_MAX;
            decided.then(|| line.map_or(pending.len(), |at| at + 1))
        }
    }
}

/// How long the time is with which these bytes begin, its space included.
fn time_length(bytes: &[u8]) -> Option<usize> {
    let space = bytes.iter().take(TIME_MAX).position(|byte| *byte == b' ')?;
    let text = std::str::from_utf8(&bytes[..space]).ok()?;
    EngineTime::parse(text).map(|_| space + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: &str = "2026-11-30T18:00:01.000000000Z ";

    fn lengths(terminal: &mut Terminal, text: &str, piece: usize) -> Vec<usize> {
        let mut found = Vec::new();
        for piece in text.as_bytes().chunks(piece) {
            found.extend(terminal.split(piece).iter().map(|frame| frame.data.len()));
        }
        found.extend(terminal.end().map(|frame| frame.data.len()));
        found
    }

    #[test]
    fn lines_and_parts_of_lines_are_messages_however_they_are_cut() {
        let part = "x".repeat(PART);
        let messages = [
            format!("{TIME}one\r\n"),
            format!("{TIME}\r\n"),
            format!("{TIME}{part}"),
            format!("{TIME}{part}"),
            format!("{TIME}rest\r\n"),
            format!("{TIME}prompt> "),
        ];
        let expected: Vec<_> = messages.iter().map(String::len).collect();
        let text = messages.concat();
        for piece in [1, 7, 31, 1000, PART, PART + 31, usize::MAX] {
            assert_eq!(
                lengths(&mut Terminal::default(), &text, piece),
                expected,
                "{piece}"
            );
        }
    }

    #[test]
    fn what_has_no_times_is_bounded_all_the_same() {
        let mut terminal = Terminal::default();
        let text = "y".repeat(5 * PART);
        let found = lengths(&mut terminal, &text, 100);
        assert_eq!(found.iter().sum::<usize>(), text.len());
        assert!(
            found.iter().all(|length| *length <= PART + TIME_MAX + 100),
            "{found:?}"
        );
    }
}
