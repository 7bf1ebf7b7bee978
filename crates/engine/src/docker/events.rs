//! The stream of events, opened again whenever it breaks.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use http::Method;
use serde_json::json;

use super::http::{Call, Http};
use super::lines::Lines;
use super::{answers, wire};
use crate::EngineError;
use crate::event::{Event, EventFilter, EventItem};
use crate::time::EngineTime;

/// How far before the last event a stream is opened again: engines log events that happen at once
/// in any order.
const OVERLAP: Duration = Duration::from_secs(2);
/// So many events are known again; an engine remembers 256.
const REMEMBERED: usize = 1024;
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Events as they come from the engine.
pub(crate) struct DockerEvents {
    http: Arc<Http>,
    filter: EventFilter,
    state: State,
    known: Known,
}

enum State {
    Open(Lines),
    /// Tries until it succeeds. Kept here so that a dropped `next` begins nothing anew.
    Opening(Pin<Box<dyn Future<Output = Lines> + Send>>),
}

impl DockerEvents {
    pub(super) async fn open(http: Arc<Http>, filter: &EventFilter) -> Result<Self, EngineError> {
        // An engine answers before it subscribes: what happens in between is told by `since`.
        let since = filter.since.unwrap_or_else(EngineTime::now);
        let lines = open(&http, filter, since).await?;
        Ok(Self {
            http,
            filter: filter.clone(),
            state: State::Open(lines),
            known: Known::new(since),
        })
    }

    pub(crate) async fn next(&mut self) -> EventItem {
        loop {
            let broken = match &mut self.state {
                State::Opening(opening) => {
                    self.state = State::Open(opening.await);
                    return EventItem::Resumed;
                }
                State::Open(lines) => match lines.next().await {
                    Some(Ok(line)) => {
                        if let Some(event) = self.known.read(&line) {
                            return EventItem::Event(event);
                        }
                        continue;
                    }
                    Some(Err(error)) => Some(error),
                    None => None,
                },
            };
            let since = self.known.since();
            let lost = call(&self.http, &self.filter, since).gone(broken);
            self.state = State::Opening(Box::pin(reopen(
                self.http.clone(),
                self.filter.clone(),
                since,
            )));
            return EventItem::Lost(lost);
        }
    }
}

async fn reopen(http: Arc<Http>, filter: EventFilter, since: EngineTime) -> Lines {
    let mut pause = FIRST_PAUSE;
    loop {
        // Another engine may be there now.
        http.forget();
        match open(&http, &filter, since).await {
            Ok(lines) => return lines,
            Err(error) => tracing::debug!(%error, "the stream of events cannot be opened"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

async fn open(http: &Http, filter: &EventFilter, since: EngineTime) -> Result<Lines, EngineError> {
    let answer = http.open(&call(http, filter, since)).await?;
    Ok(Lines::new(answer.body))
}

fn call(http: &Http, filter: &EventFilter, since: EngineTime) -> Call {
    let mut filters = serde_json::Map::new();
    for (key, values) in [
        ("type", &filter.kinds),
        ("label", &filter.labels),
        ("container", &filter.containers),
    ] {
        if !values.is_empty() {
            filters.insert(key.to_owned(), json!(values));
        }
    }
    Call::new("events", "", Method::GET, "/events", http.deadlines.quick)
        .query("since", &since.to_string())
        .query("filters", &serde_json::Value::Object(filters).to_string())
}

/// Which events were told already.
#[derive(Debug)]
struct Known {
    /// Nothing before it is told.
    first: EngineTime,
    last: EngineTime,
    hashes: VecDeque<u64>,
}

impl Known {
    fn new(first: EngineTime) -> Self {
        Self {
            first,
            last: first,
            hashes: VecDeque::new(),
        }
    }

    /// Where to begin again.
    fn since(&self) -> EngineTime {
        self.last.before(OVERLAP).max(self.first)
    }

    /// The event of a line, unless it was told already or is none.
    fn read(&mut self, line: &[u8]) -> Option<Event> {
        let message: wire::EventMessage = match serde_json::from_slice(line) {
            Ok(message) => message,
            Err(_) => {
                tracing::warn!("a message in the stream of events cannot be understood");
                return None;
            }
        };
        let event = answers::event(message);
        if event.kind.is_empty() || event.action.is_empty() {
            return None;
        }
        let mut hasher = DefaultHasher::new();
        (event.time, &event.kind, &event.action, &event.id).hash(&mut hasher);
        event.attributes.hash(&mut hasher);
        let hash = hasher.finish();
        if self.hashes.contains(&hash) {
            return None;
        }
        if self.hashes.len() == REMEMBERED {
            self.hashes.pop_front();
        }
        self.hashes.push_back(hash);
        self.last = self.last.max(event.time);
        Some(event)
    }
}

impl fmt::Debug for DockerEvents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DockerEvents")
            .field("filter", &self.filter)
            .field("open", &matches!(self.state, State::Open(_)))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(nanos: i64, action: &str) -> String {
        json!({"Type": "container", "Action": action, "Actor": {"ID": "c1", "Attributes": {"name": "n"}}, "timeNano": nanos})
            .to_string()
    }

    #[test]
    fn an_event_is_told_once_and_what_is_none_is_passed_over() {
        let mut known = Known::new(EngineTime::from_nanos(10));
        let mut told = |text: &str| known.read(text.as_bytes()).map(|event| event.action);
        assert_eq!(told(&line(20, "start")).as_deref(), Some("start"));
        assert_eq!(told(&line(20, "start")), None);
        assert_eq!(told(&line(20, "die")).as_deref(), Some("die"));
        assert_eq!(told(&line(21, "start")).as_deref(), Some("start"));
        assert_eq!(
            told(&line(19, "attach")).as_deref(),
            Some("attach"),
            "out of order"
        );
        for none in ["", "{}", "[]", "null", "{", r#"{"Type": 1}"#] {
            assert_eq!(told(none), None, "{none}");
        }
        let secret = line(30, "exec_create: sh -c hunter2");
        assert_eq!(told(&secret).as_deref(), Some("exec_create"));
        assert_eq!(
            told(&line(31, "health_status: healthy")).as_deref(),
            Some("health_status: healthy")
        );
    }

    #[test]
    fn it_begins_again_a_little_before_the_last_but_not_before_the_first() {
        let second = 1_000_000_000;
        let mut known = Known::new(EngineTime::from_nanos(10 * second));
        assert_eq!(known.since().as_nanos(), 10 * second);
        known.read(line(11 * second, "start").as_bytes());
        assert_eq!(known.since().as_nanos(), 10 * second);
        known.read(line(60 * second, "die").as_bytes());
        assert_eq!(known.since().as_nanos(), 58 * second);
        // A clock that went back.
        known.read(line(5 * second, "start").as_bytes());
        assert_eq!(known.since().as_nanos(), 58 * second);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut known = Known::new(EngineTime::from_nanos(0));
        for nanos in 1..5000 {
            known.read(line(nanos, "start").as_bytes());
        }
        assert_eq!(known.hashes.len(), REMEMBERED);
    }
}
