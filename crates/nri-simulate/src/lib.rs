//! Internal to Longshore: a bench for authors of NRI plugins. A [`Case`] says which pods and containers
//! there are and what happens to them; [`run`] starts plugins, plays the case to them through the
//! adaptation that Longshore's own containers go through, and returns a [`Report`].
//!
//! ```text
//!  case file, crictl configs, OCI spec --> Case --run--> Report --> text, JSON, JUnit
//!  record of a trace ---------------------> Replay -replay--^
//!  plugins: commands or a socket ----------------'          '--> expectations, written back
//! ```
//!
//! # Invariants
//!
//! - No container is touched: the runtime here is a table in memory.
//! - A plugin that this crate started is gone when [`run`] returns, also when it is cancelled.
//! - What a plugin answered is reported as it was merged; what was expected is compared with empty and
//!   absent being the same.
//! - Every wait has a deadline: that of the case for plugins to come, the plugins' own after that.

mod case;
mod cases;
mod compare;
mod crictl;
mod error;
mod junit;
mod node;
mod peers;
mod profile;
mod replay;
mod report;
mod rival;
mod run;
mod scene;
mod serve;
mod spec;
mod text;
mod wait;

pub use case::{Action, Case, Expected, Move, Policy, Step};
pub use cases::{BUILT_IN, EXAMPLE};
pub use compare::diff as spec_diff;
pub use error::SimulateError;
pub use junit::junit;
pub use node::Node;
pub use peers::{Command, Plugins};
pub use profile::Profile;
pub use replay::{Replay, replay};
pub use report::{Outcome, PluginReport, Report, StepReport};
pub use run::{Play, run, updated};
pub use serve::{Serving, Site};
pub use text::{step as step_text, text};
