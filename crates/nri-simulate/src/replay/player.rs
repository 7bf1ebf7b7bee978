//! Plays a record, entry by entry.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Duration;

use longshore_nri_adaptation::socket::{Listener, SocketOptions};
use longshore_nri_trace::{Entry, Event, Message, Side};
use longshore_ttrpc::{CallOptions, KeyValue};
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, timeout};

use super::cast::Cast;
use super::compare::{Answer, differences, normal};
use super::link::Link;
use crate::compare::diff;
use crate::report::{Outcome, PluginReport, Report, StepReport};
use crate::{Plugins, Replay, SimulateError};

/// How many plugins may wait at the socket until the record has come to them.
const WAITING_MAX: usize = 64;

/// Plays a record, entry by entry.
pub(super) struct Player<'a> {
    replay: &'a Replay,
    cast: Cast,
    door: Option<Door>,
    /// By number of the connection in the record.
    links: BTreeMap<u64, Part>,
    /// By connection and number of the request.
    asked: HashMap<(u64, u32), Asked>,
    steps: Vec<StepReport>,
    runtime: String,
    plugins: Vec<PluginReport>,
    left_out: Vec<String>,
}

/// A plugin of the record that is played.
struct Part {
    name: String,
    /// `None` when it did not come, or is gone.
    link: Option<Link>,
    /// Its place in the report.
    report: usize,
}

/// A request under way.
struct Asked {
    step: usize,
    at: Instant,
    /// Or why it could not be asked.
    answer: Result<JoinHandle<Answer>, String>,
}

/// Plugins that come by themselves.
struct Door {
    came: mpsc::Receiver<(String, Link)>,
    waiting: Vec<(String, Link)>,
    accepting: JoinHandle<()>,
}

impl<'a> Player<'a> {
    pub(super) fn new(
        replay: &'a Replay,
        cast: Cast,
        plugins: &Plugins,
    ) -> Result<Self, SimulateError> {
        let door = match plugins {
            Plugins::Listen(socket) => Some(Door::open(socket, replay.wait)?),
            _ => None,
        };
        let left_out = replay.recorded.iter().filter(|name| !cast.plays(name));
        Ok(Self {
            left_out: left_out.cloned().collect(),
            replay,
            cast,
            door,
            links: BTreeMap::new(),
            asked: HashMap::new(),
            steps: Vec::new(),
            runtime: "the runtime of the record".to_owned(),
            plugins: Vec::new(),
        })
    }

    /// Does what an entry says the runtime did, or waits for what it says a plugin did.
    pub(super) async fn play(&mut self, entry: Entry) {
        if let Some(name) = super::registers(&entry) {
            let name = name.clone();
            return self.bring_on(entry.connection, &name).await;
        }
        if !self.links.contains_key(&entry.connection) {
            // Of a plugin that is left out, or that never registered.
            return;
        }
        let connection = entry.connection;
        match (entry.from, entry.event) {
            (
                Side::Runtime,
                Event::Request {
                    id,
                    method,
                    timeout_ms,
                    metadata,
                    message,
                },
            ) => {
                let options = CallOptions {
                    timeout: Some(timeout_ms.map_or(self.replay.wait, Duration::from_millis)),
                    metadata: metadata
                        .into_iter()
                        .map(|(key, value)| KeyValue { key, value })
                        .collect(),
                    ..CallOptions::default()
                };
                self.ask(connection, id, &method, message, options).await;
            }
            (Side::Plugin, Event::Response { id, message, .. }) => {
                self.answered(connection, id, Answer::of(message)).await;
            }
            (Side::Plugin, Event::Failure { id, code, text, .. }) => {
                self.answered(connection, id, Answer::Failure(code, text))
                    .await;
            }
            (
                Side::Plugin,
                Event::Request {
                    method, message, ..
                },
            ) if method == "UpdateContainers" => {
                self.asks(connection, message).await;
            }
            (_, Event::Closed { .. }) => self.close(connection).await,
            _ => {}
        }
    }

    /// The record has come to an end, and so do the plugins.
    pub(super) async fn end(mut self) -> Report {
        let mut open: Vec<_> = std::mem::take(&mut self.asked).into_iter().collect();
        open.sort_by_key(|(_, asked)| asked.step);
        for (_, asked) in open {
            let why = "the record ends before the plugin has answered";
            self.settle(asked, Answer::None(why.to_owned())).await;
        }
        for connection in self.links.keys().copied().collect::<Vec<_>>() {
            self.close(connection).await;
        }
        if let Some(door) = self.door.take() {
            door.close().await;
        }
        let mut notes = Vec::new();
        if self.replay.cut {
            notes.push("the record is cut short: its last line is not complete".to_owned());
        }
        if !self.left_out.is_empty() {
            notes.push(format!(
                "left out, as nobody plays them: {}",
                self.left_out.join(", ")
            ));
        }
        if !notes.is_empty() {
            let step = self.step("the end of the record".to_owned());
            self.steps[step].notes = notes;
        }
        Report {
            runtime: self.runtime,
            plugins: self.plugins,
            steps: self.steps,
        }
    }

