//! The embedded agent (internal to Longshore): serves the container calls of a Mesos agent and runs
//! process containers under a shim; containers of images through whoever has an engine (`images`).
//!
//! ```text
//!  client --HTTP--> http --ContainerService--> containers --spawn, pidfd--> shim --> init of the container
//!                                                   |                         |
//!                                                run_dir/.. (intent)       run_dir/../run (lock, pid, exit)
//! ```
//!
//! # Invariants
//! - A container's intent is on record before its shim exists, the pid of its first process before
//!   that process executes anything of the container, and its exit before WAIT answers.
//! - While a shim lives it holds the lock of its container's `run/`; the lock is taken before the
//!   shim is spawned and handed over, so it is never free in between.
//! - A container is over when every process of it is down, `setsid` children and orphans included.
//! - Agent and containers live and die apart: no end of the agent ends a container, and the next
//!   agent takes over every one of them. A shim that is killed takes its container with it.
//! - A failed launch leaves nothing: no process, cgroup, record or new sandbox.
//! - Of an id there is at most one living container; a nested one never outlives its parent.
//! - A pid is never trusted alone, but with its start time, its boot and a pidfd.
//! - Below a sandbox no name is trusted at all; deleting crosses no mount.
//! - What this host cannot enforce is reported, what cannot be done at all is refused with a reason.

mod agent;
mod cgroup;
mod check;
mod containers;
mod dir_lock;
mod error;
pub mod http;
pub mod images;
mod memory;
mod options;
mod process;
mod record;
pub mod service;
pub mod shim;

pub use agent::Agent;
pub use check::{CheckImage, Part, WouldRefuse, check_launch};
pub use containers::{Containers, SET_ASIDE};
pub use error::AgentError;
pub use memory::give_back_memory;
pub use options::{AgentOptions, LogOptions, SandboxGc, ShimCommand, TcpOptions, TlsFiles};
