//! One declared task: performs what the machine decides, and tells it what happens.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot, watch};

use super::machine::{Action, Attempt, End, Event, Found, State};
use super::record::WantedRecord;
use super::set::Shared;
use super::{Declaration, DeclaredStatus, Need};
use crate::keep::chain;
use crate::{NewTask, TaskManagerError, TaskStatus};

/// What somebody wants of a declared task.
#[derive(Debug)]
pub(super) enum Command {
    /// It is declared otherwise.
    Change(Box<Declaration>),
    /// It is not declared any more.
    Leave,
    /// It is to end; answered once that is on record.
    Stop(
        Option<Duration>,
        oneshot::Sender<Result<(), TaskManagerError>>,
    ),
    /// It is to start; answered once that is on record.
    Start(oneshot::Sender<Result<(), TaskManagerError>>),
}

#[derive(Debug)]
pub(super) struct Actor {
    shared: Arc<Shared>,
    declaration: Declaration,
    state: State,
    commands: mpsc::Receiver<Command>,
    status: watch::Sender<Arc<DeclaredStatus>>,
    /// The last attempt.
    task: Option<watch::Receiver<Arc<TaskStatus>>>,
    grace: Option<Duration>,
    needs: Option<String>,
    held: Option<String>,
    problem: Option<String>,
}

impl Actor {
    pub(super) fn new(
        shared: Arc<Shared>,
        declaration: Declaration,
        state: State,
        commands: mpsc::Receiver<Command>,
    ) -> (Self, watch::Receiver<Arc<DeclaredStatus>>) {
        let id = attempt_id(&declaration.name, state.number);
        let task = shared.manager.watch(&id).ok();
        let first = shown(&shared, &declaration, &state, task.as_ref(), None);
        let (status, seen) = watch::channel(Arc::new(first));
        let actor = Self {
            shared,
            declaration,
            state,
            commands,
            status,
            task,
            grace: None,
            needs: None,
            held: None,
            problem: None,
        };
        (actor, seen)
    }

    pub(super) async fn run(mut self) {
        let mut csi = self.shared.csi.clone();
        let mut hold = self.shared.hold.subscribe();
        let mut others = self.shared.changed.subscribe();
        let mut engine = self.shared.manager.engine();
        self.look_around().await;
        let found = self.found();
        self.happens(Event::Found(found)).await;
        while !self.state.is_gone() {
            csi.mark_unchanged();
            hold.mark_unchanged();
            others.mark_unchanged();
            engine.mark_unchanged();
            self.look_around().await;
            self.publish();
            let now = self.shared.clock.now();
            let next = self.state.next_start(now);
            let pause = next.map(|next| next.saturating_sub(now));
            let of_tasks = |need: &Need| matches!(need, Need::Task(_));
            let needs_tasks = self.declaration.needs.iter().any(of_tasks);
            tokio::select! {
                command = self.commands.recv() => match command {
                    Some(command) => self.obey(command).await,
                    None => return,
                },
                () = changed(self.task.as_mut()) => self.see().await,
                // Without the manager of plugins nothing changes any more.
                () = changed(Some(&mut csi)) => {}
                () = changed(Some(&mut hold)) => {}
                () = changed(Some(&mut engine)) => {}
                () = changed(Some(&mut others)), if needs_tasks => {}
                () = until(pause) => self.happens(Event::Tick).await,
            }
        }
        self.publish();
        self.shared.left(&self.declaration.name);
    }

    /// What is on record of the attempt that is open.
    fn found(&self) -> Found {
        let open = self
            .state
            .attempts
            .back()
            .is_some_and(|it| it.end.is_none());
        if !open {
            return Found::Nothing;
        }
        let Some(task) = &self.task else {
            let damaged = self.shared.manager.damaged();
            if damaged.is_empty() {
                return Found::Nothing;
            }
            return Found::Unclear(format!(
                "attempt {} may run: {} record(s) of tasks are damaged; see `longshore task ls`, and start it once no container of it runs",
                self.state.number,
                damaged.len()
            ));
        };
        let task = task.borrow();
        if !task.has_ended() {
            return Found::Alive;
        }
        let now = self.shared.clock.now();
        let at = task.ended.map_or(now, |ended| ended.min(now));
        Found::Ended(end(&task, at))
    }

    async fn look_around(&mut self) {
        let held = self.shared.hold.borrow().clone();
        if held != self.held {
            self.held.clone_from(&held);
            self.happens(Event::Held(held)).await;
        }
        let needs = self.missing();
        if needs != self.needs {
            self.needs.clone_from(&needs);
            self.happens(Event::Needs(needs)).await;
        }
    }

