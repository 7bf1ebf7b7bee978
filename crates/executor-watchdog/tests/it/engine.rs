//! An engine with one container, as far as a watchdog asks of it.

use std::collections::HashSet;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tempfile::TempDir;

/// The one container.
#[derive(Debug, Clone)]
pub(crate) struct Container {
    pub(crate) exists: bool,
    pub(crate) running: bool,
    pub(crate) paused: bool,
    pub(crate) stop_signal: &'static str,
    /// Signals that it does not heed.
    pub(crate) ignores: HashSet<&'static str>,
}

impl Default for Container {
    fn default() -> Self {
        Self {
            exists: true,
            running: true,
            paused: false,
            stop_signal: "",
            ignores: HashSet::new(),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    container: Container,
    log: Vec<(Instant, String)>,
    hangs: bool,
    /// Connections that are never answered.
    held: Vec<UnixStream>,
}

pub(crate) struct FakeEngine {
    pub(crate) dir: TempDir,
    state: Arc<Mutex<State>>,
}

impl FakeEngine {
    pub(crate) fn start(container: Container) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(dir.path().join("docker.sock")).unwrap();
        let state = Arc::new(Mutex::new(State {
            container,
            ..State::default()
        }));
        let shared = Arc::clone(&state);
        // Ends with the process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                serve(&shared, stream);
            }
        });
        Self { dir, state }
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("docker.sock")
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Container)) {
        change(&mut self.state.lock().unwrap().container);
    }

    pub(crate) fn hang(&self, hangs: bool) {
        self.state.lock().unwrap().hangs = hangs;
    }

    /// How many requests were never answered.
    pub(crate) fn held(&self) -> usize {
        self.state.lock().unwrap().held.len()
    }

    pub(crate) fn container(&self) -> Container {
        self.state.lock().unwrap().container.clone()
    }

    /// What was asked, but for looks, with the time of each.
    pub(crate) fn log(&self) -> Vec<(Instant, String)> {
        let state = self.state.lock().unwrap();
        let asked = state.log.iter();
        asked
            .filter(|(_, line)| !line.starts_with("GET"))
            .cloned()
            .collect()
    }

    pub(crate) fn words(&self) -> Vec<String> {
        self.log().into_iter().map(|(_, line)| line).collect()
    }

    pub(crate) fn is_untouched(&self) -> bool {
        self.state.lock().unwrap().log.is_empty()
    }
}

fn serve(state: &Mutex<State>, mut stream: UnixStream) {
    let mut line = String::new();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    if reader.read_line(&mut line).is_err() {
        return;
    }
    let mut header = String::new();
    while reader.read_line(&mut header).is_ok_and(|count| count > 2) {
        header.clear();
    }
    let mut words = line.split(' ');
    let (method, target) = (words.next().unwrap(), words.next().unwrap_or_default());
    let mut state = state.lock().unwrap();
    if state.hangs {
        state.held.push(stream);
        return;
    }
    state
        .log
        .push((Instant::now(), format!("{method} {target}")));
    let (status, body) = answer(&mut state.container, method, target);
    // The watchdog may have been killed.
    let _gone = write!(
        stream,
        "HTTP/1.0 {status} X\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
}

fn answer(container: &mut Container, method: &str, target: &str) -> (u16, String) {
    let Some(rest) = target.strip_prefix("/containers/task") else {
        return (404, "{}".to_owned());
    };
    if !container.exists {
        return (404, "{}".to_owned());
    }
    match (method, rest.split('?').next().unwrap_or_default()) {
        ("GET", "/json") => {
            let body = serde_json_text(container);
            (200, body)
        }
        ("POST", "/unpause") => {
            container.paused = false;
            (204, String::new())
        }
        ("POST", "/kill") => {
            let signal = rest.rsplit('=').next().unwrap_or_default();
            if !container.running || container.paused && signal != "SIGKILL" {
                return (409, "{}".to_owned());
            }
            container.running = container.ignores.contains(signal);
            (204, String::new())
        }
        ("DELETE", "") => {
            container.exists = false;
            (204, String::new())
        }
        _ => (400, "{}".to_owned()),
    }
}

fn serde_json_text(container: &Container) -> String {
    format!(
        r#"{{"State":{{"Running":{},"Paused":{}}},"Config":{{"StopSignal":"{}"}}}}"#,
        container.running, container.paused, container.stop_signal
    )
}

/// A path in the engine's directory.
pub(crate) fn beside(engine: &FakeEngine, name: &str) -> PathBuf {
    Path::new(engine.dir.path()).join(name)
}
