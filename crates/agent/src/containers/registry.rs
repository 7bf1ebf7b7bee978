//! Which containers there are and what may happen to them: pure.
//!
//! ```text
//!             Launch              Started               Ended, no child lives
//!   (nothing) ------> Starting ------------> Running -----------------> Exited ---> (nothing)
//!       ^               | Failed               | Ended, children live     ^   Launch, Remove, Tick,
//!       '---------------'                      v                          |   end of the parent
//!                                           Ending ----------------------'
//!                                                   the last child has ended
//! ```
//!
//! - Of an id there is at most one container that has not exited; launching it again is
//!   `AlreadyPresent`, also while it is on its way out.
//! - A nested container lives at most as long as its parent: a parent's end ends its children, and
//!   the parent counts as ended (WAIT answers) once they are down.
//! - A kill that comes before the first process exists is carried out as soon as it does.
//! - An exit status is published before anything of the container is forgotten.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use longshore_paths::ContainerId;

use crate::service::{ExitInfo, LaunchErrorKind, Phase};

#[cfg(test)]
mod tests;

const SIGKILL: i32 = 9;

/// The set of containers.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    containers: BTreeMap<ContainerId, Life>,
    limits: Limits,
}

/// The bounds of a registry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The most containers that have not exited.
    pub containers: usize,
    /// How long the exit of a top-level container is remembered.
    pub retention: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            containers: usize::MAX,
            retention: Duration::MAX,
        }
    }
}

/// Where a container is in its life.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Life {
    /// Recorded, or about to be; `kill` when it is to end as soon as it has begun.
    Starting { kill: bool },
    /// Its first process exists.
    Running { killed: bool },
    /// It has ended; its children have not.
    Ending { exit: ExitInfo },
    /// It has ended.
    Exited { exit: ExitInfo, at: SystemTime },
}

/// What happens to a container.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Event {
    /// LAUNCH_CONTAINER.
    Launch,
    /// Its first process exists.
    Started,
    /// It could not be started; nothing is left of it.
    Failed,
    /// KILL_CONTAINER.
    Kill { signal: i32 },
    /// All of its own processes are down.
    Ended(ExitInfo),
    /// REMOVE_CONTAINER.
    Remove,
}

/// What the caller of an event is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Done, or being done.
    Ok,
    /// A launch: there is one already.
    AlreadyPresent,
    /// A kill: there is none.
    NotFound,
    /// It cannot be; the text of the answer.
    Refused(LaunchErrorKind, String),
}

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Action {
    /// Send this signal to the first process.
    Signal(ContainerId, i32),
    /// End the whole tree.
    EndTree(ContainerId),
    /// Let the waiters know.
    Publish(ContainerId, ExitInfo),
    /// Delete the records of an ended container, and its sandbox.
    Forget { id: ContainerId, sandbox: bool },
}

