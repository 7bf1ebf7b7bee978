//! A scripted fake of a CSI plugin, on the wire: in the test's process ([`FakePlugin`]) or as a program of its own
//! ([`program`], `fake-csi-plugin`).
//!
//! ```no_run
//! # async fn test() -> std::io::Result<()> {
//! use longshore_testkit::csi::{Behaviour, FakePlugin};
//! let dir = tempfile::tempdir()?;
//! let plugin = FakePlugin::start(dir.path().join("csi.sock"), Behaviour { not_ready: 2, ..Behaviour::v1() });
//! // ... probe it ...
//! assert_eq!(plugin.seen().probes, 3);
//! # Ok(()) }
//! ```
//!
//! The program takes the same behaviours as arguments (see [`Script::parse`]) and listens on `CSI_ENDPOINT`.

mod listen;
mod script;
mod service;

use std::{
    io,
    path::{Path, PathBuf},
    process::Command,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use tokio::sync::{oneshot, watch};

pub use listen::serve;
pub use script::{Script, ScriptError};

/// What a fake plugin does. Start from [`v1`](Self::v1), [`v0`](Self::v0), [`both`](Self::both) or
/// [`none`](Self::none) and change what the test is about.
#[derive(Clone, Debug)]
pub struct Behaviour {
    /// Serves `csi.v0`.
    pub v0: bool,
    /// Serves `csi.v1`.
    pub v1: bool,
    /// Serves the controller service.
    pub controller: bool,
    /// Serves the node service.
    pub node: bool,
    /// Answers `NodeGetInfo` (a 0.2 plugin does not).
    pub node_get_info: bool,
    /// The probe's answer has a `ready` field (a 0.2 plugin's has not).
    pub ready_field: bool,
    /// GetPluginInfo's name.
    pub name: String,
    /// NodeGetInfo's and NodeGetId's id.
    pub node_id: String,
    /// How many probes are answered with `ready = false` first.
    pub not_ready: u32,
    /// How many probes are answered with UNAVAILABLE first (before those that are not ready).
    pub unavailable: u32,
    /// Every probe is answered with this gRPC code.
    pub status: Option<i32>,
    /// Every probe after so many is never answered.
    pub hang_after: Option<u32>,
    /// GetPluginInfo's manifest has so many bytes.
    pub manifest_bytes: usize,
    /// What a connection meets.
    pub speak: Speak,
    /// Where it listens.
    pub listen: Listen,
    /// Waits before `bind`.
    pub bind_delay: Duration,
    /// Waits between `bind` and `listen`.
    pub listen_delay: Duration,
}

/// What a connection meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speak {
    /// gRPC.
    Grpc,
    /// Bytes that are no HTTP/2.
    Garbage,
    /// An HTTP/1 server's refusal.
    Http1,
    /// It is closed at once.
    Close,
    /// It is held open and never read.
    Nothing,
}

/// Where a fake plugin listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// Where it is told to.
    Endpoint,
    /// Nowhere.
    Never,
    /// It binds and never calls `listen`.
    BindOnly,
    /// On another path.
    Elsewhere(PathBuf),
}

impl Behaviour {
    /// A well-behaved v1 plugin with both services.
    #[must_use]
    pub fn v1() -> Self {
        Self {
            v0: false,
            v1: true,
            controller: true,
            node: true,
            node_get_info: true,
            ready_field: true,
            name: "fake.csi.longshore".to_owned(),
            node_id: "fake-node".to_owned(),
            not_ready: 0,
            unavailable: 0,
            status: None,
            hang_after: None,
            manifest_bytes: 0,
            speak: Speak::Grpc,
            listen: Listen::Endpoint,
            bind_delay: Duration::ZERO,
            listen_delay: Duration::ZERO,
        }
    }

    /// A well-behaved 0.3 plugin.
    #[must_use]
    pub fn v0() -> Self {
        Self {
            v0: true,
            v1: false,
            ..Self::v1()
        }
    }

    /// A 0.2 plugin: no `ready`, no `NodeGetInfo`.
    #[must_use]
    pub fn v0_2() -> Self {
        Self {
            ready_field: false,
            node_get_info: false,
            ..Self::v0()
        }
    }

    /// A plugin that speaks both versions.
    #[must_use]
    pub fn both() -> Self {
        Self {
            v0: true,
            ..Self::v1()
        }
    }

    /// A gRPC server that implements neither version.
    #[must_use]
    pub fn none() -> Self {
        Self {
            v1: false,
            ..Self::v1()
        }
    }
}

/// What a fake plugin has seen so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// Connections accepted.
    pub connections: u32,
    /// Probe calls, answered or not.
    pub probes: u32,
    /// Every call in order, as `v1 Probe`; the first thousand.
    pub calls: Vec<String>,
    /// `:scheme` and `:authority` of the last request.
    pub origin: Option<(String, String)>,
}