    fn step(&mut self, name: String) -> usize {
        let place = self.steps.len();
        self.steps.push(StepReport {
            step: place + 1,
            name,
            took: Duration::ZERO,
            outcome: Outcome::Told,
            problems: Vec::new(),
            skipped: None,
            losses: Vec::new(),
            notes: Vec::new(),
            unsolicited: Vec::new(),
        });
        place
    }

    fn skip(&mut self, step: usize, why: String) {
        self.steps[step].outcome = Outcome::Skipped;
        self.steps[step].skipped = Some(why);
    }

    /// A plugin registers.
    async fn bring_on(&mut self, connection: u64, name: &str) {
        if !self.cast.plays(name) {
            return;
        }
        // A second registration on one connection is the plugin's own affair.
        if self.links.contains_key(&connection) {
            return;
        }
        let step = self.step(format!("{name} RegisterPlugin"));
        let began = Instant::now();
        let came = match (&self.cast, &mut self.door) {
            (Cast::Commands(cast), _) => match cast.get(name) {
                Some(command) => launched(command, self.replay.wait).await,
                None => Err("nobody plays it".to_owned()),
            },
            (Cast::Listen { any_name, .. }, Some(door)) => {
                door.welcome((!any_name).then_some(name), self.replay.wait)
                    .await
            }
            (Cast::Listen { .. }, None) => Err("there is no socket".to_owned()),
        };
        self.steps[step].took = began.elapsed();
        let link = match came {
            Ok(link) => Some(link),
            Err(why) => {
                self.steps[step]
                    .problems
                    .push(format!("it does not register: {why}"));
                None
            }
        };
        let report = self.plugins.iter().position(|plugin| plugin.name == name);
        let report = report.unwrap_or_else(|| {
            self.plugins.push(PluginReport {
                name: name.to_owned(),
                pid: None,
                events: String::new(),
                nri_version: String::new(),
                state_change_only: false,
                requests: 0,
                last_latency: None,
                last_error: None,
            });
            self.plugins.len() - 1
        });
        self.plugins[report].pid = link.as_ref().and_then(Link::pid);
        let name = name.to_owned();
        self.links.insert(connection, Part { name, link, report });
    }

    /// The runtime asks.
    async fn ask(
        &mut self,
        connection: u64,
        id: u32,
        method: &str,
        message: Message,
        options: CallOptions,
    ) {
        let Some(part) = self.links.get(&connection) else {
            return;
        };
        let (name, subject) = (part.name.clone(), subject(message.json.as_ref()));
        if let ("Configure", Some(json)) = (method, &message.json) {
            let text = |member: &str| json.get(member).and_then(Value::as_str).unwrap_or("?");
            self.runtime = format!("{} {}", text("runtime_name"), text("runtime_version"));
        }
        let step = self.step(format!("{name} {method}{subject}"));
        let Some(json) = message.json else {
            let why = message
                .problem
                .unwrap_or_else(|| "it is not held".to_owned());
            return self.skip(step, format!("the record has no request: {why}"));
        };
        let made = match self
            .links
            .get(&connection)
            .and_then(|part| part.link.as_ref())
        {
            None => Ok(Err("the plugin is not there".to_owned())),
            Some(link) => link.ask(method, json, options).await.map(Ok),
        };
        let answer = match made {
            Ok(answer) => answer,
            Err(why) => return self.skip(step, format!("the request cannot be made: {why}")),
        };
        let at = Instant::now();
        self.asked
            .insert((connection, id), Asked { step, at, answer });
    }

    /// The plugin answered then, and does so now.
    async fn answered(&mut self, connection: u64, id: u32, recorded: Answer) {
        if let Some(asked) = self.asked.remove(&(connection, id)) {
            let step = asked.step;
            self.settle(asked, recorded).await;
            self.count(connection, step);
        }
    }

    async fn settle(&mut self, asked: Asked, recorded: Answer) {
        let came = match asked.answer {
            Ok(answer) => match answer.await {
                Ok(answer) => answer,
                Err(error) => Answer::None(error.to_string()),
            },
            Err(why) => Answer::None(why),
        };
        let (problems, notes) = differences(&recorded, &came);
        let step = &mut self.steps[asked.step];
        step.took = asked.at.elapsed();
        step.problems.extend(problems);
        step.notes.extend(notes);
        step.outcome = Outcome::Answered {
            recorded: recorded.to_json(),
            answered: came.to_json(),
        };
    }

    fn count(&mut self, connection: u64, step: usize) {
        let Some(part) = self.links.get(&connection) else {
            return;
        };
        let step = &self.steps[step];
        let report = &mut self.plugins[part.report];
        match step.problems.last() {
            Some(problem) => report.last_error = problem.lines().next().map(str::to_owned),
            None => {
                report.requests += 1;
                report.last_latency = Some(step.took);
            }
        }
    }