impl Registry {
    /// An empty set.
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            containers: BTreeMap::new(),
            limits,
        }
    }

    /// Applies what has happened to `id`.
    pub(crate) fn step(
        &mut self,
        id: &ContainerId,
        event: Event,
        now: SystemTime,
    ) -> (Answer, Vec<Action>) {
        let mut actions = Vec::new();
        let answer = match event {
            Event::Launch => self.launch(id, &mut actions),
            Event::Started => {
                if let Some(life @ Life::Starting { .. }) = self.containers.get_mut(id) {
                    let killed = *life == Life::Starting { kill: true };
                    *life = Life::Running { killed };
                    if killed {
                        actions.push(Action::EndTree(id.clone()));
                    }
                }
                Answer::Ok
            }
            Event::Failed => {
                if matches!(self.containers.get(id), Some(Life::Starting { .. })) {
                    self.containers.remove(id);
                    self.parent_may_have_ended(id, now, &mut actions);
                }
                Answer::Ok
            }
            Event::Kill { signal } => self.kill(id, signal, &mut actions),
            Event::Ended(exit) => {
                self.ended(id, exit, now, &mut actions);
                Answer::Ok
            }
            Event::Remove => self.remove(id, &mut actions),
        };
        (answer, actions)
    }

    /// Forgets the exits of top-level containers that have been kept long enough.
    pub(crate) fn tick(&mut self, now: SystemTime) -> Vec<Action> {
        let retention = self.limits.retention;
        let over: Vec<_> = self
            .containers
            .iter()
            .filter(|(id, life)| match life {
                Life::Exited { at, .. } => {
                    id.parent().is_none()
                        && now.duration_since(*at).is_ok_and(|kept| kept >= retention)
                }
                _ => false,
            })
            .map(|(id, _)| id.clone())
            .collect();
        let mut actions = Vec::new();
        for id in over {
            self.forget(&id, false, &mut actions);
        }
        actions
    }

    /// Puts a container in as it was found after a restart.
    pub(crate) fn restore(&mut self, id: ContainerId, life: Life) {
        self.containers.insert(id, life);
    }

    /// After everything was restored: ends and forgets what has outlived its parent.
    pub(crate) fn settle(&mut self) -> Vec<Action> {
        let mut actions = Vec::new();
        let ids: Vec<_> = self.containers.keys().cloned().collect();
        for id in ids {
            let Some(parent) = id.parent() else { continue };
            if self.lives(parent) {
                continue;
            }
            match self.containers.get_mut(&id) {
                Some(Life::Starting { kill }) => *kill = true,
                Some(Life::Running { killed }) => {
                    *killed = true;
                    actions.push(Action::EndTree(id));
                }
                Some(Life::Exited { .. }) => self.forget(&id, false, &mut actions),
                Some(Life::Ending { .. }) | None => {}
            }
        }
        actions
    }

    /// The life of a container.
    pub(crate) fn get(&self, id: &ContainerId) -> Option<&Life> {
        self.containers.get(id)
    }

    /// The containers that have not exited, ordered by id.
    pub(crate) fn living(&self) -> impl Iterator<Item = (&ContainerId, Phase)> {
        self.containers.iter().filter_map(|(id, life)| {
            let phase = match life {
                Life::Starting { .. } => Phase::Starting,
                Life::Running { killed: false } => Phase::Running,
                Life::Running { killed: true } | Life::Ending { .. } => Phase::Ending,
                Life::Exited { .. } => return None,
            };
            Some((id, phase))
        })
    }

    fn launch(&mut self, id: &ContainerId, actions: &mut Vec<Action>) -> Answer {
        match self.containers.get(id) {
            Some(Life::Exited { .. }) => {}
            Some(_) => return Answer::AlreadyPresent,
            None => {}
        }
        let refused = |text| Answer::Refused(LaunchErrorKind::BadRequest, text);
        if let Some(parent) = id.parent() {
            match self.containers.get(parent) {
                Some(Life::Running { killed: false }) => {}
                Some(Life::Starting { .. }) => {
                    return refused(format!("Parent container {parent} is being started"));
                }
                Some(Life::Running { .. } | Life::Ending { .. }) => {
                    return refused(format!("Parent container {parent} is being destroyed"));
                }
                Some(Life::Exited { .. }) | None => {
                    return refused(format!("Parent container {parent} does not exist"));
                }
            }
        }
        if self.living().count() >= self.limits.containers {
            return Answer::Refused(
                LaunchErrorKind::Internal,
                format!(
                    "there are {} containers already, the most allowed",
                    self.limits.containers
                ),
            );
        }
        // The exit that was kept goes; whoever waits for it has been told.
        if self.containers.contains_key(id) {
            self.forget(id, false, actions);
        }
        self.containers
            .insert(id.clone(), Life::Starting { kill: false });
        Answer::Ok
    }

    fn kill(&mut self, id: &ContainerId, signal: i32, actions: &mut Vec<Action>) -> Answer {
        match self.containers.get_mut(id) {
            // As on Mesos: what has no process yet is destroyed, whatever the signal; 0 is no
            // signal.
            Some(Life::Starting { kill }) => *kill |= signal != 0,
            Some(Life::Running { killed }) => {
                if signal == SIGKILL {
                    *killed = true;
                    actions.push(Action::EndTree(id.clone()));
                } else {
                    actions.push(Action::Signal(id.clone(), signal));
                }
            }
            Some(Life::Ending { .. }) => {}
            Some(Life::Exited { .. }) | None => return Answer::NotFound,
        }
        Answer::Ok
    }

    fn ended(
        &mut self,
        id: &ContainerId,
        exit: ExitInfo,
        now: SystemTime,
        actions: &mut Vec<Action>,
    ) {
        match self.containers.get_mut(id) {
            Some(life @ (Life::Starting { .. } | Life::Running { .. })) => {
                *life = Life::Ending { exit };
            }
            _ => return,
        }
        let children: Vec<_> = self.children(id).cloned().collect();
        for child in children {
            match self.containers.get_mut(&child) {
                Some(Life::Starting { kill }) => *kill = true,
                Some(Life::Running { killed }) => {
                    *killed = true;
                    actions.push(Action::EndTree(child));
                }
                _ => {}
            }
        }
        self.finish(id, now, actions);
    }

    /// Completes the end of a container, and of those above it, where no child lives.
    fn finish(&mut self, id: &ContainerId, now: SystemTime, actions: &mut Vec<Action>) {
        if self.children(id).any(|child| self.lives(child)) {
            return;
        }
        let Some(life @ Life::Ending { .. }) = self.containers.get_mut(id) else {
            return;
        };
        let Life::Ending { exit } = life.clone() else {
            return;
        };
        *life = Life::Exited {
            exit: exit.clone(),
            at: now,
        };
        let children: Vec<_> = self.children(id).cloned().collect();
        for child in children {
            self.forget(&child, false, actions);
        }
        actions.push(Action::Publish(id.clone(), exit));
        self.parent_may_have_ended(id, now, actions);
    }

    fn parent_may_have_ended(
        &mut self,
        id: &ContainerId,
        now: SystemTime,
        actions: &mut Vec<Action>,
    ) {
        let Some(parent) = id.parent() else { return };
        match self.containers.get(parent) {
            Some(Life::Ending { .. }) => self.finish(parent, now, actions),
            Some(Life::Exited { .. }) | None => self.forget(id, false, actions),
            Some(_) => {}
        }
    }

    fn remove(&mut self, id: &ContainerId, actions: &mut Vec<Action>) -> Answer {
        let refused = |text: &str| Answer::Refused(LaunchErrorKind::Internal, text.to_owned());
        if id.parent().is_some() && !self.lives(id.root()) {
            return refused("Unknown root container");
        }
        if self.lives(id) {
            return refused(match id.parent() {
                Some(_) => "Nested container has not terminated yet",
                None => "Container has not terminated yet",
            });
        }
        self.containers.remove(id);
        actions.push(Action::Forget {
            id: id.clone(),
            sandbox: true,
        });
        Answer::Ok
    }

    fn forget(&mut self, id: &ContainerId, sandbox: bool, actions: &mut Vec<Action>) {
        if self.containers.remove(id).is_some() {
            actions.push(Action::Forget {
                id: id.clone(),
                sandbox,
            });
        }
    }

    fn lives(&self, id: &ContainerId) -> bool {
        !matches!(self.containers.get(id), None | Some(Life::Exited { .. }))
    }

    fn children<'a>(&'a self, id: &'a ContainerId) -> impl Iterator<Item = &'a ContainerId> {
        self.containers
            .keys()
            .filter(move |child| child.parent() == Some(id))
    }
}
