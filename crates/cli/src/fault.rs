//! How a command ends: the exit codes, and the one place that prints an error.

use std::error::Error;
use std::fmt;
use std::io::{ErrorKind, Write as _};
use std::process::ExitCode;

use longshore_supervisor::{ConfigError, ConfigErrors};

/// The exit codes of every verb.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    Success,
    Failure,
    Usage,
    /// Something is not ready.
    NotReady,
    /// No daemon answers.
    NoDaemon,
    /// The configuration is not usable (EX_CONFIG).
    Config,
    /// That of a task.
    Code(u8),
}

impl Exit {
    /// Of `task run`, where it fails itself: docker's.
    pub(crate) const OF_DOCKER: Self = Self::Code(125);
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Success => 0,
            Exit::Failure => 1,
            Exit::Usage => 2,
            Exit::NotReady => 3,
            Exit::NoDaemon => 4,
            Exit::Config => 78,
            Exit::Code(code) => code,
        })
    }
}

/// A failure with its own exit code, or with a hint.
#[derive(Debug)]
pub(crate) struct Fault {
    exit: Exit,
    message: String,
    hint: Option<String>,
    /// Further failures of the same kind, a line each.
    others: Vec<String>,
}

impl Fault {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self {
            exit,
            message: message.into(),
            hint: None,
            others: Vec::new(),
        }
    }

    /// Several at once; there is at least one.
    pub(crate) fn all(exit: Exit, messages: Vec<String>) -> Self {
        let mut messages = messages.into_iter();
        let first = messages.next().unwrap_or_default();
        Self {
            others: messages.collect(),
            ..Self::new(exit, first)
        }
    }

    /// The same, with the exit code that `change` makes of its own.
    pub(crate) fn ending(mut self, change: impl FnOnce(Exit) -> Exit) -> Self {
        self.exit = change(self.exit);
        self
    }

    /// How the command ends by it.
    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    /// What to do, printed behind the message.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Fault {}

/// Prints `error` with its hint as one line (a line each where there are several), and says how to end.
pub(crate) fn report(error: &anyhow::Error) -> Exit {
    // Our own output's error comes bare; one of a connection has a context.
    let first = error
        .chain()
        .next()
        .and_then(|error| error.downcast_ref::<std::io::Error>());
    if first.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe) {
        // The reader has seen enough.
        return Exit::Success;
    }
    let mut line = format!("error: {}", chain(error));
    let mut exit = Exit::Failure;
    for cause in error.chain() {
        if let Some(fault) = cause.downcast_ref::<Fault>() {
            exit = fault.exit;
            if let Some(hint) = &fault.hint {
                line.push_str("; hint: ");
                line.push_str(hint);
            }
            for other in &fault.others {
                line.push_str("\nerror: ");
                line.push_str(&other.replace('\n', "; "));
            }
            break;
        }
        if cause.is::<ConfigErrors>() || cause.is::<ConfigError>() {
            exit = Exit::Config;
            break;
        }
    }
    // Nobody is left to tell when stderr is closed.
    let _closed = writeln!(std::io::stderr(), "{line}");
    exit
}

/// The causes on one line; one that its effect already quotes is left out.
pub(crate) fn chain(error: &anyhow::Error) -> String {
    let mut line = String::new();
    for cause in error.chain() {
        let text = cause.to_string();
        if line.is_empty() {
            line = text;
        } else if !line.contains(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
    }
    line.replace('\n', "; ")
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_cause_that_is_quoted_already_is_not_repeated() {
        let error = anyhow!("no such file")
            .context("cannot read x: no such file")
            .context("top");
        assert_eq!(chain(&error), "top: cannot read x: no such file");
    }
}
