//! The form of a record: a header, then one line of JSON for everything that happened.

use std::io::{BufRead, Read as _};
use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::TraceError;

/// The version of the form that is written.
const VERSION: u32 = 1;

/// The longest line that is read, in bytes: a message of 4 MiB as JSON, and some.
pub const LINE_MAX: usize = 64 << 20;

/// The first line of a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Header {
    /// The version of the form; 1.
    pub longshore_nri_trace: u32,
    /// When the record begins, in milliseconds since 1970.
    pub began_ms: u64,
    /// Where plugins connected.
    pub listen: PathBuf,
    /// Where the runtime listened.
    pub connect: PathBuf,
}

/// Who did something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The plugin.
    Plugin,
    /// The runtime.
    Runtime,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Entry {
    /// Microseconds since the record began.
    pub at_us: u64,
    /// The number of the connection, from 1.
    pub connection: u64,
    /// Index and name of the plugin, once it has said them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plugin: Option<String>,
    /// Who did it.
    pub from: Side,
    /// What it was.
    pub event: Event,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    /// A plugin connected.
    Opened(Caller),
    /// A request.
    Request {
        /// Its number on the connection in this direction.
        id: u32,
        /// The method.
        method: String,
        /// How long it is waited for, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        timeout_ms: Option<u64>,
        /// Names and values that went along, such as trace headers.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        metadata: Vec<(String, String)>,
        /// What it says.
        message: Message,
    },
    /// The answer to a request of the other side.
    Response {
        /// The number of the request.
        id: u32,
        /// The method, where the request is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        method: Option<String>,
        /// Microseconds since the request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        took_us: Option<u64>,
        /// What it says.
        message: Message,
    },
    /// The answer is a failure.
    Failure {
        /// The number of the request.
        id: u32,
        /// The method, where the request is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        method: Option<String>,
        /// Microseconds since the request.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        took_us: Option<u64>,
        /// The status code; 12 is an unknown method.
        code: i32,
        /// What is said about it.
        text: String,
    },
    /// Something that NRI does not have, passed on all the same.
    Odd {
        /// What it is.
        text: String,
    },
    /// This side closed the connection, or it was closed to it.
    Closed {
        /// How.
        reason: String,
    },
}

/// The process behind a connection.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caller {
    /// Its pid, where it has one here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<i32>,
    /// Its user.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// What it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub executable: Option<PathBuf>,
}

/// A message of NRI.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// Its length on the wire, in bytes.
    pub bytes: usize,
    /// Its JSON form.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<Value>,
    /// Why it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

impl Header {
    /// Of a record that begins now.
    #[must_use]
    pub fn new(began_ms: u64, listen: PathBuf, connect: PathBuf) -> Self {
        Self {
            longshore_nri_trace: VERSION,
            began_ms,
            listen,
            connect,
        }
    }
}

/// A record that is read entry by entry.
#[derive(Debug)]
pub struct Record<R> {
    reader: R,
    line: u64,
    header: Header,
    cut: bool,
}

impl<R: BufRead> Record<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// [`TraceError`]: it cannot be read, is no record, or one of a later version.
    pub fn read(reader: R) -> Result<Self, TraceError> {
        let mut lines = Lines { reader, line: 0 };
        let first = match lines.next_line() {
            Ok(Some(first)) => first,
            Ok(None) | Err(TraceError::Length { .. }) => return Err(TraceError::NoRecord),
            Err(error) => return Err(error),
        };
        let header: Header = serde_json::from_slice(&first).map_err(|_| TraceError::NoRecord)?;
        if header.longshore_nri_trace > VERSION {
            return Err(TraceError::Version {
                version: header.longshore_nri_trace,
                known: VERSION,
            });
        }
        let Lines { reader, line } = lines;
        Ok(Self {
            reader,
            line,
            header,
            cut: false,
        })
    }

    /// Whether the last entry was cut short, and left out: known once all have been read.
    pub fn is_cut(&self) -> bool {
        self.cut
    }

    /// The first line.
    pub fn header(&self) -> &Header {
        &self.header
    }
}

impl<R: BufRead> Iterator for Record<R> {
    type Item = Result<Entry, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut lines = Lines {
            reader: &mut self.reader,
            line: self.line,
        };
        let next = lines.next_line();
        self.line = lines.line;
        let line = self.line;
        match next {
            Ok(None) => None,
            Ok(Some(bytes)) => match serde_json::from_slice(&bytes) {
                Ok(entry) => Some(Ok(entry)),
                // Whoever wrote it was ended while it did.
                Err(source) if source.is_eof() && bytes.last() != Some(&b'\n') => {
                    self.cut = true;
                    None
                }
                Err(source) => Some(Err(TraceError::Line { line, source })),
            },
            Err(error) => Some(Err(error)),
        }
    }
}

