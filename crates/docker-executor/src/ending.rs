//! How a task can end, each with a word, a state and a reason of its own.

use std::fmt;

use longshore_mesos_api::v1::TaskState;
use longshore_mesos_api::v1::task_status::Reason;

/// Exit codes above this are a signal's number more.
const SIGNALS: i64 = 128;

/// How a task has ended. `Display` is the message of its last status.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// Its process exited by itself.
    Exited(i64),
    /// A signal ended it, by whomever it was sent.
    Signaled(i64),
    /// It ran out of memory.
    OutOfMemory(Option<i64>),
    /// It asks for something that cannot be.
    Invalid(String),
    /// It could not be put on record, so it was not launched.
    NotRecorded(String),
    /// No registry has its image, or none may be asked.
    ImageMissing(String),
    /// Its image could not be fetched.
    PullFailed(String),
    /// The engine did not make its container.
    NotCreated(String),
    /// A hook did not want its container.
    NotWanted(String),
    /// The engine did not start it.
    NotStarted {
        /// As docker exits: 125, or 126 (cannot be executed), 127 (not found).
        code: u8,
        /// Its words.
        problem: String,
    },
    /// It was killed, as was asked for.
    Killed {
        /// Before it ran.
        during_launch: bool,
        /// With what it exited, where that is known.
        code: Option<i64>,
    },
    /// It was killed because its health check failed.
    Unhealthy {
        /// What the check said last.
        problem: String,
        /// With what it exited, where that is known.
        code: Option<i64>,
    },
    /// It was killed because its time was over.
    OutOfTime(Option<i64>),
    /// It was killed because a plugin wanted it to end.
    Evicted {
        /// Which plugin, and why.
        reason: String,
        /// With what it exited, where that is known.
        code: Option<i64>,
    },
    /// Its first process has ended, and the engine cannot be asked with what.
    EngineGone,
    /// Its first process has ended, and the engine does not know it.
    ExitMissed,
    /// Somebody else sent it a signal, or the engine did on its own way down.
    StoppedByOther {
        /// The signal, where it was seen.
        signal: Option<i32>,
        /// With what it exited, where that is known.
        code: Option<i64>,
    },
    /// Somebody else removed its container.
    RemovedByOther(Option<i64>),
    /// Somebody else restarted it, and what ran then was taken down.
    RestartedByOther,
    /// The machine was restarted before it was known to run.
    Rebooted,
}

impl Ending {
    /// From an exit code: the process' own, or a signal.
    #[must_use]
    pub const fn of_code(code: i64) -> Self {
        if code > SIGNALS && code <= SIGNALS + 64 {
            Self::Signaled(code - SIGNALS)
        } else {
            Self::Exited(code)
        }
    }

    /// The state that it leaves the task in.
    #[must_use]
    pub const fn state(&self) -> TaskState {
        match self {
            Self::Exited(0) => TaskState::TaskFinished,
            Self::Killed { .. } | Self::Unhealthy { .. } => TaskState::TaskKilled,
            Self::Invalid(_) => TaskState::TaskError,
            _ => TaskState::TaskFailed,
        }
    }

    /// Mesos' reason, where it has one that fits.
    #[must_use]
    pub const fn reason(&self) -> Option<Reason> {
        match self {
            Self::OutOfMemory(_) => Some(Reason::ContainerLimitationMemory),
            Self::Invalid(_) => Some(Reason::TaskInvalid),
            Self::NotRecorded(_)
            | Self::ImageMissing(_)
            | Self::PullFailed(_)
            | Self::NotCreated(_)
            | Self::NotWanted(_)
            | Self::NotStarted { .. } => Some(Reason::ContainerLaunchFailed),
            Self::Killed {
                during_launch: true,
                ..
            } => Some(Reason::TaskKilledDuringLaunch),
            Self::Unhealthy { .. } => Some(Reason::TaskHealthCheckStatusUpdated),
            Self::OutOfTime(_) => Some(Reason::MaxCompletionTimeReached),
            Self::Evicted { .. } => Some(Reason::ContainerPreempted),
            _ => None,
        }
    }

