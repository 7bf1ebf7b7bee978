#![doc = include_str!("../README.md")]
//!
//! # Invariants
//!
//! - Every call but WAIT ends within its [`Deadlines`], retries included. A WAIT ends only when
//!   the agent says that the container has ended or is unknown to it, or answers with an error;
//!   a cut connection, a refused one, a 503 or the 404 of an agent that is just starting are
//!   never taken for an exit.
//! - What is tried again is [`RetryPolicy`], no more; a LAUNCH whose fate is unknown is not
//!   repeated unless the caller chose so.
//! - An answer is refused by its announced length before a byte is read, or when the limit is
//!   passed; it is decoded only within [`AgentClientConfig::answer`].
//! - REMOVE of a top-level container is not sent to an agent that would abort on it.
//! - A status update of an executor is kept until its agent has acknowledged it, and sent in the order
//!   of giving within each task; the executor's memory has bounds whatever the agent sends.
//! - No secret is in an error, a log or `Debug` output.
//! - The one lock here is never held across an await; each connection's task ends with it.

mod calls;
mod client;
mod codec;
mod config;
mod credentials;
mod endpoint;
mod error;
mod exchange;
pub mod executor;
#[cfg(feature = "fake")]
pub mod fake;
mod retry;
#[cfg(feature = "tls")]
mod tls;
mod transport;

pub use calls::{FileRead, Killed, Launched, Show, Waited, is_longshore};
pub use client::AgentClient;
pub use config::{AgentClientConfig, Codec, Credentials, Deadlines, KeepAlive, TlsOptions};
pub use endpoint::AgentEndpoint;
pub use error::{AgentError, AnswerError, MAX_ERROR_BODY};
pub use retry::RetryPolicy;
