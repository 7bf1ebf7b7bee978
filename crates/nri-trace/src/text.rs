//! An entry as a line for people.

use std::fmt::Write as _;

use crate::record::{Caller, Entry, Event, Message, Side};

/// How much of a message is shown, in characters, unless all of it is asked for.
const SHOWN: usize = 160;

/// One line without its end; messages are cut unless `full`.
///
/// ```text
///     0.012345  #1 10-logger  <-  CreateContainer 3, waits 2s  {"container":{"id":"c0"}}
///     0.013000  #1 10-logger  ->  CreateContainer 3, ok after 655us  {}
/// ```
///
/// The arrow points away from the plugin when the plugin says it. Control characters are replaced, so
/// that no plugin speaks to the terminal.
#[must_use]
pub fn line(entry: &Entry, full: bool) -> String {
    let (seconds, micros) = (entry.at_us / 1_000_000, entry.at_us % 1_000_000);
    let plugin = entry.plugin.as_deref().unwrap_or("?");
    let arrow = match entry.from {
        Side::Plugin => "->",
        Side::Runtime => "<-",
    };
    let what = what(entry, full);
    let number = entry.connection;
    let text = format!("{seconds:>5}.{micros:06}  #{number} {plugin}  {arrow}  {what}");
    text.chars()
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

fn what(entry: &Entry, full: bool) -> String {
    let side = match entry.from {
        Side::Plugin => "plugin",
        Side::Runtime => "runtime",
    };
    match &entry.event {
        Event::Opened(caller) => opened(caller),
        Event::Request {
            id,
            method,
            timeout_ms,
            metadata,
            message,
        } => {
            let mut text = format!("{method} {id}");
            if let Some(millis) = timeout_ms {
                // Writing to a string does not fail.
                let _written = write!(text, ", waits {}", span(millis.saturating_mul(1000)));
            }
            for (name, value) in metadata {
                let _written = write!(text, ", {name}={value}");
            }
            format!("{text}  {}", shown(message, full))
        }
        Event::Response {
            id,
            method,
            took_us,
            message,
        } => {
            let method = method.as_deref().unwrap_or("?");
            let after = after(*took_us);
            format!("{method} {id}, ok{after}  {}", shown(message, full))
        }
        Event::Failure {
            id,
            method,
            took_us,
            code,
            text,
        } => {
            let method = method.as_deref().unwrap_or("?");
            let after = after(*took_us);
            format!("{method} {id}, failed{after} with status {code}: {text}")
        }
        Event::Odd { text } => format!("odd: {text}"),
        Event::Closed { reason } => format!("closed by the {side}: {reason}"),
    }
}

fn opened(caller: &Caller) -> String {
    let mut text = String::from("opened");
    if let Some(pid) = caller.pid {
        let _written = write!(text, " by pid {pid}");
    }
    let _written = write!(text, ", user {}, group {}", caller.uid, caller.gid);
    if let Some(executable) = &caller.executable {
        let _written = write!(text, ", {}", executable.display());
    }
    text
}

fn after(took_us: Option<u64>) -> String {
    took_us.map_or_else(String::new, |micros| format!(" after {}", span(micros)))
}

/// Microseconds in the unit that suits them.
fn span(micros: u64) -> String {
    match micros {
        0..1_000 => format!("{micros}us"),
        1_000..1_000_000 => format!("{}.{}ms", micros / 1_000, micros % 1_000 / 100),
        _ => format!("{}.{}s", micros / 1_000_000, micros % 1_000_000 / 100_000),
    }
}

fn shown(message: &Message, full: bool) -> String {
    let text = match (&message.json, &message.problem) {
        (Some(json), _) => json.to_string(),
        (None, Some(problem)) => format!("({} bytes: {problem})", message.bytes),
        (None, None) => format!("({} bytes)", message.bytes),
    };
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) if !full => format!("{}… ({} bytes)", &text[..at], message.bytes),
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(from: Side, event: Event) -> Entry {
        Entry {
            at_us: 12_345,
            connection: 1,
            plugin: Some("10-x".into()),
            from,
            event,
        }
    }

    fn message(json: serde_json::Value) -> Message {
        Message {
            bytes: 999,
            json: Some(json),
            problem: None,
        }
    }

    #[test]
    fn each_kind_of_entry_is_a_line() {
        for (from, event, expected) in [
            (
                Side::Runtime,
                Event::Request {
                    id: 3,
                    method: "CreateContainer".into(),
                    timeout_ms: Some(2000),
                    metadata: vec![("traceparent".into(), "00-1".into())],
                    message: message(serde_json::json!({"a": "\u{9b}31m"})),
                },
                "<-  CreateContainer 3, waits 2.0s, traceparent=00-1  {\"a\":\"\u{fffd}31m\"}",
            ),
            (
                Side::Plugin,
                Event::Response {
                    id: 3,
                    method: Some("CreateContainer".into()),
                    took_us: Some(655),
                    message: message(serde_json::json!({})),
                },
                "->  CreateContainer 3, ok after 655us  {}",
            ),
            (
                Side::Plugin,
                Event::Failure {
                    id: 5,
                    method: None,
                    took_us: Some(1_234),
                    code: 12,
                    text: "no\nsuch".into(),
                },
                "->  ? 5, failed after 1.2ms with status 12: no\u{fffd}such",
            ),
            (
                Side::Plugin,
                Event::Opened(Caller {
                    pid: Some(7),
                    uid: 0,
                    gid: 1,
                    executable: Some("/bin/x".into()),
                }),
                "->  opened by pid 7, user 0, group 1, /bin/x",
            ),
            (
                Side::Runtime,
                Event::Closed {
                    reason: "end".into(),
                },
                "<-  closed by the runtime: end",
            ),
            (
                Side::Plugin,
                Event::Odd {
                    text: "this".into(),
                },
                "->  odd: this",
            ),
        ] {
            let line = line(&entry(from, event), false);
            assert_eq!(line, format!("    0.012345  #1 10-x  {expected}"));
        }
    }

    #[test]
    fn long_messages_are_cut_unless_all_is_asked_for() {
        let event = Event::Response {
            id: 1,
            method: None,
            took_us: None,
            message: message(serde_json::json!({"a": "é".repeat(500)})),
        };
        let entry = entry(Side::Plugin, event);
        let cut = line(&entry, false);
        assert!(cut.ends_with("é… (999 bytes)"), "{cut}");
        assert!(cut.chars().count() < 250);
        assert!(line(&entry, true).chars().count() > 500);
    }
}
