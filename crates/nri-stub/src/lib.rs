#![doc = include_str!("../README.md")]
//!
//! # Invariants
//!
//! - A plugin is asked for exactly the events it has handlers for: the mask comes from the
//!   handlers, is never empty on the wire (that would mean all), and holds no event that the
//!   runtime does not know.
//! - The service is there before anything is sent: nothing a runtime does early is lost.
//! - Everything that waits for a runtime has a deadline; every handler has the runtime's.
//! - A connection leaves nothing behind: half a synchronization, calls and handlers end with it.
//! - What a runtime sends is limited before it is decoded, and a synchronization as a whole.
//! - A panic of a handler is an answer to its request; it ends neither connection nor process.

// So that what the attribute writes works in this crate too.
extern crate self as longshore_nri_stub;

mod answer;
mod builder;
mod closures;
mod connect;
mod error;
mod gather;
mod handle;
mod identity;
mod inherited;
mod negotiate;
mod plugin;
mod reconnect;
mod service;
mod session;
mod stub;

pub use answer::{CreateReply, HandlerError, HandlerResult, IntoAnswer, UpdateReply};
pub use builder::StubBuilder;
pub use closures::Handlers;
pub use error::StubError;
pub use gather::SyncLimits;
pub use handle::{
    DEFAULT_REGISTRATION_TIMEOUT, DEFAULT_REQUEST_TIMEOUT, Handle, Phase, StubStatus,
};
pub use identity::{ENV_SOCKET, Environment};
pub use longshore_backoff::Backoff;
pub use longshore_nri_api as api;
pub use longshore_nri_api::service::DEFAULT_SOCKET;
pub use longshore_nri_stub_macros::plugin;
pub use longshore_ttrpc::{CallError, CloseReason, Code, Status};
pub use plugin::{Configuration, Plugin};
pub use session::{Ended, Session};
pub use stub::Stub;

/// Names for what the attribute writes.
#[doc(hidden)]
pub mod __private {
    use crate::api::{Container, ContainerUpdate, PodSandbox};

    pub type Pods = Vec<PodSandbox>;
    pub type Containers = Vec<Container>;
    pub type Updates = Vec<ContainerUpdate>;
    pub type Nothing = ();
}

/// Where Longshore listens for plugins by default.
pub const LONGSHORE_SOCKET: &str = "/run/longshore/nri.sock";
