//! What goes to stdout: text, tables, JSON; colour on a terminal alone.

use std::fmt::Display;
use std::io::{BufWriter, IsTerminal as _, Result, Stdout, Write};

use serde::Serialize;

/// The version of every `--json` document, in its `version` member. See `docs/json.md`.
pub(crate) const JSON_VERSION: u32 = 1;

/// Buffered stdout.
#[derive(Debug)]
pub(crate) struct Out {
    stdout: BufWriter<Stdout>,
    terminal: bool,
    colour: bool,
}

/// What a text means, for its colour; never the only bearer of that meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    Busy,
    Bad,
    Dim,
    Bold,
}

impl Tone {
    fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Good => Some("32"),
            Self::Busy => Some("33"),
            Self::Bad => Some("31"),
            Self::Dim => Some("2"),
            Self::Bold => Some("1"),
        }
    }
}

impl Out {
    pub(crate) fn stdout() -> Self {
        let stdout = std::io::stdout();
        let terminal = stdout.is_terminal();
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            stdout: BufWriter::new(stdout),
            terminal,
            colour: terminal && !no_colour && !dumb,
        }
    }

    pub(crate) fn line(&mut self, text: impl Display) -> Result<()> {
        writeln!(self.stdout, "{text}")
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.stdout.write_all(bytes)
    }

    pub(crate) fn flush(&mut self) -> Result<()> {
        self.stdout.flush()
    }

    /// `text` in the colour of `tone`, where there is colour.
    pub(crate) fn paint(&self, tone: Tone, text: &str) -> String {
        match tone.code() {
            Some(code) if self.colour => format!("\x1b[{code}m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }

    /// A JSON document on its own line, indented on a terminal.
    pub(crate) fn json(&mut self, value: &impl Serialize) -> Result<()> {
        let text = if self.terminal {
            serde_json::to_string_pretty(value)?
        } else {
            serde_json::to_string(value)?
        };
        self.line(text)
    }

    /// Clears the screen of a terminal.
    pub(crate) fn clear(&mut self) -> Result<()> {
        if self.terminal {
            self.bytes(b"\x1b[H\x1b[2J")
        } else {
            Ok(())
        }
    }

    /// A table with a heading; columns as wide as their widest cell.
    pub(crate) fn table(&mut self, table: &Table) -> Result<()> {
        let widths: Vec<usize> = (0..table.heading.len())
            .map(|column| {
                let cells = table.rows.iter().filter_map(|row| row.get(column));
                let widest = cells
                    .map(|(_, text)| text.chars().count())
                    .max()
                    .unwrap_or(0);
                widest.max(table.heading[column].len())
            })
            .collect();
        let heading: Vec<_> = table
            .heading
            .iter()
            .map(|h| (Tone::Bold, (*h).to_owned()))
            .collect();
        for row in std::iter::once(&heading).chain(&table.rows) {
            let mut line = String::new();
            for (column, (tone, text)) in row.iter().enumerate() {
                let last = column + 1 == row.len();
                let width = if last {
                    0
                } else {
                    widths[column].saturating_sub(text.chars().count()) + 2
                };
                line.push_str(&self.paint(*tone, text));
                line.extend(std::iter::repeat_n(' ', width));
            }
            self.line(line.trim_end())?;
        }
        Ok(())
    }
}

/// Rows of cells, each with its tone.
#[derive(Debug)]
pub(crate) struct Table {
    heading: Vec<&'static str>,
    rows: Vec<Vec<(Tone, String)>>,
}

impl Table {
    pub(crate) fn new(heading: &[&'static str]) -> Self {
        Self {
            heading: heading.to_vec(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row<const N: usize>(&mut self, cells: [(Tone, String); N]) {
        self.rows.push(
            cells
                .into_iter()
                .map(|(tone, text)| (tone, printable(&text)))
                .collect(),
        );
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// `text` without what would move a terminal's cursor: drivers and containers write some of it.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

/// The longest text in a table, in characters.
const BRIEF: usize = 120;

/// The first line of a text, cut for a table; the whole is in `--json`.
pub(crate) fn brief(text: &str) -> String {
    let text = text.trim();
    let line = text.lines().next().unwrap_or_default();
    let cut: String = line.chars().take(BRIEF).collect();
    if cut.len() < text.len() {
        format!("{}..", cut.trim_end())
    } else {
        cut
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_for_tables_and_short_ones_are_whole() {
        let long = "\u{e9}".repeat(BRIEF + 1);
        for (text, shown) in [
            ("", String::new()),
            (" short ", "short".to_owned()),
            ("one\ntwo", "one..".to_owned()),
            (&long, format!("{}..", "\u{e9}".repeat(BRIEF))),
        ] {
            assert_eq!(brief(text), shown);
        }
    }

    #[test]
    fn control_characters_do_not_reach_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\n"), "a\u{fffd}[2Jb\u{fffd}");
    }
}