    /// A word that tells each kind of ending from all others: the value of the status' label
    /// [`labels::ENDING`](crate::labels::ENDING).
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Exited(_) => "exited",
            Self::Signaled(_) => "signaled",
            Self::OutOfMemory(_) => "out-of-memory",
            Self::Invalid(_) => "invalid",
            Self::NotRecorded(_) => "not-recorded",
            Self::ImageMissing(_) => "image-missing",
            Self::PullFailed(_) => "pull-failed",
            Self::NotCreated(_) => "not-created",
            Self::NotWanted(_) => "not-wanted",
            Self::NotStarted { code: 127, .. } => "program-not-found",
            Self::NotStarted { code: 126, .. } => "program-not-executable",
            Self::NotStarted { .. } => "not-started",
            Self::Killed {
                during_launch: true,
                ..
            } => "killed-during-launch",
            Self::Killed { .. } => "killed",
            Self::Unhealthy { .. } => "killed-by-health-check",
            Self::OutOfTime(_) => "out-of-time",
            Self::Evicted { .. } => "evicted",
            Self::EngineGone => "engine-gone",
            Self::ExitMissed => "exit-missed",
            Self::StoppedByOther { .. } => "stopped-by-other",
            Self::RemovedByOther(_) => "removed-by-other",
            Self::RestartedByOther => "restarted-by-other",
            Self::Rebooted => "rebooted",
        }
    }

    /// What a command line that ran the task exits with, as docker's does: the task's own code, 128 and the signal's
    /// number, 125 to 127 when it never ran.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        let of = |code: i64| u8::try_from(code & 0xff).unwrap_or(u8::MAX);
        match self {
            Self::Exited(code) => of(*code),
            Self::Signaled(signal) => of(SIGNALS + signal),
            Self::NotStarted { code, .. } => *code,
            Self::OutOfMemory(code)
            | Self::Killed { code, .. }
            | Self::Unhealthy { code, .. }
            | Self::OutOfTime(code)
            | Self::Evicted { code, .. }
            | Self::StoppedByOther { code, .. }
            | Self::RemovedByOther(code) => code.map_or(137, of),
            _ => 125,
        }
    }
}

/// ` (exit code N)`, ` (exit code 137, signal 9)`, or that it is not known.
struct Code(Option<i64>);

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str(" (exit status unknown)"),
            Some(code) => match Ending::of_code(code) {
                Ending::Signaled(signal) => write!(f, " (ended by {})", name_of(signal)),
                _ => write!(f, " (exit code {code})"),
            },
        }
    }
}

/// `SIGTERM`, or `signal 34`.
pub(crate) fn name_of(signal: i64) -> String {
    i32::try_from(signal)
        .ok()
        .and_then(|number| nix::sys::signal::Signal::try_from(number).ok())
        .map_or_else(|| format!("signal {signal}"), |name| name.to_string())
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(0) => f.write_str("exited with 0"),
            Self::Exited(code) => write!(f, "the command exited with {code}"),
            Self::Signaled(signal) => write!(f, "the command was ended by {}", name_of(*signal)),
            Self::OutOfMemory(code) => {
                write!(f, "the container ran out of memory{}", Code(*code))
            }
            Self::Invalid(problem) => write!(f, "the task cannot be run: {problem}"),
            Self::NotRecorded(problem) => {
                write!(f, "the task could not be put on record: {problem}")
            }
            Self::ImageMissing(problem) => write!(f, "the image does not exist: {problem}"),
            Self::PullFailed(problem) => write!(f, "the image could not be pulled: {problem}"),
            Self::NotCreated(problem) => write!(f, "the container was not created: {problem}"),
            Self::NotWanted(problem) => write!(f, "the container was refused by a hook: {problem}"),
            Self::NotStarted { code: 127, problem } => {
                write!(f, "the program was not found (127): {problem}")
            }
            Self::NotStarted { code: 126, problem } => {
                write!(f, "the program cannot be executed (126): {problem}")
            }
            Self::NotStarted { code, problem } => {
                write!(f, "the container was not started ({code}): {problem}")
            }
            Self::Killed {
                during_launch: true,
                ..
            } => f.write_str("killed before it ran"),
            Self::Killed { code, .. } => write!(f, "killed{}", Code(*code)),
            Self::Unhealthy { problem, code } => {
                write!(f, "killed by its health check: {problem}{}", Code(*code))
            }
            Self::OutOfTime(code) => {
                write!(f, "its maximum completion time was over{}", Code(*code))
            }
            Self::Evicted { reason, code } => write!(f, "evicted by {reason}{}", Code(*code)),
            Self::EngineGone => f.write_str("daemon gone, exit status unknown"),
            Self::ExitMissed => f.write_str(
                "its process has ended and the engine did not notice, exit status unknown",
            ),
            Self::StoppedByOther { signal, code } => {
                let signal = signal.map_or_else(String::new, |signal| {
                    format!(" with {}", name_of(i64::from(signal)))
                });
                write!(
                    f,
                    "stopped{signal} by somebody else, or by the engine as it went down{}",
                    Code(*code)
                )
            }
            Self::RemovedByOther(code) => {
                write!(
                    f,
                    "its container was removed by somebody else{}",
                    Code(*code)
                )
            }
            Self::RestartedByOther => {
                f.write_str("its container was restarted by somebody else, and then taken down")
            }
            Self::Rebooted => {
                f.write_str("the machine was restarted before the task was known to run")
            }
        }
    }
}
