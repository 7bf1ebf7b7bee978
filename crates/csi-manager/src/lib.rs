//! Internal to Longshore: the CSI service manager. Keeps CSI plugins running through an agent's
//! API, probes them, and hands out endpoints that answer.
//!
//! ```text
//!   PluginConfig --plan (pure)--> Planned --unit--> container-daemon --> agent
//!                                   |                 |
//!   records, GET_CONTAINERS         |                 +-- pre-launch:  record, socket directory
//!        |                          v                 +-- post-start:  probe, endpoint, liveness
//!        +--recover (pure)--> keep, adopt, stop       +-- post-stop:   endpoint withdrawn, socket gone
//! ```
//!
//! # Invariants
//!
//! - A container's record is on disk, power-durable, before the container can exist.
//! - The launch hash is that of the whole request. It is in the record, and in the environment of
//!   the launched command (`LONGSHORE_LAUNCH_HASH`): an agent tells only id and pid, so without a
//!   record only the process itself can say how it was launched.
//! - Nothing is stopped or restarted without being asked while a process of its tree holds
//!   `/dev/fuse`; nothing that changed or left the configuration is stopped while a volume is
//!   mounted below its mount roots. Both are reported, and both yield to `force`.
//! - A container that is not ours, by prefix and instance, is never touched; one that is ours by
//!   its id alone, and in no configuration, is reported.
//! - No failure of one plugin stops another's supervision, and none is terminal.
//! - An endpoint is handed out after a probe only, and withdrawn with its process. Version and
//!   name stay what they were until the plugin's configuration changes or a reset.
//! - The status is answered from memory; each plugin's part of it has one writer, its board.
//! - The manager locks nothing: whoever starts it holds the lock of the state directory.

mod board;
mod config;
mod error;
mod host;
mod launch;
mod liveness;
mod manager;
mod options;
mod plan;
mod plugin;
mod probing;
mod record;
mod recover;
mod recovery;
mod requests;
mod retire;
mod shared;
mod socket_dir;
mod startup;
mod status;
mod strays;
mod table;
mod turns;
mod unit;
mod unmanaged;
mod wants;

pub use config::{OnUnhealthy, PluginConfig};
pub use error::ManagerError;
pub use host::{HostView, ProcHost};
pub use manager::CsiManager;
pub use options::{LogReader, ManagerOptions};
pub use requests::launch_requests;
pub use status::{
    ContainerState, EndpointState, Foreign, LastExit, ManagerStatus, Metrics, PluginState,
    PluginStatus, ReadyEndpoint, Stray, Transition, Waiting,
};
