//! A declared task as everybody else sees it.

use std::sync::Arc;
use std::time::Duration;

use super::machine::{Attempt, Rule, Why};
use super::{DeclaredBy, Need};
use crate::{Phase, TaskStatus};

/// What is known of one declared task. Holds no value of a variable and no secret.
#[derive(Clone, Debug, PartialEq)]
pub struct DeclaredStatus {
    /// Its name.
    pub name: String,
    /// The image, as it was asked for.
    pub image: String,
    /// Who wants it.
    pub origin: DeclaredBy,
    /// When it is started again.
    pub rule: Rule,
    /// What has to be there before each start.
    pub needs: Vec<Need>,
    /// It has a health check.
    pub checked: bool,
    /// Grows with each change of what is run.
    pub generation: u64,
    /// The number of the last attempt; 0 for none.
    pub number: u64,
    /// The last attempts, oldest first.
    pub attempts: Vec<Attempt>,
    /// Why there is no attempt at the moment.
    pub why: Option<Why>,
    /// The attempt was asked to end: it is stopped, replaced or not wanted any more.
    pub ending: bool,
    /// It is not wanted any more.
    pub leaving: bool,
    /// The attempt of now, else the last one whose status is kept.
    pub task: Option<Arc<TaskStatus>>,
    /// What was wrong with the last write of its record, until one succeeds.
    pub problem: Option<String>,
}

impl DeclaredStatus {
    /// Whether it runs, and is healthy where it has a health check.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.why.is_none()
            && !self.ending
            && self.task.as_ref().is_some_and(|task| {
                task.phase == Phase::Running && task.healthy.unwrap_or(!self.checked)
            })
    }

    /// Whether it is to run and does not: it waits for its next try, or for what it needs.
    #[must_use]
    pub fn waits(&self) -> bool {
        match self.why {
            Some(
                Why::Unclear(_) | Why::Held(_) | Why::Needs(_) | Why::Backoff(_) | Why::Failing(_),
            ) => true,
            Some(Why::Recovering | Why::Stopped | Why::Done | Why::Leaving) | None => false,
        }
    }

    /// One word for it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match &self.why {
            Some(Why::Recovering) => "recovering",
            Some(Why::Unclear(_)) => "unclear",
            Some(Why::Stopped) => "stopped",
            Some(Why::Done) => "done",
            Some(Why::Held(_)) => "held",
            Some(Why::Needs(_)) => "waiting",
            Some(Why::Backoff(_)) => "backoff",
            Some(Why::Failing(_)) => "failing",
            Some(Why::Leaving) => "leaving",
            None if self.ending && self.leaving => "leaving",
            None if self.ending => "stopping",
            None => match self.task.as_ref().map(|task| task.phase) {
                Some(Phase::Running) => "running",
                Some(Phase::Killing) => "stopping",
                Some(Phase::Ended) => "ended",
                Some(Phase::Starting) | None => "starting",
            },
        }
    }

    /// One line of why it is so; empty when the word says it.
    #[must_use]
    pub fn reason(&self) -> String {
        let last = self.last_end();
        match &self.why {
            Some(Why::Unclear(text) | Why::Held(text) | Why::Needs(text)) => text.clone(),
            Some(Why::Stopped) => {
                "stopped by an operator; `longshore task start` starts it".to_owned()
            }
            Some(_) => last,
            None if self.ending && !self.leaving => {
                let newer = self
                    .attempts
                    .last()
                    .is_some_and(|it| it.generation != self.generation);
                if newer {
                    "it was changed: the new one is started once this one has ended".to_owned()
                } else {
                    String::new()
                }
            }
            None => self
                .task
                .as_ref()
                .and_then(|task| task.waiting.clone())
                .unwrap_or_default(),
        }
    }

    /// When the next attempt begins, since 1970, where time alone decides.
    #[must_use]
    pub fn next_start(&self) -> Option<Duration> {
        match self.why {
            Some(Why::Backoff(due) | Why::Failing(due)) => Some(due),
            _ => None,
        }
    }

    /// How the last attempt that has ended did so; empty when none has.
    #[must_use]
    pub fn last_end(&self) -> String {
        let ends = self.attempts.iter().rev();
        let mut ends = ends.filter_map(|attempt| Some((attempt.number, attempt.end.as_ref()?)));
        ends.next()
            .map(|(number, end)| format!("attempt {number}: {}", end.message))
            .unwrap_or_default()
    }
}
