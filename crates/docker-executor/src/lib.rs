//! Internal to Longshore: one task's life in a container, from its launch to its last status.
//!
//! # Invariants
//!
//! - Decisions are pure: [`State::step`] is told events and says what to do; it knows no clock and does no I/O.
//! - A task has exactly one last status, and none after it; it is told when its container is verified down: its init is
//!   dead by the kernel's word or, where that cannot be had, by the engine's.
//! - The intent is on disk before the container exists, and that it may run before it is started.
//! - An engine that does not answer changes no state by itself, and holds up no kill and no status for ever.
//! - A kill always ends: signal, grace, KILL, again; a later wish can only shorten the grace.
//! - What is not ours is never touched: no container is removed whose labels are not those of the task.

mod action;
mod driver;
mod ending;
mod error;
mod event;
mod executor;
#[cfg(feature = "fake")]
pub mod fake;
pub mod labels;
mod options;
mod plan;
mod prepare;
mod processes;
mod publisher;
mod record;
mod state;
mod status;
mod step;
mod task;

pub use action::{Action, News, Update};
pub use ending::Ending;
pub use error::ExecutorError;
pub use event::{
    Condition, CreateFailure, Details, Event, Found, Held, Kill, KillCause, PulledImage, Seen,
};
pub use executor::{Executor, Recovery};
pub use options::{Acknowledge, ExecutorOptions, Launch, LogMode};
pub use plan::Plan;
pub use prepare::judge;
pub use processes::{HeldProcess, Holding, HostProcesses, ProcessId, Processes};
pub use publisher::{TaskView, Updates};
pub use state::{Recorded, RecordedKill, Stage, State};
pub use status::MAX_DATA;
pub use task::Task;

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;
