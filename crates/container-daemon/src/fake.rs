//! A runtime for tests: one container in memory, every call recorded, any call can be made to
//! fail. Feature `fake`.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use longshore_agent_client::Launched;
use longshore_mesos_api::v1::ContainerId;
use longshore_mesos_api::v1::agent::call::LaunchContainer;
use tokio::sync::watch;

use crate::exit::Exit;
use crate::failure::{Failure, LaunchFailure};
use crate::runtime::ContainerRuntime;

/// A call of the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FakeCall {
    /// LAUNCH_CONTAINER.
    Launch,
    /// WAIT_CONTAINER.
    Wait,
    /// KILL_CONTAINER.
    Kill,
}

/// What goes wrong with one call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It never reaches the agent.
    NotSent,
    /// The agent refuses it; `true` for good (a 403).
    Refused(bool),
    /// It is carried out, and the answer is lost (for WAIT: the connection is cut).
    Lost,
    /// It is carried out and never answered.
    Hangs,
}

/// One container in memory.
#[derive(Debug)]
pub struct FakeRuntime {
    state: Mutex<State>,
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct State {
    alive: bool,
    ignores_term: bool,
    exits_at_once: bool,
    launches: Vec<LaunchContainer>,
    exits: u64,
    last_exit: Option<Exit>,
    kills: Vec<i32>,
    waits: u64,
    faults: VecDeque<(FakeCall, Fault)>,
}

impl Default for FakeRuntime {
    fn default() -> Self {
        Self {
            state: Mutex::default(),
            changed: watch::Sender::new(0),
        }
    }
}

impl FakeRuntime {
    /// Nothing runs, nothing fails.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The next call of this kind that has no fault yet fails like this.
    pub fn fault(&self, call: FakeCall, fault: Fault) {
        self.lock().faults.push_back((call, fault));
        self.tell();
    }

    /// Whether the container ignores SIGTERM.
    pub fn ignores_term(&self, ignores: bool) {
        self.lock().ignores_term = ignores;
    }

    /// Whether the container exits with 0 as soon as it was launched.
    pub fn exits_at_once(&self, exits: bool) {
        self.lock().exits_at_once = exits;
    }

    /// A container is there already.
    pub fn present(&self) {
        self.lock().alive = true;
        self.tell();
    }

    /// The container ends with this raw wait(2) status.
    pub fn exit(&self, status: i32) {
        self.lock().end(Exit {
            status: Some(status),
            ..Exit::default()
        });
        self.tell();
    }

    /// The container vanishes: WAIT answers 404.
    pub fn vanish(&self) {
        self.lock().end(Exit::unknown());
        self.tell();
    }

    /// Whether it runs.
    #[must_use]
    pub fn alive(&self) -> bool {
        self.lock().alive
    }

    /// The requests of containers that were really started, in order.
    #[must_use]
    pub fn launches(&self) -> Vec<LaunchContainer> {
        self.lock().launches.clone()
    }

    /// The signals that arrived.
    #[must_use]
    pub fn kills(&self) -> Vec<i32> {
        self.lock().kills.clone()
    }

    /// The number of WAIT calls.
    #[must_use]
    pub fn waits(&self) -> u64 {
        self.lock().waits
    }

    /// Grows with every call and change: for tests that wait for one.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self) {
        self.changed.send_modify(|changes| *changes += 1);
    }
}

impl State {
    fn end(&mut self, exit: Exit) {
        if self.alive {
            self.alive = false;
            self.exits += 1;
        }
        self.last_exit = Some(exit);
    }

    fn take(&mut self, call: FakeCall) -> Option<Fault> {
        let at = self.faults.iter().position(|(kind, _)| *kind == call)?;
        self.faults.remove(at).map(|(_, fault)| fault)
    }
}

fn failure(fault: &Fault) -> Failure {
    let message = format!("fault: {fault:?}");
    if *fault == Fault::Refused(true) {
        Failure::permanent(message)
    } else {
        Failure::new(message)
    }
}

impl ContainerRuntime for FakeRuntime {
    async fn launch(&self, request: LaunchContainer) -> Result<Launched, LaunchFailure> {
        let (fault, launched) = {
            let mut state = self.lock();
            let fault = state.take(FakeCall::Launch);
            if matches!(fault, Some(Fault::NotSent | Fault::Refused(_))) {
                (fault, Launched::New)
            } else if state.alive {
                (fault, Launched::AlreadyPresent)
            } else {
                state.alive = true;
                state.last_exit = None;
                state.launches.push(request);
                if state.exits_at_once {
                    state.end(Exit {
                        status: Some(0),
                        ..Exit::default()
                    });
                }
                (fault, Launched::New)
            }
        };
        self.tell();
        match fault {
            None => Ok(launched),
            Some(Fault::NotSent) => Err(LaunchFailure::NotSent(failure(&Fault::NotSent))),
            Some(Fault::Lost) => Err(LaunchFailure::Unknown(failure(&Fault::Lost))),
            Some(Fault::Hangs) => std::future::pending().await,
            Some(refused) => Err(LaunchFailure::Refused(failure(&refused))),
        }
    }

    async fn wait(&self, _: &ContainerId) -> Result<Exit, Failure> {
        self.lock().waits += 1;
        let mut changed = self.changed.subscribe();
        self.tell();
        loop {
            {
                let mut state = self.lock();
                match state.take(FakeCall::Wait) {
                    Some(Fault::Hangs) => drop(state),
                    Some(fault) => return Err(failure(&fault)),
                    None if !state.alive => {
                        return Ok(state.last_exit.take().unwrap_or_else(Exit::unknown));
                    }
                    None => {}
                }
            }
            if changed.changed().await.is_err() {
                return Err(Failure::new("the fake is gone"));
            }
        }
    }

    async fn kill(&self, _: &ContainerId, signal: i32) -> Result<(), Failure> {
        let fault = {
            let mut state = self.lock();
            let fault = state.take(FakeCall::Kill);
            if !matches!(fault, Some(Fault::NotSent | Fault::Refused(_))) {
                state.kills.push(signal);
                if signal == 9 || !state.ignores_term {
                    state.end(Exit {
                        status: Some(signal),
                        ..Exit::default()
                    });
                }
            }
            fault
        };
        self.tell();
        match fault {
            None => Ok(()),
            Some(Fault::Hangs) => std::future::pending().await,
            Some(fault) => Err(failure(&fault)),
        }
    }
}
