//! What the fake agent knows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use longshore_mesos_api::v1::ContainerId;
use longshore_mesos_api::v1::agent::call::{LaunchContainer, Type};
use longshore_mesos_api::v1::agent::response::WaitContainer;

use super::failpoint::Failpoints;

/// Which agent the fake behaves like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Flavor {
    /// Longshore's own: exit statuses are kept, REMOVE of top-level containers works.
    #[default]
    Longshore,
    /// Mesos 1.11: a top-level container is forgotten when it has ended and its waiters are
    /// answered; REMOVE of a top-level container makes the agent abort (the fake stops);
    /// GET_CONTAINERS leaves out the parent in `container_id`.
    Mesos,
}

/// A call that the fake agent got.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Logged {
    /// Its type.
    pub kind: Type,
    /// The container that it names, as `parent.child`.
    pub container: Option<String>,
    /// The signal of a KILL.
    pub signal: Option<i32>,
}

type OnLaunch = Arc<dyn Fn(&LaunchContainer) + Send + Sync>;

pub(super) struct State {
    pub(super) flavor: Flavor,
    pub(super) agent_id: String,
    pub(super) recovering: bool,
    pub(super) authorization: Option<String>,
    pub(super) failpoints: Failpoints,
    pub(super) log: Vec<Logged>,
    pub(super) connections: usize,
    pub(super) containers: BTreeMap<String, Fake>,
    pub(super) ignores_term: BTreeSet<String>,
    /// By their virtual paths.
    pub(super) files: BTreeMap<String, Vec<u8>>,
    pub(super) on_launch: Option<OnLaunch>,
    pub(super) next_pid: u64,
}

/// One container.
#[derive(Debug, Clone)]
pub(super) struct Fake {
    pub(super) id: ContainerId,
    pub(super) launch: LaunchContainer,
    pub(super) pid: Option<u64>,
    /// Listed, but without a pid: it is being destroyed.
    pub(super) ended: Option<WaitContainer>,
    pub(super) launches: u32,
}

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("State")
            .field("flavor", &self.flavor)
            .field("containers", &self.containers)
            .field("failpoints", &self.failpoints)
            .finish_non_exhaustive()
    }
}

impl Default for State {
    fn default() -> Self {
        Self {
            flavor: Flavor::default(),
            agent_id: "fake-agent".to_owned(),
            recovering: false,
            authorization: None,
            failpoints: Failpoints::default(),
            log: Vec::new(),
            connections: 0,
            containers: BTreeMap::new(),
            ignores_term: BTreeSet::new(),
            files: BTreeMap::new(),
            on_launch: None,
            next_pid: 4_000_001,
        }
    }
}

impl State {
    /// Ends `id` and, with it, what is nested in it. False if it is not running.
    pub(super) fn exit(&mut self, id: &str, wait: &WaitContainer) -> bool {
        let Some(found) = self.containers.get_mut(id).filter(|c| c.ended.is_none()) else {
            return false;
        };
        found.ended = Some(wait.clone());
        found.pid = None;
        let below = format!("{id}.");
        let killed = WaitContainer {
            exit_status: Some(9),
            ..WaitContainer::default()
        };
        for (_, nested) in self.containers.range_mut(below.clone()..) {
            if crate::codec::show_id(&nested.id).starts_with(&below) && nested.ended.is_none() {
                nested.ended = Some(killed.clone());
                nested.pid = None;
            }
        }
        true
    }
}
