//! Internal to Longshore: what a daemon tells over HTTP: metrics, health, and a page for people.
//!
//! # Invariants
//! - Everything is rendered from one [`Snapshot`] by pure functions; the server asks a [`Source`] for it and never waits
//!   for anything else. Nothing ticks while nobody asks.
//! - It changes nothing: GET and HEAD alone, and whoever may connect may read all of it. A snapshot has no room for values
//!   of environment variables.
//! - Names of hosts are accepted only when they are ours, so that no page of somebody else's can read it.
//! - Requests, connections, listeners and the time for each are bounded; a reader that does not read is cut off.
//! - Text from outside is escaped where it is written, and labels of metrics are names of what is configured, never ids of
//!   tasks.

mod address;
mod answer;
mod error;
mod health;
mod hosts;
mod metrics;
mod paced;
mod page;
mod server;
mod snapshot;
mod time;

pub use address::{ListenAddress, parse_address};
pub use error::StatusHttpError;
pub use health::{csi_health, not_ready};
pub use hosts::Hosts;
pub use metrics::render as render_metrics;
pub use page::{Sections, render as render_page};
pub use server::{Changes, Limits, Server, Source};
pub use snapshot::{
    Agent, DeclaredTask, Endpoint, Engine, Latency, NriPlugin, Plugin, Probes, Process, Snapshot,
    State, Task, Tasks,
};

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;