    /// The first need that is not met; the engine is one of all tasks: no attempt is made at what must fail.
    fn missing(&self) -> Option<String> {
        let missing = self.declaration.needs.iter().find_map(|need| match need {
            Need::Csi(name) => match self.shared.csi.borrow().get(name) {
                Some(Ok(())) => None,
                Some(Err(reason)) if reason.is_empty() => Some(format!("{need} is not ready")),
                Some(Err(reason)) => Some(format!("{need} is not ready: {reason}")),
                None => Some(format!(
                    "{need}: no plugin of the configuration has this name"
                )),
            },
            Need::Task(name) => match self.shared.status(name) {
                Some(status) if status.is_there() => None,
                Some(status) if status.word() == "running" => {
                    Some(format!("{need} is not healthy yet"))
                }
                Some(status) => Some(format!("{need} is {}", status.word())),
                None => Some(format!("{need}: no declared task has this name")),
            },
        });
        missing.or_else(|| {
            let engine = self.shared.manager.engine();
            let silent = engine.borrow().silent.clone();
            silent.map(|(_, reason)| format!("the engine does not answer: {reason}"))
        })
    }

    async fn obey(&mut self, command: Command) {
        match command {
            Command::Change(declaration) => {
                let replace = !self.declaration.runs_as(&declaration);
                let same = *declaration == self.declaration && !self.state.leaving;
                let rule = declaration.rule;
                self.declaration = *declaration;
                if !same {
                    self.happens(Event::Changed { rule, replace }).await;
                }
            }
            Command::Leave => self.happens(Event::Left).await,
            Command::Stop(grace, answer) => {
                self.grace = grace;
                let ending = self.state.is_ending();
                self.happens(Event::Stop).await;
                if ending && let Some(number) = self.state.alive() {
                    self.end_attempt(number);
                }
                self.grace = None;
                self.publish();
                // Who asked may be gone; it holds all the same.
                let _gone = answer.send(self.on_record());
            }
            Command::Start(answer) => {
                self.happens(Event::Start).await;
                self.publish();
                let _gone = answer.send(self.on_record());
            }
        }
    }

    fn on_record(&self) -> Result<(), TaskManagerError> {
        match &self.problem {
            None => Ok(()),
            Some(problem) => Err(TaskManagerError::NotKept {
                name: self.declaration.name.clone(),
                problem: problem.clone(),
            }),
        }
    }

    /// The attempt has changed.
    async fn see(&mut self) {
        let Some(number) = self.state.alive() else {
            return;
        };
        let now = self.shared.clock.now();
        let ended = self.task.as_ref().and_then(|task| {
            let task = task.borrow();
            task.has_ended().then(|| end(&task, now))
        });
        if let Some(end) = ended {
            self.happens(Event::Ended { number, end }).await;
        }
    }

