//! Internal to Longshore: what a task asks for, as an engine's container spec.
//!
//! A [`TaskInfo`](longshore_mesos_api::v1::TaskInfo) becomes a [`ContainerSpec`](longshore_engine::ContainerSpec) by
//! [`map_task`]; docker's own flags, from a task's parameters or a command line, by [`flags`]; a
//! command line or a declaration is one by [`run`]. Its
//! output goes into its sandbox by [`logs`]; who may change it on its way is behind [`hooks`].
//!
//! # Invariants
//!
//! - The mapping is pure: no I/O, no clock, no engine is asked. [`logs`] alone writes, to the files of a sandbox, and
//!   [`run`] reads the files of variables that it is given.
//! - Nothing that a task asks for is passed over in silence: it is done, or refused with the field and the value.
//!   What is only counted and never enforced (the resource `disk`) is named in the documentation of `map::resources`.
//! - Values of environment variables, secrets and driver options appear in no error and no `Debug` form.
//! - No input makes anything here panic.

mod context;
mod error;
pub mod flags;
pub mod hooks;
pub mod logs;
mod map;
pub mod run;
mod schedule;

pub use context::{DefaultDns, DnsEntry, DnsNetwork, Sandbox, TaskContext};
pub use error::TaskSpecError;
pub use map::{MAX_ARGUMENT, MAX_ENVIRONMENT, MappedTask, map_task};
pub use schedule::{TaskSchedule, schedule};
