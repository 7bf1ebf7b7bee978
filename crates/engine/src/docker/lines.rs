use bytes::{Buf as _, BytesMut};

use super::body::Body;

/// Longest message that is read; a longer one is passed over.
const MAX_LINE: usize = 256 << 10;

/// A stream of JSON messages, one a line.
#[derive(Debug)]
pub(super) struct Lines {
    body: Body,
    input: LineBuffer,
}

impl Lines {
    pub(super) fn new(body: Body) -> Self {
        Self {
            body,
            input: LineBuffer::default(),
        }
    }

    /// The next line that is not empty; `None` at the end, where a line without an end is cut off. May be
    /// dropped and called again.
    pub(super) async fn next(&mut self) -> Option<Result<BytesMut, hyper::Error>> {
        loop {
            if let Some(line) = self.input.next() {
                return Some(Ok(line));
            }
            match self.body.chunk().await? {
                Ok(data) => self.input.push(&data),
                Err(error) => return Some(Err(error)),
            }
        }
    }
}

/// Takes lines out of a stream that comes in any pieces.
#[derive(Debug, Default)]
struct LineBuffer {
    input: BytesMut,
    /// No end of a line is before this.
    searched: usize,
    /// The line being read is too long already.
    skipping: bool,
}

impl LineBuffer {
    fn push(&mut self, data: &[u8]) {
        self.input.extend_from_slice(data);
    }

    fn next(&mut self) -> Option<BytesMut> {
        loop {
            let found = self.input[self.searched..]
                .iter()
                .position(|byte| *byte == b'\n');
            let Some(at) = found.map(|at| at + self.searched) else {
                if self.input.len() > MAX_LINE {
                    tracing::warn!(limit = MAX_LINE, "a message of the engine is too long");
                    self.skipping = true;
                    self.input.clear();
                }
                self.searched = self.input.len();
                return None;
            };
            let line = self.input.split_to(at);
            self.input.advance(1);
            self.searched = 0;
            let skipped = std::mem::take(&mut self.skipping) || line.len() > MAX_LINE;
            if !skipped && !line.iter().all(u8::is_ascii_whitespace) {
                return Some(line);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(pieces: &[&[u8]]) -> Vec<Vec<u8>> {
        let mut buffer = LineBuffer::default();
        let mut lines = Vec::new();
        for piece in pieces {
            buffer.push(piece);
            while let Some(line) = buffer.next() {
                lines.push(line.to_vec());
            }
        }
        lines
    }

    #[test]
    fn lines_come_out_of_any_pieces() {
        let expected = [b"{1}".to_vec(), b"{2}\r".to_vec()];
        assert_eq!(all(&[b"{1}\n\r\n\n{2}\r\n{3"]), expected);
        let bytes: Vec<[u8; 1]> = b"{1}\n\n{2}\r\n{3".iter().map(|byte| [*byte]).collect();
        let pieces: Vec<&[u8]> = bytes.iter().map(|byte| &byte[..]).collect();
        assert_eq!(all(&pieces), expected);
    }

    #[test]
    fn a_line_that_is_too_long_is_passed_over_without_being_held() {
        let long = vec![b'x'; MAX_LINE + 1];
        assert_eq!(all(&[b"a\n", &long, &long, b"end\nb\n"]), [b"a", b"b"]);
        let mut whole = long.clone();
        whole.extend_from_slice(b"\nb\n");
        assert_eq!(all(&[&whole]), [b"b"]);
    }
}
