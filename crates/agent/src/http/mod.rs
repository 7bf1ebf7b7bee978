//! The HTTP front: from bytes on a socket to a [`ContainerService`](crate::service::ContainerService) and back.
//!
//! ```text
//!  listeners -> server -> connection -> dispatch -> negotiate, decode, validate   (pure but for the reading)
//!                                               -> ContainerService -> answer
//! ```
//!
//! - It has no state of its own: everything it says about a container it has just asked for.
//! - Everything a client sends is bounded in size and time ([`HttpLimits`]); no bytes make it panic.
//! - The Unix socket is for root and the own user (SO_PEERCRED); TCP is for who shows the token, and for other machines
//!   only over TLS.

mod answer;
mod auth;
mod connection;
mod decode;
mod dispatch;
mod error;
mod listeners;
mod negotiate;
mod options;
mod refusal;
mod server;
#[cfg(feature = "tls")]
mod tls;
mod unix;
mod validate;

pub use error::HttpError;
pub use listeners::{Listeners, check_tcp};
pub use options::HttpLimits;
pub use server::HttpServer;
pub(crate) use validate::{Order, order};
