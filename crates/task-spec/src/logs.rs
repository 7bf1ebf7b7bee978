//! A container's output from the engine's log into the files of its sandbox: complete, separate, rotated, and resumed
//! without loss or doubling.
//!
//! ```text
//!   engine's log ── frames with times ──► LogCapture ──► stdout, stderr (+ .1, .2, ..)
//!                                            │ position(): after a rotation, and now and then
//!                                            ▼
//!                                    the task's record ──► LogCapture::resume: files cut back to the position,
//!                                                          the engine asked from a little before it, what is older
//!                                                          passed over
//! ```
//!
//! A position that is lost, or older than the files, therefore costs some reading and nothing else: what the files have
//! beyond it is taken back and read again. What the engine has thrown away before it was read is reported as a [`Gap`].

mod position;
mod terminal;

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use longshore_engine::{EngineTime, LogFrame, LogOptions, LogSource, MAX_FRAME};
use longshore_sandbox::{LogFile, Mark, Rotation};

pub use position::{LogPosition, StreamPosition};

use self::position::{Admit, Reader};
use self::terminal::Terminal;

/// How many bytes may be written until the position is worth recording.
const UNRECORDED_MAX: u64 = 4 << 20;
/// How much is gathered of one stream before it is written, at most: a message alone is not worth a system call.
const GATHERED_MAX: usize = 64 << 10;
/// How much earlier than the last message the engine is asked from: its two streams are ordered each in itself, and
/// not quite between each other.
const OVERLAP: Duration = Duration::from_secs(2);
/// The same where the engine has just given all that it had, in the order in which it keeps it.
const SHORT_OVERLAP: Duration = Duration::from_millis(500);

/// Output that the engine threw away before it was read. How much it was is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gap {
    /// The last message that was read.
    pub after: EngineTime,
    /// The first one that is there still; `None` when there is none.
    pub before: Option<EngineTime>,
}

/// Writes the output of one container.
#[derive(Debug)]
pub struct LogCapture {
    stdout: LogFile,
    stderr: LogFile,
    reader: Reader,
    /// What was taken of standard output and standard error, and is not in their files yet.
    gathered: [Vec<u8>; 2],
    unrecorded: u64,
    taken: u64,
    rotated: bool,
    /// Where the message began that is under way, when it may have more pieces.
    before_message: Option<LogPosition>,
    /// Takes the raw output of a terminal apart.
    terminal: Option<Terminal>,
}

/// Without its file there is nothing to take back: its owner has deleted it.
fn rewind(file: &mut LogFile, position: &StreamPosition) -> io::Result<()> {
    if let Some((inode, bytes)) = position.file {
        file.rewind(Mark { inode, bytes })?;
    }
    Ok(())
}

impl LogCapture {
    /// Opens `stdout` and `stderr` in the sandbox. With a position it goes on where that was recorded.
    ///
    /// # Errors
    /// What opening or cutting back the files says.
    pub fn open(
        sandbox: &OwnedFd,
        owner: Option<(u32, u32)>,
        rotation: Rotation,
        position: &LogPosition,
    ) -> io::Result<Self> {
        let stream = |name, position: &StreamPosition| -> io::Result<LogFile> {
            let mut file = LogFile::open(sandbox.try_clone()?, name, owner, rotation)?;
            rewind(&mut file, position)?;
            Ok(file)
        };
        Ok(Self {
            stdout: stream("stdout", &position.stdout)?,
            stderr: stream("stderr", &position.stderr)?,
            reader: Reader::new(position),
            gathered: [const { Vec::new() }; 2],
            unrecorded: 0,
            taken: 0,
            rotated: false,
            before_message: None,
            terminal: None,
        })
    }

    /// The container has a terminal: its output is one stream, in `stdout`.
    #[must_use]
    pub fn of_terminal(mut self) -> Self {
        self.terminal = Some(Terminal::default());
        self
    }

    /// What the engine is to be asked for, now and each time its stream has broken off.
    #[must_use]
    pub fn options(&self) -> LogOptions {
        LogOptions {
            since: self.reader.last().map(|last| last.before(OVERLAP)),
            timestamps: true,
            ..LogOptions::follow()
        }
    }

    /// The same for all that there is at the moment, after what was read in this way just before.
    #[must_use]
    pub fn catch_up_options(&self) -> LogOptions {
        LogOptions {
            since: self.reader.last().map(|last| last.before(SHORT_OVERLAP)),
            follow: false,
            ..self.options()
        }
    }

    /// How old the last message is, by this machine's clock.
    #[must_use]
    pub fn lag(&self) -> Duration {
        let last = self.reader.last().map_or(i64::MAX, EngineTime::as_nanos);
        let nanos = EngineTime::now().as_nanos().saturating_sub(last);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
    }