    /// The plugin asked for updates by itself, and does so now.
    async fn asks(&mut self, connection: u64, recorded: Message) {
        let Some(part) = self.links.get(&connection) else {
            return;
        };
        let came = match &part.link {
            Some(link) => link.update(self.replay.wait).await,
            None => None,
        };
        let name = format!("{} UpdateContainers", part.name);
        let step = self.step(name);
        let Some(came) = came else {
            let why = format!("it asks for no updates within {:?}", self.replay.wait);
            self.steps[step].problems.push(why);
            return;
        };
        let differs = match (&recorded.json, &came.json) {
            (Some(recorded), Some(came)) => {
                let (recorded, came) = (normal(recorded), normal(came));
                (recorded != came)
                    .then(|| format!("it asks for others:\n{}", diff(&recorded, &came)))
            }
            _ => None,
        };
        self.steps[step].problems.extend(differs);
    }

    /// The connection was closed, by whomever.
    async fn close(&mut self, connection: u64) {
        let waiting: Vec<_> = self
            .asked
            .keys()
            .filter(|(of, _)| *of == connection)
            .copied()
            .collect();
        for key in waiting {
            if let Some(asked) = self.asked.remove(&key) {
                let why = "the connection ended before the plugin had answered";
                self.steps[asked.step].notes.push(why.to_owned());
                if let Ok(answer) = asked.answer {
                    answer.abort();
                }
            }
        }
        let Some(part) = self.links.get_mut(&connection) else {
            return;
        };
        let Some(link) = part.link.take() else {
            return;
        };
        let mut more = 0;
        while link.take_update().is_some() {
            more += 1;
        }
        let name = part.name.clone();
        link.end().await;
        if more > 0 {
            let step = self.step(format!("{name} UpdateContainers"));
            let why = format!("it asked for updates {more} times more than in the record");
            self.steps[step].problems.push(why);
        }
    }
}

async fn launched(command: &crate::Command, wait: Duration) -> Result<Link, String> {
    let mut link = Link::launch(command).await?;
    match link.registered(wait).await {
        Ok(_) => Ok(link),
        Err(why) => {
            link.end().await;
            Err(why)
        }
    }
}

/// The container that a request is about, else the pod; with a space before it.
fn subject(message: Option<&Value>) -> String {
    let id = |member: &str| message?.get(member)?.get("id")?.as_str();
    let id = id("container").or_else(|| id("pod"));
    id.map_or_else(String::new, |id| format!(" {id}"))
}

impl Door {
    fn open(socket: &Path, wait: Duration) -> Result<Self, SimulateError> {
        let listener = Listener::bind(&SocketOptions::new(socket))?;
        let (sender, came) = mpsc::channel(1);
        Ok(Self {
            came,
            waiting: Vec::new(),
            accepting: tokio::spawn(accept(listener, sender, wait)),
        })
    }

    /// Lets nobody in any more; the socket is gone when this returns.
    async fn close(mut self) {
        self.accepting.abort();
        // It was aborted: there is nothing to learn from how it ended.
        let _ended = (&mut self.accepting).await;
    }

    /// The next plugin of this full name, or of any.
    async fn welcome(&mut self, name: Option<&str>, wait: Duration) -> Result<Link, String> {
        let meant = |known: &str| name.is_none_or(|name| name == known);
        if let Some(place) = self.waiting.iter().position(|(known, _)| meant(known)) {
            return Ok(self.waiting.remove(place).1);
        }
        let next = async {
            while let Some((known, link)) = self.came.recv().await {
                if meant(&known) {
                    return Some(link);
                }
                if self.waiting.len() == WAITING_MAX {
                    self.waiting.remove(0);
                }
                self.waiting.push((known, link));
            }
            None
        };
        match timeout(wait, next).await {
            Ok(Some(link)) => Ok(link),
            Ok(None) => Err("the socket is closed".to_owned()),
            Err(_) => Err(format!("nobody came under that name within {wait:?}")),
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// Takes connections, and hands them on once they have registered.
async fn accept(mut listener: Listener, came: mpsc::Sender<(String, Link)>, wait: Duration) {
    let mut registering = JoinSet::new();
    loop {
        while registering.try_join_next().is_some() {}
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "no more plugins can connect");
                return;
            }
        };
        if registering.len() == WAITING_MAX {
            tracing::warn!("a connection is refused: too many have not registered");
            continue;
        }
        let came = came.clone();
        registering.spawn(async move {
            let mut link = Link::new(stream);
            if let Ok((index, name)) = link.registered(wait).await {
                // Nobody waits for it any more.
                let _ended = came.send((format!("{index}-{name}"), link)).await;
            }
        });
    }
}
