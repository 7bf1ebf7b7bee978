//! Internal to Longshore: NRI on every container.
//!
//! Whoever runs containers calls the hooks of `task-spec`; this crate is what stands behind them when there are NRI
//! plugins: each container is told to them as one pod with one container, and what they want changed is put into the
//! engine's create request, or into what a process container is made of.
//!
//! # Invariants
//!
//! - What a plugin asks for is done or refused with its name and the field; nothing is dropped in silence. Messages are
//!   taken apart field by field, so that a new one cannot be forgotten.
//! - Which events a moment means is a pure function of what was told before ([`Life`]): each event of a container at most
//!   once, in NRI's order, on every path; updates as often as there are some.
//! - No lock is held while a plugin is asked, so that a plugin may ask for changes from inside a handler.
//! - A failure of a plugin is told by creation and update alone; every other moment goes on.

pub mod adjust;
mod bridge;
mod host;
mod life;
mod refusal;
pub mod resources;
mod view;

pub use bridge::{Bridge, BridgeOptions, Owner};
pub use host::{HostDevices, Node, NodeKind, SystemDevices};
pub use life::{Life, Moment, Told};
pub use refusal::{Judge, Refusal};
pub use view::{container_of, pod_of};

#[doc = include_str!("../README.md")]
#[cfg(doctest)]
struct Readme;
