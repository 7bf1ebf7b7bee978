//! Output on its way from chunks to lines.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::output::JSON_VERSION;

/// The longest line that is held back until it ends, in bytes; a longer one is cut.
pub(crate) const LINE_MAX: usize = 64 * 1024;

/// Of each stream what has no end yet.
#[derive(Debug)]
pub(crate) struct Lines<K>(BTreeMap<K, Vec<u8>>);

impl<K> Default for Lines<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Clone + Ord> Lines<K> {
    /// The lines that end with this chunk, each with its stream.
    pub(crate) fn take(&mut self, stream: K, data: &[u8]) -> Vec<(K, Vec<u8>)> {
        let begun = self.0.entry(stream.clone()).or_default();
        let mut lines = Vec::new();
        for byte in data {
            if *byte != b'\n' {
                begun.push(*byte);
            }
            if *byte == b'\n' || begun.len() == LINE_MAX {
                lines.push((stream.clone(), std::mem::take(begun)));
            }
        }
        lines
    }

    /// What has not ended when the output has.
    pub(crate) fn rest(&mut self) -> Vec<(K, Vec<u8>)> {
        let rest = std::mem::take(&mut self.0);
        rest.into_iter()
            .filter(|(_, begun)| !begun.is_empty())
            .collect()
    }
}

/// The same of containers and their streams, as the documents that `--json` prints.
#[derive(Debug, Default)]
pub(crate) struct ContainerLines(Lines<(String, String)>);

impl ContainerLines {
    /// The lines that end with this piece.
    pub(crate) fn take(&mut self, container: &str, stream: &str, data: &[u8]) -> Vec<Value> {
        let of = (container.to_owned(), stream.to_owned());
        documents(self.0.take(of, data))
    }

    /// What has not ended when the output has.
    pub(crate) fn rest(&mut self) -> Vec<Value> {
        documents(self.0.rest())
    }
}

fn documents(lines: Vec<((String, String), Vec<u8>)>) -> Vec<Value> {
    let document = |((container, stream), line): ((String, String), Vec<u8>)| {
        json!({
            "version": JSON_VERSION,
            "container": container,
            "stream": stream,
            "line": String::from_utf8_lossy(&line),
        })
    };
    lines.into_iter().map(document).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_become_the_lines_of_each_stream() {
        let mut lines = Lines::default();
        let pair = |stream: &'static str, line: &[u8]| (stream, line.to_vec());
        assert_eq!(lines.take("stdout", b"one\ntw"), [pair("stdout", b"one")]);
        assert_eq!(
            lines.take("stderr", b"bad\xff\n"),
            [pair("stderr", b"bad\xff")]
        );
        assert_eq!(
            lines.take("stdout", b"o\n\nend"),
            [pair("stdout", b"two"), pair("stdout", b"")]
        );
        assert_eq!(lines.rest(), [pair("stdout", b"end")]);
        assert!(lines.rest().is_empty());
    }

    #[test]
    fn a_line_without_an_end_is_cut() {
        let mut lines = Lines::default();
        let long = vec![b'x'; LINE_MAX + 1];
        assert_eq!(lines.take("stdout", &long).len(), 1);
        assert_eq!(lines.rest(), [("stdout", b"x".to_vec())]);
    }

    #[test]
    fn a_line_of_a_container_is_a_document() {
        let mut lines = ContainerLines::default();
        let taken = lines.take("c", "stderr", b"bad\xff\nrest");
        let expected = |line: &str| json!({"version": JSON_VERSION, "container": "c", "stream": "stderr", "line": line});
        assert_eq!(taken, [expected("bad\u{fffd}")]);
        assert_eq!(lines.rest(), [expected("rest")]);
    }
}
