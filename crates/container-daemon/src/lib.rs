#![doc = include_str!("../README.md")]
//!
//! # Invariants
//!
//! - Decisions are pure (`core`): `step(state, event, at) -> actions`, without clock, tokio or
//!   sockets; the driver performs the actions.
//! - Never two launches without an exit between them: LAUNCH is sent again only after an exit, a
//!   refusal, or an answer that got lost, and then the agent answers 202 when the first arrived.
//! - Nothing is terminal. The only way to [`Phase::Down`] is a request; every failure is kept as
//!   text, exposed, and followed by another attempt.
//! - Every delay is bounded by the policy, every call and hook has a deadline, except WAIT, which
//!   is a long poll and is asked again when it fails.
//! - A stop always converges once the agent answers: TERM, KILL after the grace, KILL again.
//! - Pre-launch never runs while the container can be running; post-stop runs between two launches.
//! - The daemon owns no process: dropping it leaves the container running.

mod core;
mod daemon;
mod driver;
mod exit;
mod failure;
#[cfg(feature = "fake")]
pub mod fake;
mod hooks;
mod options;
mod runtime;
mod status;

pub use core::Phase;
pub use daemon::{ContainerDaemon, DaemonControl, DaemonError};
pub use exit::Exit;
pub use failure::{Failure, LaunchFailure};
pub use hooks::{Hooks, NoHooks};
pub use longshore_agent_client::Launched;
pub use options::DaemonOptions;
pub use runtime::ContainerRuntime;
pub use status::DaemonStatus;
