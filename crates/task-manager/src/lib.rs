//! Internal to Longshore: the set of tasks of one state root, each a container of one engine.
//!
//! # Invariants
//!
//! - A task is on record before anything of it exists, and is answered for once it is. What cannot be launched leaves
//!   nothing behind.
//! - Tasks outlive the manager: the next one on the same root takes up every one of them. Ending it ends no task.
//! - One id, one task: another one of that id is refused for as long as the first is on record, and the first goes on.
//! - What is not ours is never touched: neither containers of others on the same engine, nor those of another root.
//! - Which finished tasks are forgotten is a pure plan ([`plan`]); a sandbox is removed by handle, and never across a
//!   mount.
//! - Of a declared task there is one attempt at a time, on record (power-durably) before it is launched; each is a task of its
//!   own with one last status. What starts, and when, is decided by a pure machine ([`State::step`]): always backed off, its
//!   start limit honoured, also across restarts.
//! - A status is told from memory, whatever the engine does, and says since when that has been silent. No thread a task.
//! - No value of a variable and no secret is in a status, an error or a log.

mod declared;
mod error;
mod follow;
mod id;
mod keep;
mod manager;
mod options;
mod output;
mod redact;
mod retention;
mod sandboxes;
mod signal;
mod status;

pub use declared::{
    Action, Attempt, CsiReadiness, DECLARED, Declaration, Declared, DeclaredBy, DeclaredOptions,
    DeclaredStatus, DeclaredTasks, End, Event, Found, Moment, Need, Rule, State, Why, cycles,
};
pub use error::TaskManagerError;
pub use id::{check as check_id, check_container, check_declared as check_declared_name};
pub use longshore_docker_executor::LogMode;
pub use manager::TaskManager;
pub use options::{ManagerOptions, NewTask};
pub use output::OutputReader;
pub use redact::redacted;
pub use retention::{Finished, Retention, plan};
pub use status::{EngineStatus, Phase, TaskStatus};

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;
