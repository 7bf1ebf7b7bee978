//! Between the daemon and the engine: lets most calls through, and hangs, cuts or refuses the others.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::engine::ask;
use crate::random::Random;

/// One call in so many is not let through as it is.
const ONE_IN: usize = 12;
/// How long a call hangs: shorter where the executor has no other way than to wait for it.
const HANG: Duration = Duration::from_secs(25);
const HANG_OF_SLOW: Duration = Duration::from_secs(8);
const MAX_HEAD: usize = 1 << 20;

/// What is done to one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fate {
    Passed,
    /// It does not reach the engine, and after a long time the connection ends.
    Hung,
    /// The same, but the engine has done it.
    HungDone,
    /// The connection ends at once.
    Cut,
    /// The same, but the engine has done it.
    CutDone,
    /// What the engine sends breaks off at some moment.
    Broken,
    /// 500 by the proxy.
    Refused,
}

#[derive(Debug)]
pub(super) struct Proxy {
    engine: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    random: Random,
    quiet: bool,
    frozen_until: Option<Instant>,
    counts: BTreeMap<Fate, u32>,
    /// Containers, by name, whose start was refused.
    refused_starts: BTreeSet<String>,
}

impl Proxy {
    /// Listens at `path` from now on, as long as the process lives.
    pub(super) fn start(path: &Path, engine: &Path, seed: u64) -> Arc<Self> {
        let listener = UnixListener::bind(path).unwrap();
        let proxy = Arc::new(Self {
            engine: engine.to_owned(),
            state: Mutex::new(State {
                random: Random::new(seed),
                quiet: false,
                frozen_until: None,
                counts: BTreeMap::new(),
                refused_starts: BTreeSet::new(),
            }),
        });
        let shared = Arc::clone(&proxy);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let shared = Arc::clone(&shared);
                // A connection that breaks is what this is for.
                std::thread::spawn(move || shared.serve(client).ok());
            }
        });
        proxy
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on all calls go through.
    pub(super) fn calm(&self) {
        let mut state = self.state();
        state.quiet = true;
        state.frozen_until = None;
    }

    /// Nothing goes through for so long, in either direction.
    pub(super) fn freeze(&self, time: Duration) {
        self.state().frozen_until = Some(Instant::now() + time);
    }

    pub(super) fn counts(&self) -> BTreeMap<Fate, u32> {
        self.state().counts.clone()
    }

    pub(super) fn has_refused_start(&self, container: &str) -> bool {
        self.state().refused_starts.contains(container)
    }

    fn thawed(&self) {
        loop {
            let until = self.state().frozen_until;
            let left = until.and_then(|until| until.checked_duration_since(Instant::now()));
            match left {
                Some(left) if !left.is_zero() => std::thread::park_timeout(left),
                _ => return,
            }
        }
    }

    /// What becomes of a call, and after how long.
    fn draw(&self, request: &Request) -> (Fate, Duration) {
        let mut state = self.state();
        let mut fate = match state.random.below(ONE_IN * 6) {
            _ if state.quiet => Fate::Passed,
            0 => Fate::Hung,
            1 => Fate::HungDone,
            2 => Fate::Cut,
            3 => Fate::CutDone,
            4 => Fate::Refused,
            5 => Fate::Broken,
            _ => Fate::Passed,
        };
        if fate == Fate::Passed && request.is_stream() && !state.quiet && state.random.below(4) == 0
        {
            fate = Fate::Broken;
        }
        let longest = match fate {
            // Who has done something is told by events, and they are not waited for that long.
            Fate::Hung | Fate::HungDone if request.path.contains("/events") => {
                fate = Fate::Cut;
                HANG
            }
            Fate::Hung | Fate::HungDone if request.is_slow() => HANG_OF_SLOW,
            _ => HANG,
        };
        let after = state.random.up_to(longest);
        (fate, after)
    }

    fn count(&self, fate: Fate) {
        *self.state().counts.entry(fate).or_default() += 1;
    }

    fn serve(&self, mut client: UnixStream) -> io::Result<()> {
        let request = Request::read(&mut client)?;
        self.thawed();
        let (mut fate, after) = self.draw(&request);
        if fate == Fate::Refused
            && let Some(id) = request.started()
        {
            // Whose start it is has to be known.
            match ask(&self.engine, "GET", &format!("/containers/{id}/json"))
                .and_then(|answer| Some(answer.json()["Name"].as_str()?.to_owned()))
            {
                Some(name) => {
                    let name = name.trim_start_matches('/').to_owned();
                    self.state().refused_starts.insert(name);
                }
                None => fate = Fate::Cut,
            }
        }
        self.count(fate);
        match fate {
            Fate::Cut => return Ok(()),
            Fate::Hung => {
                std::thread::park_timeout(after);
                return Ok(());
            }
            Fate::Refused => {
                let body = r#"{"message":"chaos"}"#;
                return write!(
                    client,
                    "HTTP/1.1 500 Internal Server Error\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                    body.len()
                );
            }
            Fate::Passed | Fate::HungDone | Fate::CutDone | Fate::Broken => {}
        }
        let mut engine = UnixStream::connect(&self.engine)?;
        engine.write_all(&request.bytes)?;
        match fate {
            Fate::CutDone | Fate::HungDone => {
                // Until the engine has begun to answer, or for a while.
                engine.set_read_timeout(Some(HANG_OF_SLOW))?;
                drop(engine.read(&mut [0]));
                if fate == Fate::HungDone {
                    std::thread::park_timeout(after);
                }
                return Ok(());
            }
            Fate::Broken => {
                // Both halves see its end.
                let (one, other) = (client.try_clone()?, engine.try_clone()?);
                std::thread::spawn(move || {
                    std::thread::park_timeout(after);
                    drop(one.shutdown(Shutdown::Both));
                    drop(other.shutdown(Shutdown::Both));
                });
            }
            _ => {}
        }
        let (client_in, engine_out) = (client.try_clone()?, engine.try_clone()?);
        // Nothing more comes of the client but the end, or the input of a command.
        std::thread::spawn(move || {
            let mut client_in = client_in;
            let mut engine_out = engine_out;
            drop(io::copy(&mut client_in, &mut engine_out));
            drop(engine_out.shutdown(Shutdown::Both));
        });
        let mut buffer = vec![0; 64 << 10];
        loop {
            let length = engine.read(&mut buffer)?;
            if length == 0 {
                break;
            }
            self.thawed();
            client.write_all(&buffer[..length])?;
        }
        drop(client.shutdown(Shutdown::Both));
        Ok(())
    }
}

