use std::collections::BTreeMap;

use crate::error::EngineError;

/// A kind of call: the methods of [`crate::Engine`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names of the methods")]
pub enum Call {
    Version,
    Pull,
    InspectImage,
    Create,
    Start,
    Wait,
    Kill,
    Stop,
    Pause,
    Unpause,
    Remove,
    Inspect,
    List,
    Update,
    Logs,
    Events,
    ExecCreate,
    ExecStart,
    ExecInspect,
}

impl Call {
    /// As [`crate::DockerEngine`] names it in errors.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Version => "version",
            Self::Pull => "pull",
            Self::InspectImage => "inspect image",
            Self::Create => "create",
            Self::Start => "start",
            Self::Wait => "wait",
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Pause => "pause",
            Self::Unpause => "unpause",
            Self::Remove => "remove",
            Self::Inspect => "inspect",
            Self::List => "list",
            Self::Update => "update",
            Self::Logs => "logs",
            Self::Events => "events",
            Self::ExecCreate => "exec",
            Self::ExecStart => "exec start",
            Self::ExecInspect => "exec inspect",
        }
    }
}

/// Who does not learn of an exit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LostExit {
    /// Clients that wait or read events; inspect shows it.
    Clients,
    /// The engine itself: inspect says that it runs.
    Engine,
}

#[derive(Debug, Clone)]
pub(super) enum Fault {
    Fail(EngineError),
    Hang,
    LoseAnswer,
}

/// Faults to come, by the number of the call from when they were added.
#[derive(Debug, Default)]
pub(super) struct Faults {
    planned: BTreeMap<Call, Vec<(Option<usize>, Fault)>>,
}

impl Faults {
    pub(super) fn add(&mut self, call: Call, nth: Option<usize>, fault: Fault) {
        self.planned.entry(call).or_default().push((nth, fault));
    }

    /// Counts one call; returns what is to become of it.
    pub(super) fn next(&mut self, call: Call) -> Option<Fault> {
        let planned = self.planned.get_mut(&call)?;
        let mut hit = None;
        planned.retain_mut(|(left, fault)| match left {
            Some(1) => {
                hit.get_or_insert(fault.clone());
                false
            }
            Some(more) => {
                *more = more.saturating_sub(1);
                true
            }
            None => {
                hit.get_or_insert(fault.clone());
                true
            }
        });
        hit
    }
}
