//! What happens while a plugin is being synchronized, kept for it until it is.
//!
//! The plugin is subscribed before the snapshot is taken, so the two overlap: what is kept may
//! show in the snapshot already. What began after the snapshot was complete does not; what began
//! before is delivered unless the snapshot shows its effect:
//!
//! | kept | delivered when |
//! |---|---|
//! | RunPodSandbox | the snapshot has no such pod |
//! | CreateContainer | the snapshot has no such container |
//! | StartContainer | its container is known, and not running or stopped in the snapshot |
//! | StopContainer | its container is known, and not stopped in the snapshot |
//! | StopPodSandbox, RemovePodSandbox, (Post)UpdatePodSandbox | its pod is known |
//! | RemoveContainer, PostCreate-, PostStart-, (Post)UpdateContainer | its container is known |
//!
//! Known is what the snapshot has, and what a delivered RunPodSandbox or CreateContainer told of.

use std::collections::{HashMap, HashSet, VecDeque};

use bytes::Bytes;
use longshore_nri_api::{ContainerState, Event};

use crate::plugin::Notice;
use crate::runtime::NodeState;

/// A request or event that is kept, encoded.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) what: KeptBody,
    pub(crate) pod: String,
    pub(crate) container: String,
    /// When it began, in ticks of the registry's clock.
    pub(crate) began: u64,
}

#[derive(Debug, Clone)]
pub(crate) enum KeptBody {
    /// One of the nine events that only tell something.
    Notice(Notice),
    /// An encoded request of the event's type.
    Request(Event, Bytes),
}

impl Kept {
    pub(crate) fn event(&self) -> Event {
        match &self.what {
            KeptBody::Notice(notice) => notice.event,
            KeptBody::Request(event, _) => *event,
        }
    }
}

/// The queue of one plugin.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    kept: VecDeque<Kept>,
}

impl Queue {
    /// Keeps one more. False when there are `max` already.
    pub(crate) fn push(&mut self, kept: Kept, max: usize) -> bool {
        if self.kept.len() >= max {
            return false;
        }
        self.kept.push_back(kept);
        true
    }

    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    pub(crate) fn pop(&mut self) -> Option<Kept> {
        self.kept.pop_front()
    }
}

/// What a plugin was told by Synchronize, and what of the queue it is still to be told.
#[derive(Debug)]
pub(crate) struct Seen {
    pods: HashSet<String>,
    containers: HashMap<String, ContainerState>,
    /// When the snapshot was complete.
    complete: u64,
}

impl Seen {
    pub(crate) fn new(state: &NodeState, complete: u64) -> Self {
        Self {
            pods: state.pods.iter().map(|pod| pod.id.clone()).collect(),
            containers: state
                .containers
                .iter()
                .map(|container| (container.id.clone(), container.state()))
                .collect(),
            complete,
        }
    }

    /// Whether the next event of the queue is delivered.
    pub(crate) fn is_due(&mut self, kept: &Kept) -> bool {
        let due = kept.began > self.complete || self.is_news(kept);
        match kept.event() {
            Event::RunPodSandbox if due => {
                self.pods.insert(kept.pod.clone());
            }
            Event::CreateContainer if due => {
                let state = ContainerState::ContainerUnknown;
                self.containers.insert(kept.container.clone(), state);
            }
            _ => {}
        }
        due
    }

    fn is_news(&self, kept: &Kept) -> bool {
        use ContainerState::{ContainerPaused, ContainerRunning, ContainerStopped};
        let state = self.containers.get(&kept.container).copied();
        match kept.event() {
            Event::RunPodSandbox => !self.pods.contains(&kept.pod),
            Event::CreateContainer => state.is_none(),
            Event::StartContainer => state.is_some_and(|state| {
                !matches!(state, ContainerRunning | ContainerPaused | ContainerStopped)
            }),
            Event::StopContainer => state.is_some_and(|state| state != ContainerStopped),
            Event::StopPodSandbox
            | Event::RemovePodSandbox
            | Event::UpdatePodSandbox
            | Event::PostUpdatePodSandbox => self.pods.contains(&kept.pod),
            Event::PostCreateContainer
            | Event::PostStartContainer
            | Event::UpdateContainer
            | Event::PostUpdateContainer
            | Event::RemoveContainer => state.is_some(),
            // Neither is ever kept.
            Event::ValidateContainerAdjustment | Event::Unknown | Event::Last => false,
        }
    }
}

#[cfg(test)]
mod tests;
