use bytes::Bytes;

use crate::EngineError;
use crate::docker::logs::DockerLogs;
use crate::time::EngineTime;

/// Which of a container's output to read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogOptions {
    /// `stdout`.
    pub stdout: bool,
    /// `stderr`.
    pub stderr: bool,
    /// `follow`: go on until the container exits; otherwise what is there.
    ///
    /// The end of it is not always the end of the output: Docker 20.10 leaves out what a reader that is behind
    /// had not read yet when the container exited. Whoever needs all follows with
    /// [`Self::timestamps`], and once it has exited reads again without `follow` from a second before the last time on.
    /// Podman 5 leaves out messages in the middle: from it, only what is read without `follow` is all.
    pub follow: bool,
    /// `since`: from this moment on. Docker includes it, Podman does not and takes it less exactly: ask from a little
    /// earlier and pass over what is known.
    pub since: Option<EngineTime>,
    /// `tail`: only so many of the last lines.
    pub tail: Option<u64>,
    /// `timestamps`: each message begins with its time, see [`LogFrame::split_time`].
    pub timestamps: bool,
}

impl Default for LogOptions {
    /// Both streams, all that is there.
    fn default() -> Self {
        Self {
            stdout: true,
            stderr: true,
            follow: false,
            since: None,
            tail: None,
            timestamps: false,
        }
    }
}

impl LogOptions {
    /// Both streams, from the beginning until the container exits.
    #[must_use]
    pub fn follow() -> Self {
        Self {
            follow: true,
            ..Self::default()
        }
    }
}

/// Which stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LogSource {
    /// Standard output; of a container with a terminal, all.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A piece of output: at most [`MAX_FRAME`] bytes, never empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFrame {
    /// Where it was written.
    pub source: LogSource,
    /// What was written.
    pub data: Bytes,
    /// True when this goes on with the message of the frame before, which was longer than a
    /// frame may be. A terminal's output has no messages: every piece but the first continues.
    pub continues: bool,
}

/// Longest [`LogFrame::data`], in bytes. An engine's messages are 16 KiB at most, plus a time.
pub const MAX_FRAME: usize = 64 << 10;

impl LogFrame {
    /// Takes the time off a message that was asked for with [`LogOptions::timestamps`].
    #[must_use]
    pub fn split_time(&self) -> Option<(EngineTime, Bytes)> {
        let space = self.data.iter().take(40).position(|byte| *byte == b' ')?;
        let time = std::str::from_utf8(&self.data[..space]).ok()?;
        Some((EngineTime::parse(time)?, self.data.slice(space + 1..)))
    }
}

/// Output, without a deadline; dropping it closes the connection.
#[derive(Debug)]
pub struct LogStream {
    source: Source,
}

#[derive(Debug)]
enum Source {
    Docker(Box<DockerLogs>),
    #[cfg(feature = "fake")]
    Fake(tokio::sync::mpsc::Receiver<Result<LogFrame, EngineError>>),
}

impl LogStream {
    pub(crate) fn docker(logs: DockerLogs) -> Self {
        Self {
            source: Source::Docker(Box::new(logs)),
        }
    }

    #[cfg(feature = "fake")]
    pub(crate) fn fake(frames: tokio::sync::mpsc::Receiver<Result<LogFrame, EngineError>>) -> Self {
        Self {
            source: Source::Fake(frames),
        }
    }

    /// The next piece; `None` at the end. May be dropped and called again: nothing is lost.
    ///
    /// # Errors
    /// [`EngineError::Gone`] when the stream broke off (what was read before is whole), [`EngineError::Decode`] when it
    /// is not what an engine sends. After an error there is nothing more.
    pub async fn next(&mut self) -> Option<Result<LogFrame, EngineError>> {
        match &mut self.source {
            Source::Docker(logs) => logs.next().await,
            #[cfg(feature = "fake")]
            Source::Fake(frames) => frames.recv().await,
        }
    }
}
