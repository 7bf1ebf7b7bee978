use std::collections::BTreeMap;

use crate::EngineError;
use crate::docker::events::DockerEvents;
use crate::time::EngineTime;

/// Something that happened in the engine.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Event {
    /// `Type`: `container`, `image`, `network`, `volume`, `daemon`, ..
    pub kind: String,
    /// `Action`: `create`, `start`, `die`, `oom`, `kill`, `stop`, `pause`, `unpause`, `rename`, `update`,
    /// `destroy`, `exec_die`, .. Of `exec_create: CMD` and its like only the word is kept: the rest
    /// is a command line.
    pub action: String,
    /// `Actor.ID`: of a container its id.
    pub id: String,
    /// `Actor.Attributes`: of a container its labels, `name`, `image`, `exitCode`, `signal`, ..
    pub attributes: BTreeMap<String, String>,
    /// `timeNano`.
    pub time: EngineTime,
}

impl Event {
    /// The exit code that a container's `die` tells.
    #[must_use]
    pub fn exit_code(&self) -> Option<i64> {
        // Podman's name is the second.
        ["exitCode", "containerExitCode"]
            .iter()
            .find_map(|name| self.attributes.get(*name)?.parse().ok())
    }
}

/// Which events to tell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EventFilter {
    /// `filters.type`: one of these; all when empty.
    pub kinds: Vec<String>,
    /// `filters.label`: all of these, as `key` or `key=value`.
    pub labels: Vec<String>,
    /// `filters.container`: one of these, by id or name.
    pub containers: Vec<String>,
    /// `since`: tell first what the engine remembers from then on; otherwise from now on.
    pub since: Option<EngineTime>,
}

impl EventFilter {
    /// Events of containers with all of these labels.
    pub fn containers_labelled(labels: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            kinds: vec!["container".to_owned()],
            labels: labels.into_iter().map(Into::into).collect(),
            ..Self::default()
        }
    }
}

/// What the stream of events tells.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum EventItem {
    /// Something happened.
    Event(Event),
    /// The stream is broken: the engine went away. It is being opened again, for as long as the
    /// stream is read. Told once for each break.
    Lost(EngineError),
    /// The stream is open again. What the engine still remembers of the time between follows, each event once. An
    /// engine remembers its last few hundred events and forgets all when it is restarted, so this
    /// is the moment to look at everything that is being watched.
    Resumed,
}

/// Events, with no end and no deadline; dropping it closes the connection.
#[derive(Debug)]
pub struct EventStream {
    source: Source,
}

#[derive(Debug)]
enum Source {
    Docker(Box<DockerEvents>),
    #[cfg(feature = "fake")]
    Fake(tokio::sync::mpsc::Receiver<EventItem>),
}

impl EventStream {
    pub(crate) fn docker(events: DockerEvents) -> Self {
        Self {
            source: Source::Docker(Box::new(events)),
        }
    }

    #[cfg(feature = "fake")]
    pub(crate) fn fake(events: tokio::sync::mpsc::Receiver<EventItem>) -> Self {
        Self {
            source: Source::Fake(events),
        }
    }

    /// The next item. May be dropped and called again: nothing is lost.
    pub async fn next(&mut self) -> EventItem {
        match &mut self.source {
            Source::Docker(events) => events.next().await,
            #[cfg(feature = "fake")]
            Source::Fake(events) => match events.recv().await {
                Some(item) => item,
                // The fake engine is gone; so would be the caller's test.
                None => std::future::pending().await,
            },
        }
    }
}
