//! What the executor tells: a line each.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

/// Most containers that are watched at once: an executor has one.
const MAX_WATCHED: usize = 16;
/// Longest line.
pub(crate) const MAX_LINE: usize = 1024;

/// A container, and how it is to be stopped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Watched {
    /// Its name or id.
    pub container: String,
    /// From its signal to SIGKILL.
    pub grace: Duration,
    /// Its first process, once that is known.
    pub init: Option<Init>,
}

/// The first process of a container, which no other can be taken for within a boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Init {
    /// Its pid.
    pub pid: i32,
    /// When it began, in clock ticks since the boot (field 22 of `/proc/PID/stat`).
    pub start: u64,
}

/// One line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    /// Instead of what was told of this container before.
    Watch(Watched),
    Forget(String),
    Done,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Watch(watched) => writeln!(
                f,
                "watch {} {} {} {}",
                watched.container,
                watched.grace.as_millis(),
                watched.init.map_or(0, |init| init.pid),
                watched.init.map_or(0, |init| init.start)
            ),
            Self::Forget(container) => writeln!(f, "forget {container}"),
            Self::Done => writeln!(f, "done"),
        }
    }
}

impl Told {
    /// `None` for a line of another version.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let told = match words.next()? {
            "done" => Self::Done,
            "forget" => Self::Forget(container(words.next()?)?),
            "watch" => Self::Watch(Watched {
                container: container(words.next()?)?,
                grace: Duration::from_millis(words.next()?.parse().ok()?),
                init: Some(Init {
                    pid: words.next()?.parse().ok()?,
                    start: words.next()?.parse().ok()?,
                })
                .filter(|init| init.pid > 0),
            }),
            _ => return None,
        };
        words.next().is_none().then_some(told)
    }
}

/// A name or id that is safe in a path of the engine's API.
pub(crate) fn container(text: &str) -> Option<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    let is_one = !text.is_empty()
        && text.len() <= 255
        && text.bytes().all(plain)
        && text.as_bytes()[0].is_ascii_alphanumeric();
    is_one.then(|| text.to_owned())
}

/// What was told so far.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) watched: BTreeMap<String, Watched>,
    pub(crate) done: bool,
    rest: Vec<u8>,
    /// A line is being skipped that is too long.
    skipping: bool,
}

impl Ledger {
    /// Takes in what has arrived, cut anywhere, and returns the containers that were named.
    pub(crate) fn take(&mut self, bytes: &[u8]) -> Vec<String> {
        let mut named = Vec::new();
        for byte in bytes {
            if *byte != b'\n' {
                self.skipping |= self.rest.len() >= MAX_LINE;
                if !self.skipping {
                    self.rest.push(*byte);
                }
                continue;
            }
            let line = std::mem::take(&mut self.rest);
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            let told = std::str::from_utf8(&line).ok().and_then(Told::parse);
            match told {
                Some(Told::Watch(watched)) => {
                    let known = self.watched.contains_key(&watched.container);
                    if known || self.watched.len() < MAX_WATCHED {
                        named.push(watched.container.clone());
                        self.watched.insert(watched.container.clone(), watched);
                    }
                }
                Some(Told::Forget(container)) => {
                    self.watched.remove(&container);
                }
                Some(Told::Done) => self.done = true,
                None => {}
            }
        }
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watched(container: &str, grace: u64, init: Option<(i32, u64)>) -> Watched {
        Watched {
            container: container.to_owned(),
            grace: Duration::from_millis(grace),
            init: init.map(|(pid, start)| Init { pid, start }),
        }
    }

    #[test]
    fn what_is_told_is_read_wherever_it_is_cut() {
        let mut text = String::new();
        for told in [
            Told::Watch(watched("a", 5000, None)),
            Told::Watch(watched("b.c_d-e", 0, Some((7, 0)))),
            Told::Watch(watched("a", 2500, Some((42, 123_456)))),
            Told::Forget("b.c_d-e".into()),
        ] {
            text.push_str(&told.to_string());
        }
        for size in 1..=text.len() {
            let mut ledger = Ledger::default();
            let mut named = Vec::new();
            for part in text.as_bytes().chunks(size) {
                named.extend(ledger.take(part));
            }
            assert_eq!(named, ["a", "b.c_d-e", "a"]);
            let left: Vec<_> = ledger.watched.into_values().collect();
            assert_eq!(left, [watched("a", 2500, Some((42, 123_456)))]);
            assert!(!ledger.done);
        }
    }

    #[test]
    fn done_counts_only_as_a_whole_line() {
        let mut ledger = Ledger::default();
        ledger.take(b"watch a 1 0 0\ndone");
        assert!(!ledger.done);
        ledger.take(b"\n");
        assert!(ledger.done && ledger.watched.len() == 1);
    }

    #[test]
    fn what_is_not_understood_is_passed_over() {
        let mut ledger = Ledger::default();
        for line in [
            "",
            "done now",
            "forget",
            "watch",
            "watch a",
            "watch a 1",
            "watch a 1 0",
            "watch a x 0 0",
            "watch a -1 0 0",
            "watch a 1 1 -1",
            "watch a 1 0 0 more",
            "watch ../x 1 0 0",
            "watch -x 1 0 0",
            "watch a/b 1 0 0",
            "watch a?b 1 0 0",
            "hello",
        ] {
            assert!(
                ledger.take(format!("{line}\n").as_bytes()).is_empty(),
                "{line}"
            );
        }
        ledger.take(&[0xff, b'\n']);
        let long = format!("watch {} 1 0 0\n", "a".repeat(MAX_LINE));
        ledger.take(long.as_bytes());
        assert!(ledger.watched.is_empty() && !ledger.done);
        for number in 0..100 {
            ledger.take(format!("watch c{number} 1 0 0\n").as_bytes());
        }
        assert_eq!(ledger.watched.len(), MAX_WATCHED);
    }
}
