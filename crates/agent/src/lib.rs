//! The embedded agent (internal to Longshore): serves the container calls of a Mesos agent and runs
//! process containers under a shim.
//!
//! ```text
//!  client --HTTP--> http --ContainerService--> containers --spawn, pidfd--> shim --> init of the container
//!                                                   |                         |
//!                                                run_dir/.. (intent)       run_dir/../run (lock, pid, exit)
//! ```

mod error;
pub mod http;
mod options;
pub mod service;

pub use error::AgentError;
pub use options::{AgentOptions, LogOptions, SandboxGc, ShimCommand, TcpOptions, TlsFiles};
