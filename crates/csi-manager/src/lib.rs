//! Internal to Longshore: the CSI service manager. Keeps CSI plugins running through an agent's
//! API, probes them, and hands out endpoints that answer.

mod config;
mod error;
mod host;
mod manager;
mod options;
mod status;

pub use config::{OnUnhealthy, PluginConfig};
pub use error::ManagerError;
pub use host::{HostView, ProcHost};
pub use manager::CsiManager;
pub use options::{LogReader, ManagerOptions};
pub use status::{
    ContainerState, EndpointState, LastExit, ManagerStatus, Metrics, PluginState, PluginStatus,
    ReadyEndpoint, Stray, Transition, Waiting,
};
