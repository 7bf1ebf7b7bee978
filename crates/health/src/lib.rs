#![doc = include_str!("../README.md")]
//!
//! # Invariants
//!
//! - Decisions are pure: [`HealthState`] and [`CheckState`] know no clock and do no I/O; [`Watch`] performs what they
//!   decide.
//! - One run of a checker at a time. A run that was dropped says nothing any more, and what it started is killed.
//! - Every run has a limit (unless its policy says that there is none), every answer a bound, every redirect a number.
//! - What we lack (a descriptor, a thread, the engine) is never taken for a failure of the container.
//! - No thread that has entered a namespace does anything else afterwards.
//! - Neither the arguments nor the environment of a command appear in a reason, an error or a `Debug` form.

mod check;
mod error;
#[cfg(feature = "fake")]
pub mod fake;
mod health;
mod http;
mod location;
#[cfg(feature = "mesos")]
pub mod mesos;
mod netns;
mod probe;
mod prober;
mod result;
mod runner;
mod timeline;
mod timing;
#[cfg(feature = "tls")]
mod tls;
mod watch;

pub use check::{CheckState, CheckStatus};
pub use error::HealthError;
pub use health::{HealthReport, HealthState};
pub use netns::NetNamespace;
pub use probe::{CommandProbe, Family, HttpProbe, Probe, Scheme, TcpProbe};
pub use prober::Prober;
pub use result::ProbeResult;
pub use runner::{CommandExit, CommandFailure, CommandRunner, KILL_MARGIN, Running};
pub use timeline::{CheckerAction, CheckerEvent, Run};
pub use timing::{HealthPolicy, Timing, seconds};
pub use watch::{CheckWatch, HealthWatch, Machine, Watch};
