use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::{EngineError, EngineFuture};

/// What to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitUntil {
    /// `next-exit`: its next exit, whether it runs now or not. Open it before the start.
    NextExit,
    /// `not-running`: at once when it does not run (also before its first start, with code 0).
    NotRunning,
    /// `removed`: it is gone.
    Removed,
}

impl WaitUntil {
    /// The engine's word for it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NextExit => "next-exit",
            Self::NotRunning => "not-running",
            Self::Removed => "removed",
        }
    }
}

/// How a container ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exit {
    /// `StatusCode`: what the process gave to exit(2), or 128 and the number of the signal that
    /// ended it. An engine that lost the exit invents 255 or 0: look at the container as well.
    pub code: i64,
    /// `Error.Message`: what went wrong in waiting or removing.
    pub error: Option<String>,
}

/// A subscription to an exit: a future that may be polled again until it is ready.
///
/// Its failure says nothing about the container: the engine went away
/// ([`EngineError::is_engine_absent`]), or does not know the container any more.
pub struct ExitWait {
    future: EngineFuture<'static, Exit>,
}

impl ExitWait {
    /// From a future that ends with the exit.
    #[must_use]
    pub fn new(future: EngineFuture<'static, Exit>) -> Self {
        Self { future }
    }
}

impl Future for ExitWait {
    type Output = Result<Exit, EngineError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.future.as_mut().poll(context)
    }
}

impl fmt::Debug for ExitWait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ExitWait").finish_non_exhaustive()
    }
}