/// The request of a connection; the daemon sends one on each.
struct Request {
    bytes: Vec<u8>,
    method: String,
    path: String,
}

impl Request {
    fn read(client: &mut UnixStream) -> io::Result<Self> {
        let mut bytes = Vec::new();
        let mut buffer = [0; 16 << 10];
        loop {
            if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
                let length: usize = head
                    .lines()
                    .filter_map(|line| line.split_once(':'))
                    .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
                    .and_then(|(_, value)| value.trim().parse().ok())
                    .unwrap_or(0);
                if bytes.len() >= end + 4 + length {
                    let mut words = head.split(' ');
                    let mut next = || words.next().unwrap_or_default().to_owned();
                    let (method, path) = (next(), next());
                    return Ok(Self {
                        bytes,
                        method,
                        path,
                    });
                }
            }
            let read = client.read(&mut buffer)?;
            if read == 0 || bytes.len() > MAX_HEAD {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            bytes.extend_from_slice(&buffer[..read]);
        }
    }

    fn started(&self) -> Option<&str> {
        let path = self.path.split('?').next()?.strip_suffix("/start")?;
        let (before, id) = path.rsplit_once('/')?;
        before.ends_with("/containers").then_some(id)
    }

    /// Calls with a deadline of minutes.
    fn is_slow(&self) -> bool {
        self.started().is_some()
            || self.path.contains("/containers/create")
            || self.method == "DELETE"
    }

    fn is_stream(&self) -> bool {
        ["/events", "/logs?", "/wait?"]
            .iter()
            .any(|word| self.path.contains(word))
    }
}