    /// To be called whenever a stream of the engine begins anew. A message that was cut off in between is taken back.
    ///
    /// # Errors
    /// What cutting back the files says.
    pub fn reopened(&mut self) -> io::Result<()> {
        self.flush();
        if let Some(position) = self.before_message.take() {
            rewind(&mut self.stdout, &position.stdout)?;
            rewind(&mut self.stderr, &position.stderr)?;
            self.reader = Reader::new(&position);
        }
        if let Some(terminal) = &mut self.terminal {
            terminal.reopen();
        }
        self.reader.reopen();
        Ok(())
    }

    /// Takes one piece of output and writes it; tells a gap before it, once.
    ///
    /// Never fails: what does not fit on the disk is noted in the file once there is room.
    pub fn take(&mut self, frame: &LogFrame) -> Option<Gap> {
        let gap = self.gather(frame);
        self.flush();
        gap
    }

    /// The same for whoever has more pieces at once: it is written by the next [`flush`](Self::flush), or when there is
    /// enough of it. What was gathered and never written is read again by whoever goes on from the last position.
    pub fn gather(&mut self, frame: &LogFrame) -> Option<Gap> {
        match &mut self.terminal {
            None => self.take_message(frame),
            Some(terminal) => {
                let messages = terminal.split(&frame.data);
                // There is one gap at most since the stream was opened.
                messages
                    .iter()
                    .fold(None, |gap, message| gap.or(self.take_message(message)))
            }
        }
    }

    /// How many bytes were taken since it was opened, without those that were read before.
    #[must_use]
    pub const fn taken(&self) -> u64 {
        self.taken
    }

    /// Whether something was gathered that is not written.
    #[must_use]
    pub fn has_gathered(&self) -> bool {
        self.gathered.iter().any(|bytes| !bytes.is_empty())
    }

    /// Writes what was gathered.
    pub fn flush(&mut self) {
        for (file, bytes) in [&mut self.stdout, &mut self.stderr]
            .into_iter()
            .zip(&mut self.gathered)
        {
            if !bytes.is_empty() {
                let begun = file.begun();
                // Its room is given back: most tasks print little.
                file.append(&std::mem::take(bytes));
                self.rotated |= file.begun() != begun;
            }
        }
    }

    fn take_message(&mut self, frame: &LogFrame) -> Option<Gap> {
        // A shorter one is the last of its message.
        let more = frame.data.len() >= MAX_FRAME;
        if more && !frame.continues {
            self.flush();
            self.before_message = Some(self.here());
        }
        let gap = self.write(frame);
        if !more {
            self.before_message = None;
        }
        gap
    }

    fn write(&mut self, frame: &LogFrame) -> Option<Gap> {
        let (admit, data) = self.reader.admit(frame);
        let gap = match admit {
            Admit::Skip => return None,
            Admit::Write => None,
            Admit::WriteAfterGap(gap) => Some(gap),
        };
        let gathered = match frame.source {
            LogSource::Stdout => &mut self.gathered[0],
            LogSource::Stderr => &mut self.gathered[1],
        };
        gathered.extend_from_slice(&data);
        if gathered.len() >= GATHERED_MAX {
            self.flush();
        }
        let length = u64::try_from(data.len()).unwrap_or(u64::MAX);
        self.unrecorded = self.unrecorded.saturating_add(length);
        self.taken = self.taken.saturating_add(length);
        gap
    }

    /// The stream has ended in order: tells a gap up to its end.
    pub fn ended(&mut self) -> Option<Gap> {
        let rest = self.terminal.as_mut().and_then(Terminal::end);
        let gap = rest.and_then(|rest| self.take_message(&rest));
        self.flush();
        gap.or_else(|| self.reader.end())
    }

    /// Whether the position is worth recording now: a file was begun, or much was written.
    #[must_use]
    pub const fn is_due(&self) -> bool {
        (self.rotated || self.unrecorded >= UNRECORDED_MAX) && self.before_message.is_none()
    }

    /// Where a later [`open`](Self::open) can go on: to be recorded.
    pub fn position(&mut self) -> LogPosition {
        self.flush();
        (self.rotated, self.unrecorded) = (false, 0);
        self.before_message.unwrap_or_else(|| self.here())
    }

    fn here(&self) -> LogPosition {
        let [stdout, stderr] = self.reader.streams();
        LogPosition {
            stdout: StreamPosition::of(stdout, self.stdout.mark()),
            stderr: StreamPosition::of(stderr, self.stderr.mark()),
        }
    }
}

#[cfg(test)]
mod tests;
