//! The plugins of a play: those that are started here, and those that come to a socket.

use std::ffi::OsString;
use std::net::Shutdown;
use std::os::unix::net::UnixStream as StdStream;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longshore_nri_adaptation::launch::{Child, Exit, Program, spawn};
use longshore_nri_adaptation::socket::{Listener, SocketOptions};
use longshore_nri_adaptation::{Adaptation, CloseCause, PluginKind, PluginState};
use longshore_nri_api::PluginId;
use longshore_ttrpc::CloseReason;
use tokio::net::UnixStream;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::{SimulateError, Site};

/// How long a plugin has to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(2);

/// How long a process whose connection has ended may take to end too, before that is told instead.
const LAST_WORDS: Duration = Duration::from_secs(3);

/// What became of a plugin that was waited for.
enum Came {
    Active,
    Exit(Exit),
    Closed(CloseCause),
}

/// Who takes part.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum Plugins {
    /// Commands, started as launched plugins are: a socket as descriptor 3, three variables.
    Commands(Vec<Command>),
    /// Whoever comes to this socket; at least one plugin is waited for.
    Listen(PathBuf),
    /// Those that the runtime serves and launches itself; nobody is waited for.
    Site(Box<Site>),
}

/// A plugin to start.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Command {
    /// Index and name.
    pub id: PluginId,
    /// The executable, absolute.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
}

impl Command {
    /// A program that is looked for in PATH when its name has no slash, else from `directory`.
    ///
    /// # Errors
    /// [`SimulateError::Plugin`] when it is not found.
    pub fn new(
        id: PluginId,
        program: &Path,
        args: Vec<OsString>,
        directory: &Path,
    ) -> Result<Self, SimulateError> {
        let found = if program.components().count() > 1 || program.is_absolute() {
            Some(directory.join(program)).filter(|path| path.is_file())
        } else {
            let path = std::env::var_os("PATH").unwrap_or_default();
            std::env::split_paths(&path)
                .map(|place| directory.join(place).join(program))
                .find(|path| path.is_file())
        };
        match found {
            Some(program) => Ok(Self { id, program, args }),
            None => Err(SimulateError::Plugin {
                plugin: id.to_string(),
                why: format!("there is no {}: name an executable", program.display()),
            }),
        }
    }
}

/// The plugins while they run.
pub(crate) struct Crew {
    plugins: Plugins,
    wait: Duration,
    waiting: fn(&Path, Duration),
    running: Vec<Running>,
    idle: Vec<UnixStream>,
    door: Arc<Door>,
    accepting: Option<JoinHandle<()>>,
}

/// A plugin that was started.
struct Running {
    id: PluginId,
    child: Child,
    /// Resolves when its connection has ended, to why.
    ended: Pin<Box<dyn Future<Output = Option<CloseCause>> + Send>>,
}

/// Where connections go: to the runtime that is up, if one is.
#[derive(Default)]
struct Door {
    state: Mutex<DoorState>,
}

#[derive(Default)]
struct DoorState {
    runtime: Option<Adaptation>,
    connections: Vec<StdStream>,
}

impl Door {
    fn admit(&self, stream: UnixStream) -> std::io::Result<()> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(runtime) = state.runtime.clone() else {
            return Ok(());
        };
        let stream = stream.into_std()?;
        state.connections.push(stream.try_clone()?);
        runtime.attach(UnixStream::from_std(stream)?);
        Ok(())
    }

    fn set(&self, runtime: Option<Adaptation>) {
        self.state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .runtime = runtime;
    }

    fn cut(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for connection in state.connections.drain(..) {
            if let Err(error) = connection.shutdown(Shutdown::Both) {
                tracing::debug!(%error, "a connection was gone before it was cut");
            }
        }
    }
}

impl Crew {
    /// Makes the socket, where there is to be one. Starts nothing.
    pub(crate) fn new(
        plugins: Plugins,
        wait: Duration,
        waiting: fn(&Path, Duration),
    ) -> Result<Self, SimulateError> {
        let door = Arc::new(Door::default());
        let accepting = match &plugins {
            Plugins::Commands(_) | Plugins::Site(_) => None,
            Plugins::Listen(path) => {
                let listener = Listener::bind(&SocketOptions::new(path))?;
                Some(tokio::spawn(accept(listener, Arc::clone(&door))))
            }
        };
        Ok(Self {
            plugins,
            wait,
            waiting,
            running: Vec::new(),
            idle: Vec::new(),
            door,
            accepting,
        })
    }

    /// Connections that say nothing.
    pub(crate) fn idle(&mut self, runtime: &Adaptation, peers: usize) -> Result<(), SimulateError> {
        for _ in 0..peers {
            let (near, far) = UnixStream::pair().map_err(SimulateError::Idle)?;
            runtime.attach(near);
            self.idle.push(far);
        }
        Ok(())
    }

    /// Starts the plugins, or lets them in, and waits until they are active.
    pub(crate) async fn start(&mut self, runtime: &Adaptation) -> Result<(), SimulateError> {
        self.door.set(Some(runtime.clone()));
        if let Plugins::Commands(commands) = &self.plugins {
            for command in commands {
                let program =
                    Program::untrusted(command.id.clone(), &command.program, command.args.clone());
                let plugin = || command.id.to_string();
                let mut child = spawn(&program)
                    .await
                    .map_err(|source| SimulateError::Launch {
                        plugin: plugin(),
                        source,
                    })?;
                let Some(stream) = child.take_stream() else {
                    return Err(SimulateError::Plugin {
                        plugin: plugin(),
                        why: "its socket is gone".to_owned(),
                    });
                };
                let pid = u32::try_from(child.pid()).ok();
                let ended = runtime.attach_launched(stream, command.id.clone(), pid);
                self.running.push(Running {
                    id: command.id.clone(),
                    child,
                    ended: Box::pin(ended),
                });
            }
        }
        self.active(runtime).await
    }

