//! Output on its way to programs: a document a line.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::output::JSON_VERSION;

/// The longest line that is held back until it ends, in bytes; a longer one is cut.
const LINE_MAX: usize = 64 * 1024;

/// Output on its way from chunks to lines: of each container and stream what has no end yet.
#[derive(Debug, Default)]
pub(crate) struct Lines(BTreeMap<(String, String), Vec<u8>>);

impl Lines {
    /// The lines that end with this piece.
    pub(crate) fn take(&mut self, container: &str, stream: &str, data: &[u8]) -> Vec<Value> {
        let key = (container.to_owned(), stream.to_owned());
        let begun = self.0.entry(key.clone()).or_default();
        let mut lines = Vec::new();
        for byte in data {
            if *byte != b'\n' {
                begun.push(*byte);
            }
            if *byte == b'\n' || begun.len() == LINE_MAX {
                lines.push(document(&key, begun));
                begun.clear();
            }
        }
        lines
    }

    /// What has not ended when the output has.
    pub(crate) fn rest(&mut self) -> Vec<Value> {
        let rest = std::mem::take(&mut self.0);
        let begun = rest.iter().filter(|(_, begun)| !begun.is_empty());
        begun.map(|(key, begun)| document(key, begun)).collect()
    }
}

fn document((container, stream): &(String, String), line: &[u8]) -> Value {
    json!({
        "version": JSON_VERSION,
        "container": container,
        "stream": stream,
        "line": String::from_utf8_lossy(line),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_become_the_lines_of_each_stream() {
        let mut lines = Lines::default();
        let texts = |lines: Vec<Value>| -> Vec<(String, String)> {
            let text = |line: &Value, key: &str| line[key].as_str().unwrap().to_owned();
            let both = |line: &Value| (text(line, "stream"), text(line, "line"));
            lines.iter().map(both).collect()
        };
        let pair = |stream: &str, line: &str| (stream.to_owned(), line.to_owned());
        assert_eq!(
            texts(lines.take("c", "stdout", b"one\ntw")),
            [pair("stdout", "one")]
        );
        assert_eq!(
            texts(lines.take("c", "stderr", b"bad\xff\n")),
            [pair("stderr", "bad\u{fffd}")]
        );
        assert_eq!(
            texts(lines.take("c", "stdout", b"o\n\nend")),
            [pair("stdout", "two"), pair("stdout", "")]
        );
        assert_eq!(texts(lines.rest()), [pair("stdout", "end")]);
        assert_eq!(lines.rest(), Vec::<Value>::new());
    }

    #[test]
    fn a_line_without_an_end_is_cut() {
        let mut lines = Lines::default();
        let long = vec![b'x'; LINE_MAX + 1];
        assert_eq!(lines.take("c", "stdout", &long).len(), 1);
        assert_eq!(lines.rest()[0]["line"], "x");
    }
}