/// Shared by everything that serves one fake plugin.
#[derive(Clone, Debug)]
pub struct Shared {
    behaviour: Arc<Mutex<Behaviour>>,
    seen: watch::Sender<Seen>,
}

impl Shared {
    /// A plugin that has seen nothing yet.
    #[must_use]
    pub fn new(behaviour: Behaviour) -> Self {
        Self {
            behaviour: Arc::new(Mutex::new(behaviour)),
            seen: watch::Sender::new(Seen::default()),
        }
    }

    fn behaviour(&self) -> MutexGuard<'_, Behaviour> {
        self.behaviour
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn call(&self, call: &str) {
        self.seen.send_modify(|seen| {
            if seen.calls.len() < 1000 {
                seen.calls.push(call.to_owned());
            }
        });
    }

    /// What was seen, as it changes.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Seen> {
        self.seen.subscribe()
    }
}

/// A fake plugin in the test's own process, on a thread and runtime of its own. Dropping it closes its socket and all
/// its connections before it returns; the file stays, as it does when a process is killed.
#[derive(Debug)]
pub struct FakePlugin {
    socket: PathBuf,
    shared: Shared,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl FakePlugin {
    /// Starts serving on `socket`, whose directory exists. A file that is already there is replaced.
    #[must_use]
    pub fn start(socket: impl Into<PathBuf>, behaviour: Behaviour) -> Self {
        let socket = socket.into();
        let shared = Shared::new(behaviour);
        let (stop, stopped) = oneshot::channel();
        let (path, state) = (socket.clone(), shared.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build();
            // A failure to serve is seen by the test as a plugin that does not listen.
            let served = runtime.map(|runtime| {
                runtime.block_on(async {
                    tokio::select! {
                        served = serve(path, state) => served,
                        _ = stopped => Ok(()),
                    }
                })
            });
            drop(served);
        });
        Self {
            socket,
            shared,
            stop: Some(stop),
            thread: Some(thread),
        }
    }

    /// The path that it was told.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// What it has seen so far.
    #[must_use]
    pub fn seen(&self) -> Seen {
        self.shared.seen.borrow().clone()
    }

    /// What it has seen, as it changes.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<Seen> {
        self.shared.watch()
    }

    /// Changes what it does from the next call on (what it listens on stays).
    pub fn change(&self, change: impl FnOnce(&mut Behaviour)) {
        change(&mut self.shared.behaviour());
    }

    /// Waits until `n` probes have come in; a test gives it a deadline.
    pub async fn probed(&self, n: u32) {
        let mut seen = self.watch();
        // The sender lives in `self`.
        drop(seen.wait_for(|seen| seen.probes >= n).await);
    }
}

impl Drop for FakePlugin {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It ends by itself once told; a panic in there has been printed.
            drop(thread.join());
        }
    }
}

/// The program `fake-csi-plugin`, built (by the cargo that runs the test) at the first call.
///
/// # Panics
/// When it cannot be built.
#[must_use]
pub fn program() -> PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM
        .get_or_init(|| built("testkit", "fake-csi-plugin"))
        .clone()
}

/// A program of the crate in `crates/<folder>`, built by the cargo that runs the test.
///
/// # Panics
/// When it cannot be built.
#[must_use]
pub fn built(folder: &str, name: &str) -> PathBuf {
    match build(folder, name) {
        Ok(path) => path,
        Err(error) => panic!("cannot build {name}: {error}"),
    }
}

/// `cargo build` into the target directory of the running test, whose profile it shares.
fn build(folder: &str, name: &str) -> io::Result<PathBuf> {
    let test = std::env::current_exe()?;
    // <target>/<profile>/deps/<test>, or <target>/<profile>/<binary>.
    let profile = test
        .ancestors()
        .skip(1)
        .find(|dir| {
            dir.file_name()
                .is_some_and(|n| n != "deps" && n != "examples")
        })
        .ok_or_else(|| io::Error::other("the test runs outside a target directory"))?;
    let target = profile
        .parent()
        .ok_or_else(|| io::Error::other("no target directory"))?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["build", "--quiet", "--manifest-path"])
        .arg(format!(
            "{}/../{folder}/Cargo.toml",
            env!("CARGO_MANIFEST_DIR")
        ))
        .args(["--bin", name])
        .arg("--target-dir")
        .arg(target);
    if profile.file_name().is_some_and(|n| n == "release") {
        command.arg("--release");
    }
    let output = command.output()?;
    if output.status.success() {
        Ok(profile.join(name))
    } else {
        Err(io::Error::other(
            String::from_utf8_lossy(&output.stderr).into_owned(),
        ))
    }
}

#[cfg(test)]
mod tests;