    async fn active(&mut self, runtime: &Adaptation) -> Result<(), SimulateError> {
        let began = Instant::now();
        let deadline = began + self.wait;
        let late = |what: String, more: String| SimulateError::NobodyCame {
            what,
            within: self.wait,
            more,
        };
        if let Plugins::Listen(path) = &self.plugins {
            let mut changes = runtime.changes();
            if guests(runtime) == 0 {
                (self.waiting)(path, self.wait);
            }
            while guests(runtime) == 0 {
                match timeout_at(deadline, changes.changed()).await {
                    Ok(Ok(())) => {}
                    _ => {
                        let what = format!("no plugin came to {}", path.display());
                        return Err(late(what, String::new()));
                    }
                }
            }
            return Ok(());
        }
        for Running { id, child, ended } in &mut self.running {
            let name = id.to_string();
            let here = async {
                tokio::select! {
                    () = runtime.active(&name) => Came::Active,
                    exit = child.wait() => Came::Exit(exit),
                    Some(cause) = ended => Came::Closed(cause),
                }
            };
            let came = match timeout_at(deadline, here).await {
                // Its process ends too, most likely, and says more.
                Ok(Came::Closed(cause)) => {
                    match timeout_at(Instant::now() + LAST_WORDS, child.wait()).await {
                        Ok(exit) => Ok(Came::Exit(exit)),
                        Err(_) => Ok(Came::Closed(cause)),
                    }
                }
                came => came,
            };
            let more = || closed_because(runtime, &name, began) + &last_words(child);
            return Err(match came {
                Ok(Came::Active) => continue,
                Ok(Came::Exit(exit)) => SimulateError::Ended {
                    more: more(),
                    plugin: name,
                    exit,
                },
                Ok(Came::Closed(cause)) => SimulateError::Closed {
                    plugin: name,
                    cause: cause.to_string(),
                    more: last_words(child),
                },
                Err(_) => late(format!("plugin {name:?} was not active"), more()),
            });
        }
        Ok(())
    }

    /// Kills what was started and cuts the connections of others; waits until the runtime has seen it.
    pub(crate) async fn kill(&mut self, runtime: &Adaptation) {
        self.door.set(None);
        for Running { child, .. } in &mut self.running {
            child.terminate(Duration::ZERO).await;
        }
        self.running.clear();
        self.door.cut();
        let deadline = Instant::now() + self.wait;
        let mut changes = runtime.changes();
        while guests(runtime) > 0 {
            if !matches!(timeout_at(deadline, changes.changed()).await, Ok(Ok(()))) {
                break;
            }
        }
    }

    /// Lets nobody in any more; what was started ends gracefully.
    pub(crate) async fn end(&mut self) {
        self.door.set(None);
        for Running { child, .. } in &mut self.running {
            child.terminate(GRACE).await;
        }
        self.running.clear();
        self.idle.clear();
        self.door.cut();
    }

    /// Whether this plugin was started, and not killed since.
    pub(crate) fn started(&self, plugin: &str) -> bool {
        self.child(plugin).is_some()
    }

    /// The process of a plugin that was started.
    pub(crate) fn pid(&self, plugin: &str) -> Option<u32> {
        u32::try_from(self.child(plugin)?.pid()).ok()
    }

    /// How the process of a plugin that was started ended, if it has, and its last words; or nothing.
    pub(crate) fn end_of(&self, plugin: &str) -> String {
        let Some(child) = self.child(plugin) else {
            return String::new();
        };
        let exit = child.exited().map(|exit| format!("; its process {exit}"));
        exit.unwrap_or_default() + &last_words(child)
    }

    fn child(&self, plugin: &str) -> Option<&Child> {
        let mut running = self.running.iter();
        let running = running.find(|running| running.id.to_string() == plugin)?;
        Some(&running.child)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        if let Some(accepting) = &self.accepting {
            accepting.abort();
        }
    }
}

/// Plugins from outside that are active.
fn guests(runtime: &Adaptation) -> usize {
    let plugins = runtime.plugins();
    let active = plugins.iter().filter(|plugin| {
        plugin.state == PluginState::Active
            && plugin.kind.is_some_and(|kind| kind != PluginKind::Builtin)
    });
    active.count()
}

fn last_words(child: &Child) -> String {
    match child.last_words() {
        words if words.is_empty() => words,
        words => format!("; it said: {words}"),
    }
}

/// Why the runtime closed a plugin since then; nothing where the plugin did.
fn closed_because(runtime: &Adaptation, plugin: &str, since: Instant) -> String {
    let hung_up = CloseReason::PeerClosed.to_string();
    let plugins = runtime.plugins().into_iter();
    let mut closed = plugins
        .filter(|status| status.name == plugin)
        .filter_map(|status| status.closed);
    match closed.find(|closed| closed.at >= since && closed.reason != hung_up) {
        Some(closed) => format!("; the runtime closed it: {}", closed.reason),
        None => String::new(),
    }
}

async fn accept(mut listener: Listener, door: Arc<Door>) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                if let Err(error) = door.admit(stream) {
                    tracing::warn!(?peer, %error, "a connection could not be taken");
                }
            }
            Err(error) => {
                tracing::warn!(%error, "no connection could be accepted");
                // Out of descriptors, most likely: what is open has to end first.
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}
