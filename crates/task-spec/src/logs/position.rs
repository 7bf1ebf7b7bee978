//! Which messages have been read: the pure part.

use bytes::Bytes;
use longshore_engine::{EngineTime, LogFrame, LogSource};
use longshore_sandbox::Mark;
use serde::{Deserialize, Serialize};

use super::Gap;

/// Where reading can go on, for a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogPosition {
    /// Of standard output.
    pub stdout: StreamPosition,
    /// Of standard error.
    pub stderr: StreamPosition,
}

/// The same of one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StreamPosition {
    /// The time of its last message, in nanoseconds since 1970.
    pub last_nanos: Option<i64>,
    /// How many messages of that very time were read.
    pub count: u64,
    /// The inode of the file, and its length then.
    pub file: Option<(u64, u64)>,
}

impl StreamPosition {
    pub(super) fn of(read: Read, mark: Option<Mark>) -> Self {
        Self {
            last_nanos: read.last.map(EngineTime::as_nanos),
            count: read.count,
            file: mark.map(|mark| (mark.inode, mark.bytes)),
        }
    }

    fn read(&self) -> Read {
        Read {
            last: self.last_nanos.map(EngineTime::from_nanos),
            count: self.count,
        }
    }
}

/// What was read of one stream: all before `last`, and `count` messages of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Read {
    last: Option<EngineTime>,
    count: u64,
}

/// What becomes of a piece.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Admit {
    /// It was read before.
    Skip,
    Write,
    WriteAfterGap(Gap),
}

#[derive(Debug)]
pub(super) struct Reader {
    streams: [One; 2],
    /// The last message of all was not seen again since the stream was opened.
    expecting: Option<EngineTime>,
}

#[derive(Debug, Default)]
struct One {
    read: Read,
    /// Messages with the time of `read.last` that this stream of the engine has shown.
    seen: u64,
    /// Whether the message that is under way is written.
    writing: bool,
}

impl Reader {
    pub(super) fn new(position: &super::LogPosition) -> Self {
        let one = |position: &StreamPosition| One {
            read: position.read(),
            ..One::default()
        };
        let mut reader = Self {
            streams: [one(&position.stdout), one(&position.stderr)],
            expecting: None,
        };
        reader.reopen();
        reader
    }

    pub(super) fn streams(&self) -> [Read; 2] {
        [self.streams[0].read, self.streams[1].read]
    }

    /// The time of the last message of either stream.
    pub(super) fn last(&self) -> Option<EngineTime> {
        self.streams.iter().filter_map(|one| one.read.last).max()
    }

    pub(super) fn reopen(&mut self) {
        for one in &mut self.streams {
            (one.seen, one.writing) = (0, false);
        }
        self.expecting = self.last();
    }

    /// What becomes of a piece, and its text without the time.
    pub(super) fn admit(&mut self, frame: &LogFrame) -> (Admit, Bytes) {
        let one = match frame.source {
            LogSource::Stdout => &mut self.streams[0],
            LogSource::Stderr => &mut self.streams[1],
        };
        if frame.continues {
            let admit = if one.writing {
                Admit::Write
            } else {
                Admit::Skip
            };
            return (admit, frame.data.clone());
        }
        let Some((time, data)) = frame.split_time() else {
            // An engine that gives no times cannot be resumed; what it says is kept.
            one.writing = true;
            return (Admit::Write, frame.data.clone());
        };
        one.writing = match one.read.last {
            Some(last) if time < last => false,
            Some(last) if time == last => {
                one.seen += 1;
                let new = one.seen > one.read.count;
                one.read.count = one.read.count.max(one.seen);
                new
            }
            _ => {
                one.read = Read {
                    last: Some(time),
                    count: 1,
                };
                one.seen = 1;
                true
            }
        };
        let writing = one.writing;
        match self.expecting {
            // The last message is there still, or one before it: nothing between was thrown away.
            Some(expected) if time <= expected => {
                self.expecting = None;
            }
            Some(expected) => {
                self.expecting = None;
                let gap = Gap {
                    after: expected,
                    before: Some(time),
                };
                return (Admit::WriteAfterGap(gap), data);
            }
            None => {}
        }
        (if writing { Admit::Write } else { Admit::Skip }, data)
    }

    /// Nothing came, though the last message should have been there.
    pub(super) fn end(&mut self) -> Option<Gap> {
        let after = self.expecting.take()?;
        Some(Gap {
            after,
            before: None,
        })
    }
}