struct Lines<R> {
    reader: R,
    line: u64,
}

impl<R: BufRead> Lines<R> {
    /// The next line that is not empty; the last one may have no end.
    fn next_line(&mut self) -> Result<Option<Vec<u8>>, TraceError> {
        loop {
            self.line += 1;
            let line = self.line;
            let mut bytes = Vec::new();
            let limit = u64::try_from(LINE_MAX).unwrap_or(u64::MAX);
            let count = (&mut self.reader)
                .take(limit)
                .read_until(b'\n', &mut bytes)
                .map_err(|source| TraceError::Read { line, source })?;
            match bytes.last() {
                None => return Ok(None),
                Some(last) if *last != b'\n' && count >= LINE_MAX => {
                    return Err(TraceError::Length {
                        line,
                        max: LINE_MAX,
                    });
                }
                Some(_) if bytes.iter().all(u8::is_ascii_whitespace) => {}
                Some(_) => return Ok(Some(bytes)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text() -> String {
        let header = Header::new(7, "/a".into(), "/b".into());
        let entry = Entry {
            at_us: 5,
            connection: 1,
            plugin: Some("10-x".into()),
            from: Side::Runtime,
            event: Event::Request {
                id: 3,
                method: "CreateContainer".into(),
                timeout_ms: Some(2000),
                metadata: Vec::new(),
                message: Message {
                    bytes: 2,
                    json: Some(serde_json::json!({"container": {"id": "c"}})),
                    problem: None,
                },
            },
        };
        format!(
            "{}\n{}\n",
            serde_json::to_string(&header).unwrap(),
            serde_json::to_string(&entry).unwrap()
        )
    }

    #[test]
    fn the_form_stays_as_it_is() {
        assert_eq!(
            text(),
            concat!(
                r#"{"longshore_nri_trace":1,"began_ms":7,"listen":"/a","connect":"/b"}"#,
                "\n",
                r#"{"at_us":5,"connection":1,"plugin":"10-x","from":"runtime","event":{"request":{"id":3,"#,
                r#""method":"CreateContainer","timeout_ms":2000,"message":{"bytes":2,"json":{"container":"#,
                r#"{"id":"c"}}}}}}"#,
                "\n"
            )
        );
    }

    #[test]
    fn what_was_written_is_read_and_a_cut_end_is_the_end() {
        let whole = text();
        let (first, entry) = whole.split_once('\n').unwrap();
        let entry = entry.trim_end();
        for length in 0..=entry.len() {
            let text = format!("{whole}\n{}", &entry[..length]);
            let mut record = Record::read(text.as_bytes()).unwrap();
            assert_eq!(record.header().began_ms, 7);
            let entries: Vec<Entry> = record.by_ref().map(Result::unwrap).collect();
            // One that lacks the line feed alone is whole.
            let cut = length > 0 && length < entry.len();
            assert_eq!(record.is_cut(), cut, "{text}");
            assert_eq!(entries.len(), 1 + usize::from(length == entry.len()));
            assert_eq!(entries[0].plugin.as_deref(), Some("10-x"));
        }
        let mut record = Record::read(first.as_bytes()).unwrap();
        assert!(record.next().is_none() && !record.is_cut());
        // What is wrong in its middle is damaged, with or without an end.
        let damaged = format!("{whole}{{\"at_us\":x");
        let last = Record::read(damaged.as_bytes()).unwrap().last().unwrap();
        assert!(matches!(last, Err(TraceError::Line { line: 3, .. })));
    }

    #[test]
    fn what_is_no_record_or_damaged_says_where() {
        for text in ["", "\n", "hello\n", "{}\n"] {
            let error = Record::read(text.as_bytes()).unwrap_err();
            assert!(matches!(error, TraceError::NoRecord), "{text:?}: {error}");
        }
        let later = r#"{"longshore_nri_trace":2,"began_ms":7,"listen":"/a","connect":"/b"}"#;
        let error = Record::read(format!("{later}\n").as_bytes()).unwrap_err();
        assert!(matches!(error, TraceError::Version { version: 2, .. }));
        let damaged = text() + "{}\n";
        let last = Record::read(damaged.as_bytes()).unwrap().last().unwrap();
        assert!(matches!(last, Err(TraceError::Line { line: 3, .. })));
    }
}
