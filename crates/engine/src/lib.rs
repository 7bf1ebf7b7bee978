#![doc = include_str!("../README.md")]
//!
//! # Invariants
//!
//! - Every call ends within its [`Deadlines`]; what has no end of its own (an exit, events, logs) was opened
//!   within one. No stream has an idle timeout: silence is not a failure.
//! - Dropping a future or a stream closes its connection; nothing runs on behind it.
//! - An answer is refused when it passes its limit, before it is decoded; what an engine says that we do not know is
//!   kept as text or passed over, never a failure of the call.
//! - An exit is subscribed to before `wait` returns. The stream of events is opened again for ever, tells
//!   each event once, and says when events may be missing.
//! - The address of an engine on another machine is refused by name.
//! - No secret (environment, credentials, options of volume drivers) is in an error, a log or `Debug` output.
//! - Knows nothing of tasks: what a call means for one is decided by who makes it.

mod auth;
mod check;
mod container;
mod docker;
mod endpoint;
mod engine;
mod error;
mod event;
mod exec;
mod exit;
#[cfg(feature = "fake")]
pub mod fake;
mod image;
mod log;
mod pull;
pub mod spec;
mod time;
mod version;

pub use auth::{ClientConfig, RegistryAuth};
pub use container::{
    ContainerInfo, ContainerState, ContainerStatus, ContainerSummary, MountInfo, NetworkInfo,
    PublishedPort,
};
pub use docker::{Deadlines, DockerConfig, DockerEngine};
pub use endpoint::EngineEndpoint;
pub use engine::{Created, Engine, EngineFuture, ListFilter, RemoveOptions};
pub use error::{EngineError, MAX_MESSAGE, Missing};
pub use event::{Event, EventFilter, EventItem, EventStream};
pub use exec::{ExecInfo, ExecSpec};
pub use exit::{Exit, ExitWait, WaitUntil};
pub use image::{DEFAULT_REGISTRY, ImageInfo, ImageReference};
pub use log::{LogFrame, LogOptions, LogSource, LogStream, MAX_FRAME};
pub use pull::{Pull, PullAuth, PullPolicy, PullProgress, PullRequest};
pub use spec::{ContainerSpec, EnvVar, Mount, MountKind, NetworkMode, Resources};
pub use time::EngineTime;
pub use version::{ApiVersion, EngineKind, EngineVersion};
