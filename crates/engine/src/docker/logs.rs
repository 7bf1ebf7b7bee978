//! The output of a container: `[source, 0, 0, 0, length (4, big endian)] payload`, or raw from a terminal.

use bytes::{Buf as _, Bytes, BytesMut};

use super::body::Body;
use super::http::Call;
use crate::EngineError;
use crate::log::{LogFrame, LogSource, MAX_FRAME};

const HEAD: usize = 8;

/// Output as it comes from the engine.
#[derive(Debug)]
pub(crate) struct DockerLogs {
    call: Call,
    /// None after its end.
    body: Option<Body>,
    demux: Demux,
}

impl DockerLogs {
    pub(super) fn new(call: Call, body: Body, raw: bool) -> Self {
        Self {
            call,
            body: Some(body),
            demux: Demux::new(raw),
        }
    }

    /// The next piece. Nothing is taken out of the connection that is not kept here, so it may be
    /// dropped.
    pub(crate) async fn next(&mut self) -> Option<Result<LogFrame, EngineError>> {
        loop {
            match self.demux.next() {
                Ok(Some(frame)) => return Some(Ok(frame)),
                Ok(None) => {}
                Err(reason) => {
                    self.body = None;
                    self.demux = Demux::new(true);
                    return Some(Err(self.call.undecodable(reason)));
                }
            }
            let body = self.body.as_mut()?;
            let broken = match body.chunk().await {
                Some(Ok(data)) => {
                    self.demux.push(data);
                    continue;
                }
                Some(Err(error)) => Some(error),
                None if self.demux.is_between() => {
                    self.body = None;
                    // A terminal's last bytes.
                    continue;
                }
                None => None,
            };
            self.body = None;
            self.demux = Demux::new(true);
            return Some(Err(self.call.gone(broken)));
        }
    }
}

/// Takes frames out of a stream that comes in any pieces. A frame is given whole, but for one that is longer
/// than [`MAX_FRAME`], which is given in pieces of that length.
#[derive(Debug)]
pub(crate) struct Demux {
    raw: bool,
    input: BytesMut,
    /// Of the frame being read: its source, what is left of it, whether it has begun to be given.
    current: Option<(LogSource, usize, bool)>,
    begun: bool,
}

impl Demux {
    pub(crate) fn new(raw: bool) -> Self {
        Self {
            raw,
            input: BytesMut::new(),
            current: None,
            begun: false,
        }
    }

    pub(crate) fn push(&mut self, data: Bytes) {
        if self.input.is_empty() {
            // Without a copy when nobody else holds it.
            self.input = BytesMut::from(data);
        } else {
            self.input.extend_from_slice(&data);
        }
    }

    /// True when the input ended at the end of a frame.
    pub(crate) fn is_between(&self) -> bool {
        self.raw || (self.current.is_none() && self.input.is_empty())
    }

    /// The next piece, if the input holds one.
    pub(crate) fn next(&mut self) -> Result<Option<LogFrame>, String> {
        if self.raw {
            return Ok(self.next_raw());
        }
        loop {
            let (source, left, begun) = match self.current {
                Some(current) => current,
                None => match self.head()? {
                    Some((source, length)) => (source, length, false),
                    None => return Ok(None),
                },
            };
            if left == 0 {
                self.current = None;
                continue;
            }
            let piece = left.min(MAX_FRAME);
            if self.input.len() < piece {
                self.current = Some((source, left, begun));
                return Ok(None);
            }
            self.current = (left > piece).then_some((source, left - piece, true));
            return Ok(Some(LogFrame {
                source,
                data: self.input.split_to(piece).freeze(),
                continues: begun,
            }));
        }
    }

    fn next_raw(&mut self) -> Option<LogFrame> {
        if self.input.is_empty() {
            return None;
        }
        let piece = self.input.len().min(MAX_FRAME);
        Some(LogFrame {
            source: LogSource::Stdout,
            data: self.input.split_to(piece).freeze(),
            continues: std::mem::replace(&mut self.begun, true),
        })
    }

    fn head(&mut self) -> Result<Option<(LogSource, usize)>, String> {
        if self.input.len() < HEAD {
            return Ok(None);
        }
        let source = match (self.input[0], &self.input[1..4]) {
            // 0 is standard input, which engines use for standard output's sake.
            (0 | 1, [0, 0, 0]) => LogSource::Stdout,
            (2, [0, 0, 0]) => LogSource::Stderr,
            (3, [0, 0, 0]) => return self.system_error(),
            _ => {
                return Err(
                    "a frame that is of no stream; has the container a terminal?".to_owned(),
                );
            }
        };
        self.input.advance(4);
        let length = self.input.get_u32();
        Ok(Some((
            source,
            usize::try_from(length).unwrap_or(usize::MAX),
        )))
    }

    /// A frame in which the engine says why there is no more.
    fn system_error(&mut self) -> Result<Option<(LogSource, usize)>, String> {
        const LONGEST: usize = 4096;
        let length =
            u32::from_be_bytes([self.input[4], self.input[5], self.input[6], self.input[7]]);
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(LONGEST);
        if self.input.len() < HEAD + length {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&self.input[HEAD..HEAD + length]);
        Err(format!("the engine says: {}", text.trim()))
    }
}

#[cfg(test)]
mod tests;
