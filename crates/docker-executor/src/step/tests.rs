//! The life of a task as tables.

mod behind;
mod ends;
mod kills;
mod launches;
mod lost;
mod model;
mod recovery;

use std::sync::Arc;
use std::time::Duration;

use longshore_engine::EngineError;

use super::*;
use crate::{
    Condition, Details, Found, Held, Kill, KillCause, News, Plan, PulledImage, Recorded,
    RecordedKill, Seen, Stage,
};

const SECOND: Duration = Duration::from_secs(1);
const RUN: i64 = 1_000;

/// A task in virtual time, with all that it did.
pub(super) struct Life {
    state: State,
    now: Duration,
    done: Vec<Action>,
}

impl Life {
    fn new(plan: Plan) -> Self {
        let mut done = Vec::new();
        let state = State::launch(plan, Duration::ZERO, &mut done);
        Self {
            state,
            now: Duration::ZERO,
            done,
        }
    }

    fn attach(plan: Plan, recorded: Recorded) -> Self {
        let mut done = Vec::new();
        let state = State::attach(plan, recorded, Duration::ZERO, &mut done);
        Self {
            state,
            now: Duration::ZERO,
            done,
        }
    }

    /// One that runs, and whose init is held.
    fn running(plan: Plan) -> Self {
        let mut life = Self::new(plan);
        life.feed(Event::Recorded(Ok(())));
        life.feed(pulled());
        life.feed(created());
        life.feed(Event::Recorded(Ok(())));
        life.feed(Event::Started(Ok(RUN)));
        life.feed(inspected(Condition::Running));
        life.feed(Event::Held(Held::Yes));
        life
    }

    /// What it does upon the event.
    fn feed(&mut self, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        self.state.step(event, self.now, &mut actions);
        self.done.extend(actions.iter().cloned());
        actions
    }

    /// What it does until so much later.
    fn pass(&mut self, time: Duration) -> Vec<Action> {
        let end = self.now + time;
        let from = self.done.len();
        for turn in 0.. {
            assert!(turn < 10_000, "due again and again at {:?}", self.now);
            match self.state.due() {
                Some(due) if due <= end => {
                    self.now = self.now.max(due);
                    self.feed(Event::Due);
                }
                _ => break,
            }
        }
        self.now = end;
        self.done[from..].to_vec()
    }

    /// Its statuses so far, each as a word; of the last one also how it ended.
    fn told(&self) -> Vec<String> {
        self.done.iter().filter_map(word).collect()
    }

    fn last_told(&self) -> String {
        self.told().last().cloned().unwrap_or_default()
    }
}

/// `RUNNING`, `RUNNING healthy`, `FAILED removed-by-other`.
fn word(action: &Action) -> Option<String> {
    let Action::Tell(update) = action else {
        return None;
    };
    let state = update.state.as_str_name().trim_start_matches("TASK_");
    Some(match &update.news {
        News::State => state.to_owned(),
        News::Health(_) if update.healthy == Some(true) => format!("{state} healthy"),
        News::Health(_) => format!("{state} unhealthy"),
        News::Check => format!("{state} check"),
        News::Ended(ending) => format!("{state} {}", ending.word()),
    })
}

fn pulled() -> Event {
    Event::Pulled(Ok(PulledImage::default()))
}

fn created() -> Event {
    Event::Created(Ok("c1".to_owned()))
}

fn found(condition: Condition) -> Found {
    let runs = matches!(condition, Condition::Running | Condition::Paused);
    Found {
        id: "c1".to_owned(),
        condition,
        pid: runs.then_some(4711),
        run: (condition != Condition::Created).then_some(RUN),
        code: 0,
        out_of_memory: false,
        error: String::new(),
        stop_signal: None,
        details: Arc::new(Details::default()),
    }
}

fn inspected(condition: Condition) -> Event {
    Event::Inspected(Ok(found(condition)))
}

fn down(code: i64) -> Event {
    Event::Inspected(Ok(Found {
        code,
        ..found(Condition::Down)
    }))
}

fn absent() -> EngineError {
    EngineError::Gone {
        call: "call",
        subject: String::new(),
        source: None,
    }
}

fn no_container() -> EngineError {
    EngineError::NotFound {
        call: "inspect",
        subject: "c1".to_owned(),
        what: longshore_engine::Missing::Container,
        message: String::new(),
    }
}

fn status(status: u16, message: &str) -> EngineError {
    EngineError::Status {
        call: "start",
        subject: "c1".to_owned(),
        status,
        message: message.to_owned(),
    }
}

fn has(actions: &[Action], wanted: &Action) -> bool {
    actions.contains(wanted)
}

fn signal(name: &str) -> Action {
    Action::Signal(name.to_owned())
}

fn init_signal(name: &str) -> Action {
    Action::SignalInit(name.to_owned())
}

fn signalled(name: &str, result: Result<(), EngineError>) -> Event {
    Event::Signalled {
        signal: name.to_owned(),
        result,
    }
}
