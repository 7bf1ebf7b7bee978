//! A fake engine in memory, for tests (feature `fake`).
//!
//! It has containers that do what their [`Script`] says, in tokio's time (also paused), and faults that a real
//! engine will not show on demand: [`FakeEngine::fail`], [`FakeEngine::hang`], [`FakeEngine::lose_answer`] for the Nth
//! call of a kind, [`FakeEngine::break_events`], [`FakeEngine::lose_exit`], [`FakeEngine::daemon_down`]. What is sent to it
//! is what a real one would be sent: a spec that [`crate::DockerEngine`] refuses is refused here with the same error.

mod calls;
mod faults;
mod script;
mod world;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;

pub use faults::{Call, LostExit};
pub use script::Script;

use crate::container::ContainerState;
use crate::error::EngineError;
use crate::image::ImageInfo;
use crate::pull::Pulls;
use crate::spec::ContainerSpec;
use faults::{Fault, Faults};
use world::World;

/// The fake engine. Clones are the same engine.
#[derive(Debug, Clone)]
pub struct FakeEngine {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    world: Mutex<World>,
    /// Counts changes of the world.
    changes: watch::Sender<u64>,
    /// Timers of scripts.
    timers: Mutex<JoinSet<()>>,
    pulls: Pulls,
}

impl Default for FakeEngine {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeEngine {
    /// An engine without images and containers.
    #[must_use]
    pub fn new() -> Self {
        Self {
            shared: Arc::new(Shared {
                world: Mutex::new(World::new()),
                changes: watch::Sender::new(0),
                timers: Mutex::default(),
                pulls: Pulls::default(),
            }),
        }
    }

    /// An engine that has the image `name`.
    #[must_use]
    pub fn with_image(name: &str) -> Self {
        let engine = Self::new();
        engine.add_image(name, ImageInfo::default());
        engine
    }

    /// Adds an image; without an id it gets one.
    pub fn add_image(&self, name: &str, image: ImageInfo) {
        self.world().add_image(name, image);
    }

    /// Lets pulls of `name` take `time` and then have it; an image that is nowhere is not found.
    pub fn add_to_registry(&self, name: &str, time: Duration) {
        self.world().registry.insert(world::tagged(name), time);
    }

    /// What the next container that is created does; those after the last do what [`Script::default`] says.
    pub fn script(&self, script: Script) {
        self.world().scripts.push_back(script);
    }

    /// From now on, the `nth` call (from 1) of this kind fails so, without effect.
    pub fn fail(&self, call: Call, nth: usize, error: EngineError) {
        self.world().faults.add(call, Some(nth), Fault::Fail(error));
    }

    /// From now on, the `nth` call of this kind is not answered: it ends with [`EngineError::Timeout`] after 15 s,
    /// and has no effect.
    pub fn hang(&self, call: Call, nth: usize) {
        self.world().faults.add(call, Some(nth), Fault::Hang);
    }

    /// From now on, every call of this kind is not answered, until [`Self::heal`].
    pub fn hang_all(&self, call: Call) {
        self.world().faults.add(call, None, Fault::Hang);
    }

    /// From now on, the `nth` call of this kind has its effect, and its answer is lost
    /// ([`EngineError::Gone`]).
    pub fn lose_answer(&self, call: Call, nth: usize) {
        self.world().faults.add(call, Some(nth), Fault::LoseAnswer);
    }

    /// Forgets all faults that have not come yet.
    pub fn heal(&self) {
        self.world().faults = Faults::default();
    }

    /// The next exit of this container is not told: not by its wait and no event; with [`LostExit::Engine`] not by
    /// inspect either, as when the engine itself missed it.
    pub fn lose_exit(&self, id: &str, lost: LostExit) {
        self.change(|world| {
            if let Some(container) = world.find_mut(id) {
                container.lose_exit = Some(lost);
            }
        });
    }

    /// Breaks the streams of events: what happens until [`Self::mend_events`] is not told.
    pub fn break_events(&self) {
        self.world().break_events();
    }

