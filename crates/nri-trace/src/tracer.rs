//! From the bytes of one connection to what they mean.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;
use longshore_nri_api::service::{PLUGIN_CONNECTION, RUNTIME_CONNECTION};
use longshore_ttrpc::{KeyValue, Observed, Observer};
use serde_json::Value;

use crate::messages::{Role, decode_of};
use crate::record::{Caller, Entry, Event, Message, Side};

/// How many requests without an answer are remembered: more than a trunk of ours allows.
const PENDING_MAX: usize = 1024;

/// Reads along one connection of a plugin. Pure: bytes and times in, entries out.
#[derive(Debug)]
pub struct Tracer {
    number: u64,
    plugin: Option<String>,
    from_plugin: Direction,
    from_runtime: Direction,
    /// By connection of the multiplexer and stream id.
    pending: HashMap<(u32, u32), Pending>,
}

#[derive(Debug)]
struct Direction {
    observer: Observer,
    /// Nothing can be told apart any more.
    lost: bool,
}

#[derive(Debug)]
struct Pending {
    service: String,
    method: String,
    at: Duration,
}

impl Direction {
    fn new() -> Self {
        Self {
            observer: Observer::new(&[PLUGIN_CONNECTION, RUNTIME_CONNECTION]),
            lost: false,
        }
    }
}

impl Tracer {
    /// Of the connection with this number.
    #[must_use]
    pub fn new(number: u64) -> Self {
        Self {
            number,
            plugin: None,
            from_plugin: Direction::new(),
            from_runtime: Direction::new(),
            pending: HashMap::new(),
        }
    }

    /// The connection was opened.
    #[must_use]
    pub fn opened(&self, caller: Caller, at: Duration) -> Entry {
        self.entry(Side::Plugin, at, Event::Opened(caller))
    }

    /// Takes the next bytes of one side.
    pub fn feed(&mut self, from: Side, bytes: Bytes, at: Duration) -> Vec<Entry> {
        let direction = match from {
            Side::Plugin => &mut self.from_plugin,
            Side::Runtime => &mut self.from_runtime,
        };
        if direction.lost {
            return Vec::new();
        }
        let mut seen = Vec::new();
        let outcome = direction
            .observer
            .push(bytes, |observed| seen.push(observed));
        direction.lost = outcome.is_err();
        let mut entries: Vec<Entry> = seen
            .into_iter()
            .map(|observed| {
                let event = self.event(observed, at);
                self.entry(from, at, event)
            })
            .collect();
        if let Err(error) = outcome {
            let text = format!("{error}; what follows cannot be read");
            entries.push(self.entry(from, at, Event::Odd { text }));
        }
        entries
    }

    /// One side closed the connection, or could not be reached any more.
    #[must_use]
    pub fn closed(&self, from: Side, reason: &str, at: Duration) -> Entry {
        let direction = match from {
            Side::Plugin => &self.from_plugin,
            Side::Runtime => &self.from_runtime,
        };
        let mut reason = reason.to_owned();
        if !direction.lost && !direction.observer.is_between_messages() {
            reason.push_str(", in the middle of a message");
        }
        self.entry(from, at, Event::Closed { reason })
    }

    fn entry(&self, from: Side, at: Duration, event: Event) -> Entry {
        Entry {
            at_us: micros(at),
            connection: self.number,
            plugin: self.plugin.clone(),
            from,
            event,
        }
    }

    fn event(&mut self, observed: Observed, at: Duration) -> Event {
        match observed {
            Observed::Request {
                connection,
                stream,
                service,
                method,
                timeout,
                metadata,
                payload,
            } => {
                let (service, method) = (cut(&service), cut(&method));
                let message = decode_of(&service, &method, Role::Request, &payload);
                if method == "RegisterPlugin" {
                    self.learn_name(&message);
                }
                if self.pending.len() < PENDING_MAX {
                    let pending = Pending {
                        service,
                        method: method.clone(),
                        at,
                    };
                    self.pending.insert((connection, stream), pending);
                }
                Event::Request {
                    id: stream,
                    method,
                    timeout_ms: timeout
                        .map(|timeout| u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX)),
                    metadata: metadata
                        .into_iter()
                        .map(|KeyValue { key, value }| (key, value))
                        .collect(),
                    message,
                }
            }
            Observed::Response {
                connection,
                stream,
                answer,
            } => self.answer(connection, stream, answer, at),
            Observed::Other {
                connection,
                stream,
                kind,
                length,
            } => Event::Odd {
                text: match kind {
                    1 => format!(
                        "a malformed request of {length} bytes, id {stream} on connection {connection}"
                    ),
                    2 => format!(
                        "a malformed response of {length} bytes, id {stream} on connection {connection}"
                    ),
                    kind => format!(
                        "a frame of type {kind} and {length} bytes, id {stream} on connection {connection}"
                    ),
                },
            },
            Observed::Oversized {
                connection,
                stream,
                length,
            } => Event::Odd {
                text: format!(
                    "a message of {length} bytes, more than 4 MiB, id {stream} on connection {connection}"
                ),
            },
            Observed::Foreign { connection, length } => Event::Odd {
                text: format!(
                    "a frame of {length} bytes on connection {connection}, which NRI does not use"
                ),
            },
            _ => Event::Odd {
                text: "something that is not known here".to_owned(),
            },
        }
    }

    fn answer(
        &mut self,
        connection: u32,
        id: u32,
        answer: Result<Bytes, longshore_ttrpc::Status>,
        at: Duration,
    ) -> Event {
        let pending = self.pending.remove(&(connection, id));
        let took_us = pending
            .as_ref()
            .map(|pending| micros(at.saturating_sub(pending.at)));
        let (service, method) = pending.map_or((None, None), |pending| {
            (Some(pending.service), Some(pending.method))
        });
        match answer {
            Ok(payload) => Event::Response {
                id,
                took_us,
                message: match (&service, &method) {
                    (Some(service), Some(method)) => {
                        decode_of(service, method, Role::Response, &payload)
                    }
                    _ => Message {
                        bytes: payload.len(),
                        json: None,
                        problem: Some("its request is not known".to_owned()),
                    },
                },
                method,
            },
            Err(status) => Event::Failure {
                id,
                method,
                took_us,
                code: status.code.number(),
                text: status.message,
            },
        }
    }

    /// What the plugin says that it is called, whether the runtime takes it or not.
    fn learn_name(&mut self, message: &Message) {
        let member = |name: &str| {
            let text = message.json.as_ref()?.get(name).and_then(Value::as_str)?;
            Some(cut(text))
        };
        if let (Some(name), Some(index)) = (member("plugin_name"), member("plugin_idx")) {
            self.plugin = Some(format!("{index}-{name}"));
        }
    }
}

/// A name, no longer than any that NRI has: a thousand of them are kept.
fn cut(name: &str) -> String {
    name.chars().take(64).collect()
}

fn micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
