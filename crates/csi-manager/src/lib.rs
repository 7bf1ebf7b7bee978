//! Internal to Longshore: the CSI service manager. Keeps CSI plugins running through an agent's
//! API, probes them, and hands out endpoints that answer.

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
mod retire;
mod shared;
mod socket_dir;
mod status;
mod unit;
mod unmanaged;
mod wants;

pub use config::{OnUnhealthy, PluginConfig};
pub use error::ManagerError;
pub use host::{HostView, ProcHost};
pub use manager::CsiManager;
pub use options::{LogReader, ManagerOptions};
pub use status::{
    ContainerState, EndpointState, LastExit, ManagerStatus, Metrics, PluginState, PluginStatus,
    ReadyEndpoint, Stray, Transition, Waiting,
};