    /// Opens them again; nothing of what was missed is told.
    pub fn mend_events(&self) {
        self.world().mend_events();
    }

    /// The engine's program ends: calls find nobody, waits and streams break off. Containers run on.
    pub fn daemon_down(&self) {
        self.change(World::go_down);
    }

    /// It starts again. Without `live_restore` it ends the containers that run, with code 255.
    pub fn daemon_up(&self, live_restore: bool) {
        self.change(|world| world.come_up(live_restore));
    }

    /// Lets a container's first process exit with `code` now; false when it does not run.
    pub fn exit(&self, id: &str, code: i64) -> bool {
        self.change(|world| world.exit(id, code, false))
    }

    /// Lets it be killed for lack of memory.
    pub fn oom(&self, id: &str) -> bool {
        self.change(|world| world.exit(id, 137, true))
    }

    /// The calls so far: kind and subject.
    #[must_use]
    pub fn log(&self) -> Vec<(Call, String)> {
        self.world().log.clone()
    }

    /// How often a kind of call was made.
    #[must_use]
    pub fn count(&self, call: Call) -> usize {
        let world = self.world();
        world.log.iter().filter(|(kind, _)| *kind == call).count()
    }

    /// The ids of all containers, in the order of their creation.
    #[must_use]
    pub fn containers(&self) -> Vec<String> {
        let world = self.world();
        world.containers.iter().map(|it| it.id.clone()).collect()
    }

    /// What a container was created from.
    #[must_use]
    pub fn spec(&self, id: &str) -> Option<ContainerSpec> {
        Some(self.world().find(id)?.spec.clone())
    }

    /// How a container really is, whatever was lost.
    #[must_use]
    pub fn state(&self, id: &str) -> Option<ContainerState> {
        Some(self.world().find(id)?.state.clone())
    }

    /// The signals that a container was sent, in order, as they were named.
    #[must_use]
    pub fn signals(&self, id: &str) -> Vec<String> {
        self.world()
            .find(id)
            .map(|it| it.signals.clone())
            .unwrap_or_default()
    }

    /// Waits until `done` finds what it looks for in the log.
    pub async fn until(&self, mut done: impl FnMut(&[(Call, String)]) -> bool) {
        let mut changes = self.shared.changes.subscribe();
        loop {
            if done(&self.world().log) {
                return;
            }
            // The sender is in `self`.
            drop(changes.changed().await);
        }
    }

    /// Waits until `done` finds what it looks for in how a container really is; `None` when it is not there.
    pub async fn until_state(
        &self,
        id: &str,
        mut done: impl FnMut(Option<&ContainerState>) -> bool,
    ) {
        let mut changes = self.shared.changes.subscribe();
        loop {
            if done(self.world().find(id).map(|it| &it.state)) {
                return;
            }
            // The sender is in `self`.
            drop(changes.changed().await);
        }
    }

    /// Sends a signal to a container's first process as the kernel would: the engine has no part in it. False when
    /// there is no process.
    pub fn signal_process(&self, id: &str, signal: &str) -> bool {
        self.change(|world| match world.code_by_kernel(id, signal) {
            Some(Some(code)) => world.exit(id, code, false),
            Some(None) => true,
            None => false,
        })
    }

    /// Renames a container, as `docker rename` does.
    pub fn rename(&self, id: &str, name: &str) {
        self.change(|world| {
            if let Some(container) = world.find_mut(id) {
                name.clone_into(&mut container.name);
            }
        });
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.shared
            .world
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn change<T>(&self, change: impl FnOnce(&mut World) -> T) -> T {
        let result = change(&mut self.world());
        self.shared.changes.send_modify(|count| *count += 1);
        result
    }

    fn later(&self, delay: Duration, change: impl FnOnce(&mut World) + Send + 'static) {
        let shared = Arc::downgrade(&self.shared);
        let mut timers = self
            .shared
            .timers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        while timers.try_join_next().is_some() {}
        timers.spawn(async move {
            tokio::time::sleep(delay).await;
            if let Some(shared) = shared.upgrade() {
                Self { shared }.change(change);
            }
        });
    }
}
