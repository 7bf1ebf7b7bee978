//! A command runner for tests: answers as it was told, and records what it was asked. Feature `fake`.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::runner::Running;
use crate::{CommandExit, CommandFailure, CommandProbe, CommandRunner};

/// What comes of one command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scripted {
    /// This, at once.
    Now(Result<CommandExit, CommandFailure>),
    /// It runs until its limit, and is killed.
    Sleeps,
    /// The runner itself never answers.
    Hangs,
}

impl Scripted {
    /// It exits with this status.
    #[must_use]
    pub const fn exit(status: i32) -> Self {
        Self::Now(Ok(CommandExit::Exited(status)))
    }
}

/// Answers in order; the last answer is repeated.
#[derive(Clone, Debug)]
pub struct FakeRunner {
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    script: VecDeque<Scripted>,
    ran: Vec<(CommandProbe, Option<Duration>)>,
    dropped: usize,
}

/// Counts a run that was dropped before it answered.
struct Guard {
    state: Arc<Mutex<State>>,
    done: bool,
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.done {
            lock(&self.state).dropped += 1;
        }
    }
}

impl FakeRunner {
    /// A runner with this script, which must not be empty for it to answer anything but success.
    #[must_use]
    pub fn new(script: impl IntoIterator<Item = Scripted>) -> Self {
        Self {
            state: Arc::new(Mutex::new(State {
                script: script.into_iter().collect(),
                ran: Vec::new(),
                dropped: 0,
            })),
        }
    }

    /// What was run, with its limit.
    #[must_use]
    pub fn ran(&self) -> Vec<(CommandProbe, Option<Duration>)> {
        lock(&self.state).ran.clone()
    }

    /// How many runs were dropped before they answered.
    #[must_use]
    pub fn dropped(&self) -> usize {
        lock(&self.state).dropped
    }
}

impl CommandRunner for FakeRunner {
    fn run(&self, command: &CommandProbe, limit: Option<Duration>) -> Running {
        let mut state = lock(&self.state);
        state.ran.push((command.clone(), limit));
        let next = match state.script.len() {
            0 => Scripted::exit(0),
            1 => state.script[0].clone(),
            _ => state.script.pop_front().unwrap_or(Scripted::Hangs),
        };
        drop(state);
        let guard = Guard {
            state: Arc::clone(&self.state),
            done: false,
        };
        Box::pin(async move {
            // All of it, not the one field that is used below.
            let mut guard = guard;
            let answer = match (next, limit) {
                (Scripted::Now(answer), _) => answer,
                (Scripted::Sleeps, Some(limit)) => {
                    tokio::time::sleep(limit).await;
                    Ok(CommandExit::TimedOut)
                }
                (Scripted::Sleeps | Scripted::Hangs, _) => std::future::pending().await,
            };
            guard.done = true;
            answer
        })
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
