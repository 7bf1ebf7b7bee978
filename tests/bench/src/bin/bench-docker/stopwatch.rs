//! An engine that notes when calls were made and answered.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use longshore_engine::{
    ContainerInfo, ContainerSpec, ContainerSummary, Created, DockerEngine, Engine, EngineFuture,
    EngineVersion, EventFilter, EventStream, ExecInfo, ExecSpec, ExitWait, ImageInfo, ListFilter,
    LogOptions, LogStream, Pull, PullRequest, RemoveOptions, Resources, WaitUntil,
};

/// What was noted of one container.
#[derive(Debug, Clone, Default)]
pub(crate) struct Noted {
    /// The answer to `start`.
    pub(crate) started: Option<Instant>,
    /// The answer to the first `wait` that was answered.
    pub(crate) exited: Option<Instant>,
    /// Each signal, when it was asked for.
    pub(crate) signals: Vec<(String, Instant)>,
}

type Notes = Arc<Mutex<HashMap<String, Noted>>>;

/// The engine itself, and the notes by container id.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    engine: DockerEngine,
    notes: Notes,
}

fn note(notes: &Notes, id: &str, change: impl FnOnce(&mut Noted)) {
    let mut notes = notes.lock().unwrap_or_else(PoisonError::into_inner);
    change(notes.entry(id.to_owned()).or_default());
}

impl Stopwatch {
    pub(crate) fn new(engine: DockerEngine) -> Self {
        Self {
            engine,
            notes: Notes::default(),
        }
    }

    pub(crate) fn of(&self, id: &str) -> Noted {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        notes.remove(id).unwrap_or_default()
    }
}

impl Engine for Stopwatch {
    fn version(&self) -> EngineFuture<'_, EngineVersion> {
        self.engine.version()
    }

    fn pull(&self, request: PullRequest) -> Pull {
        self.engine.pull(request)
    }

    fn inspect_image<'a>(&'a self, image: &'a str) -> EngineFuture<'a, ImageInfo> {
        self.engine.inspect_image(image)
    }

    fn create<'a>(&'a self, spec: &'a ContainerSpec) -> EngineFuture<'a, Created> {
        self.engine.create(spec)
    }

    fn start<'a>(&'a self, id: &'a str) -> EngineFuture<'a, ()> {
        Box::pin(async move {
            let answer = self.engine.start(id).await;
            note(&self.notes, id, |noted| {
                noted.started = Some(Instant::now());
            });
            answer
        })
    }

    fn wait<'a>(&'a self, id: &'a str, until: WaitUntil) -> EngineFuture<'a, ExitWait> {
        Box::pin(async move {
            let wait = self.engine.wait(id, until).await?;
            let (notes, id) = (Arc::clone(&self.notes), id.to_owned());
            Ok(ExitWait::new(Box::pin(async move {
                let answer = wait.await;
                note(&notes, &id, |noted| {
                    noted.exited.get_or_insert_with(Instant::now);
                });
                answer
            })))
        })
    }

    fn kill<'a>(&'a self, id: &'a str, signal: &'a str) -> EngineFuture<'a, ()> {
        note(&self.notes, id, |noted| {
            noted.signals.push((signal.to_owned(), Instant::now()));
        });
        self.engine.kill(id, signal)
    }

    fn stop<'a>(&'a self, id: &'a str, grace: Duration) -> EngineFuture<'a, ()> {
        self.engine.stop(id, grace)
    }

    fn pause<'a>(&'a self, id: &'a str) -> EngineFuture<'a, ()> {
        self.engine.pause(id)
    }

    fn unpause<'a>(&'a self, id: &'a str) -> EngineFuture<'a, ()> {
        self.engine.unpause(id)
    }

    fn remove<'a>(&'a self, id: &'a str, options: RemoveOptions) -> EngineFuture<'a, ()> {
        self.engine.remove(id, options)
    }

    fn inspect<'a>(&'a self, id: &'a str) -> EngineFuture<'a, ContainerInfo> {
        self.engine.inspect(id)
    }

    fn list<'a>(&'a self, filter: &'a ListFilter) -> EngineFuture<'a, Vec<ContainerSummary>> {
        self.engine.list(filter)
    }

    fn update<'a>(
        &'a self,
        id: &'a str,
        resources: &'a Resources,
    ) -> EngineFuture<'a, Vec<String>> {
        self.engine.update(id, resources)
    }

    fn logs<'a>(&'a self, id: &'a str, options: &'a LogOptions) -> EngineFuture<'a, LogStream> {
        self.engine.logs(id, options)
    }

    fn events<'a>(&'a self, filter: &'a EventFilter) -> EngineFuture<'a, EventStream> {
        self.engine.events(filter)
    }

    fn exec_create<'a>(&'a self, id: &'a str, spec: &'a ExecSpec) -> EngineFuture<'a, String> {
        self.engine.exec_create(id, spec)
    }

    fn exec_start<'a>(&'a self, exec: &'a str) -> EngineFuture<'a, LogStream> {
        self.engine.exec_start(exec)
    }

    fn exec_inspect<'a>(&'a self, exec: &'a str) -> EngineFuture<'a, ExecInfo> {
        self.engine.exec_inspect(exec)
    }
}
