//! Internal to Longshore: wires the crates into one daemon: configuration, reload, control service.
//!
//! # Invariants
//! - It decides nothing about plugins and owns no protocol but the control service's.
//! - Reading a configuration has no side effect; an invalid one never replaces one in force, and
//!   `status` says so. The main file is read on request only.
//! - One supervisor a state directory and a runtime directory (two locks), neither writable by
//!   others. Nothing is made before the configuration is valid.
//! - Status is answered from memory; each call has a deadline; connections, calls, watchers and
//!   messages are bounded.
//! - The end of the daemon leaves every container running, those of tasks included.

mod board;
mod config;
mod control;
mod dirs;
mod error;
mod guard;
mod kubelet;
mod logs;
mod memory;
mod nri;
mod observe;
mod quarantine;
mod reload;
mod run;
mod watch_dir;

pub use config::{
    AgentChoice, AgentTcp, Config, ConfigError, ConfigErrors, ControlGroup, DEFAULT_FILE,
    DEFAULT_TOML, EmbeddedAgent, Flags, HttpSettings, KubeletSettings, LogFormat, NriSettings,
    Origin, PluginSpec, Setting, Sources, TaskSettings, format_duration, parse_duration,
    parse_log_filter, parse_size,
};
pub use control::{LocalTasks, NriControl, NriLedger};
pub use dirs::Root;
pub use error::SupervisorError;
pub use logs::Tail;
pub use run::{LogHandle, Program, run};
