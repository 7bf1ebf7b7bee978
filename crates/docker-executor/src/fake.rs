//! Processes for tests in virtual time: those of the fake engine's containers. Feature `fake`.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use longshore_engine::EngineTime;
use longshore_engine::fake::FakeEngine;

use crate::{HeldProcess, Holding, ProcessId, Processes};

/// The first processes of a fake engine's containers, as the kernel would know them: whatever the engine says or does not
/// say, an exit is seen.
#[derive(Clone, Debug)]
pub struct FakeProcesses {
    engine: FakeEngine,
}

impl FakeProcesses {
    /// Those of `engine`.
    #[must_use]
    pub const fn of(engine: FakeEngine) -> Self {
        Self { engine }
    }
}

#[derive(Debug)]
struct Held {
    engine: FakeEngine,
    container: String,
    id: ProcessId,
    begun: Option<EngineTime>,
}

impl HeldProcess for Held {
    fn id(&self) -> ProcessId {
        self.id
    }

    fn died(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.engine.until_state(&self.container, |state| {
            state.is_none_or(|state| {
                !state.status.may_have_process() || state.started_at != self.begun
            })
        }))
    }

    fn signal(&self, signal: &str) -> io::Result<()> {
        let same = self
            .engine
            .state(&self.container)
            .is_some_and(|state| state.started_at == self.begun);
        if same && self.engine.signal_process(&self.container, signal) {
            Ok(())
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    }
}

impl Processes for FakeProcesses {
    fn hold(&self, pid: i32, start: Option<u64>, container: &str) -> Holding {
        let state = self
            .engine
            .state(container)
            .filter(|state| state.status.may_have_process() && state.pid == Some(pid));
        let Some(state) = state else {
            return Holding::Ended;
        };
        let begun = state.started_at;
        let id = ProcessId {
            pid,
            start: begun.map_or(0, |time| time.as_nanos().unsigned_abs()),
        };
        if start.is_some_and(|start| start != id.start) {
            return Holding::Ended;
        }
        Holding::Held(Arc::new(Held {
            engine: self.engine.clone(),
            container: container.to_owned(),
            id,
            begun,
        }))
    }

    fn find(&self, container: &str) -> Option<i32> {
        self.engine.state(container)?.pid
    }

    fn kill_tree(&self, _pid: i32, _container: &str) {}
}