    /// Tells the machine, and does what it decides, until nothing more follows from it.
    async fn happens(&mut self, event: Event) {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            let moment = self.shared.clock.moment();
            let (state, actions) = self.state.clone().step(event, moment);
            self.state = state;
            let mut recorded = true;
            for action in actions {
                match action {
                    Action::Record => {
                        if let Err(problem) = self.record().await {
                            recorded = false;
                            self.problem = Some(problem);
                        }
                    }
                    Action::Launch(number) if recorded => {
                        events.extend(self.launch(number).await);
                    }
                    Action::Launch(_) => {
                        let problem = self.problem.clone().unwrap_or_default();
                        events.push_back(Event::NotRecorded(problem));
                    }
                    Action::Stop(number) => self.end_attempt(number),
                    Action::Discard(number) => self.discard(number),
                    Action::Forget => self.forget().await,
                }
            }
        }
    }

    async fn record(&mut self) -> Result<(), String> {
        let record = WantedRecord::of(&self.declaration, &self.state);
        match self.shared.store.write(record).await {
            Ok(()) => {
                self.problem = None;
                Ok(())
            }
            Err(error) => {
                let problem = chain(&error);
                let task = &self.declaration.name;
                tracing::error!(
                    task,
                    problem,
                    "what is wanted of a declared task is not on record"
                );
                Err(problem)
            }
        }
    }

    /// What follows when it is refused.
    async fn launch(&mut self, number: u64) -> Option<Event> {
        let name = &self.declaration.name;
        let id = attempt_id(name, number);
        let manager = &self.shared.manager;
        manager.shared.keep(name, &id);
        let mut info = self.declaration.info.clone();
        info.task_id.value.clone_from(&id);
        info.name.clone_from(name);
        let new = NewTask {
            info,
            container_name: None,
            logs: self.declaration.logs,
        };
        match manager.run(new).await {
            Ok(_) => {
                self.task = manager.watch(&id).ok();
                None
            }
            Err(error) => {
                self.task = None;
                let message = chain(&error);
                tracing::warn!(task = id, message, "an attempt is refused");
                let end = End {
                    at: self.shared.clock.now(),
                    failed: true,
                    exit_code: 125,
                    ending: "refused".to_owned(),
                    message,
                };
                Some(Event::Ended { number, end })
            }
        }
    }

    fn end_attempt(&self, number: u64) {
        let id = attempt_id(&self.declaration.name, number);
        if let Err(error) = self.shared.manager.stop(&id, self.grace) {
            tracing::warn!(
                task = id,
                error = chain(&error),
                "an attempt cannot be ended"
            );
        }
    }

    /// Of an old attempt only its line in the history stays.
    fn discard(&self, number: u64) {
        let known = self.state.attempts.iter().any(|it| it.number == number);
        if !known {
            return;
        }
        let (manager, id) = (
            self.shared.manager.clone(),
            attempt_id(&self.declaration.name, number),
        );
        drop(tokio::spawn(async move {
            match manager.remove(&id, false).await {
                Ok(()) | Err(TaskManagerError::Unknown { .. }) => {}
                Err(error) => {
                    tracing::debug!(task = id, error = chain(&error), "an old attempt stays");
                }
            }
        }));
    }

    async fn forget(&mut self) {
        let name = &self.declaration.name;
        if let Err(error) = self.shared.store.remove(name).await {
            tracing::warn!(
                task = name,
                error = chain(&error),
                "the record of a declared task stays"
            );
        }
    }

    fn publish(&self) {
        let problem = self.problem.as_deref();
        let next = shown(
            &self.shared,
            &self.declaration,
            &self.state,
            self.task.as_ref(),
            problem,
        );
        let before = Arc::clone(&self.status.borrow());
        if next == *before {
            return;
        }
        let (from, to) = (before.word(), next.word());
        if from != to {
            let (task, reason) = (&next.name, next.reason());
            tracing::info!(task, from, to, reason, "declared task");
        }
        self.status.send_replace(Arc::new(next));
        self.shared.bump();
    }
}

fn shown(
    shared: &Shared,
    declaration: &Declaration,
    state: &State,
    task: Option<&watch::Receiver<Arc<TaskStatus>>>,
    problem: Option<&str>,
) -> DeclaredStatus {
    let container = declaration.info.container.as_ref();
    let docker = container.and_then(|it| it.docker.as_ref());
    DeclaredStatus {
        name: declaration.name.clone(),
        image: docker.map(|it| it.image.clone()).unwrap_or_default(),
        origin: declaration.origin.clone(),
        rule: state.rule,
        needs: declaration.needs.clone(),
        checked: declaration.info.health_check.is_some(),
        generation: state.generation,
        number: state.number,
        attempts: state.attempts.iter().cloned().collect(),
        why: state.why(shared.clock.now()),
        ending: state.is_ending(),
        leaving: state.leaving,
        task: task.map(|task| Arc::clone(&task.borrow())),
        problem: problem.map(str::to_owned),
    }
}

pub(super) fn attempt_id(name: &str, number: u64) -> String {
    format!("{name}.{number}")
}

/// An attempt that was found running and is on no record of ours.
pub(super) fn adopted(number: u64, began: Duration) -> Attempt {
    Attempt {
        number,
        generation: 1,
        began,
        end: None,
    }
}

fn end(task: &TaskStatus, at: Duration) -> End {
    let message = match task.message.is_empty() {
        true => task.ending.clone(),
        false => task.message.clone(),
    };
    End {
        at,
        failed: task.state != "TASK_FINISHED",
        exit_code: task.exit_code,
        ending: task.ending.clone(),
        message,
    }
}

/// Waits for a change; for ever where nothing changes any more. Cancel safe.
async fn changed<T>(watched: Option<&mut watch::Receiver<T>>) {
    match watched {
        Some(watched) => {
            if watched.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
        None => std::future::pending().await,
    }
}

async fn until(pause: Option<Duration>) {
    match pause {
        Some(pause) => tokio::time::sleep(pause).await,
        None => std::future::pending().await,
    }
}
