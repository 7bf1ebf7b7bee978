//! The signals that end a command in the foreground.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGINT and SIGTERM (and SIGHUP, where it ends the command), from the moment of creation.
#[derive(Debug)]
pub(crate) struct Interrupts {
    int: Signal,
    term: Signal,
    hup: Signal,
}

impl Interrupts {
    /// Takes the signals over; must be called within a runtime.
    ///
    /// # Errors
    /// The handler cannot be installed.
    pub(crate) fn new() -> std::io::Result<Self> {
        Ok(Self {
            int: signal(SignalKind::interrupt())?,
            term: signal(SignalKind::terminate())?,
            hup: signal(SignalKind::hangup())?,
        })
    }

    /// The name of the next of them. Cancel safe.
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.int.recv() => "SIGINT",
            _ = self.term.recv() => "SIGTERM",
            _ = self.hup.recv() => "SIGHUP",
        }
    }
}
