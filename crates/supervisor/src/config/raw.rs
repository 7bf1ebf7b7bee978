//! The configuration file's shape, key for key; `default.toml` documents and fills it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use super::units::{Size, Span};

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawConfig {
    pub(crate) state_dir: Option<PathBuf>,
    pub(crate) runtime_dir: Option<PathBuf>,
    pub(crate) control_group: Option<String>,
    pub(crate) log: String,
    pub(crate) log_format: RawLogFormat,
    pub(crate) agent: RawAgent,
    pub(crate) csi: RawCsi,
    pub(crate) tasks: RawTasks,
    pub(crate) nri: RawNri,
    pub(crate) http: RawHttp,
    pub(crate) kubelet: RawKubelet,
    pub(crate) plugins: BTreeMap<String, RawPlugin>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawAgent {
    pub(crate) url: Option<String>,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) id: Option<String>,
    pub(crate) embedded: RawEmbedded,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawEmbedded {
    pub(crate) exit_retention: Span,
    pub(crate) sandbox_max_age: Span,
    pub(crate) sandbox_max_bytes: Size,
    pub(crate) log_max_bytes: Size,
    pub(crate) max_containers: u32,
    pub(crate) cgroups: bool,
    pub(crate) listen: Option<String>,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) tls_certificate: Option<PathBuf>,
    pub(crate) tls_key: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawTasks {
    pub(crate) dir: Option<PathBuf>,
    pub(crate) restart: RawRestart,
    pub(crate) engine: Option<String>,
    pub(crate) logs: RawTaskLogs,
    pub(crate) grace: Span,
    pub(crate) log_max_bytes: Size,
    pub(crate) log_files: u32,
    pub(crate) max_age: Span,
    pub(crate) max_bytes: Size,
    pub(crate) max_tasks: u32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawNri {
    pub(crate) enabled: bool,
    pub(crate) socket: Option<PathBuf>,
    pub(crate) plugin_dir: PathBuf,
    pub(crate) config_dir: PathBuf,
    pub(crate) namespace: String,
    pub(crate) required: Vec<String>,
    pub(crate) registration_timeout: Span,
    pub(crate) request_timeout: Span,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawLogFormat {
    #[default]
    Auto,
    Text,
    Json,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawHttp {
    pub(crate) listen: Option<String>,
    pub(crate) hosts: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawKubelet {
    pub(crate) register: bool,
    pub(crate) registration_dir: PathBuf,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawTaskLogs {
    #[default]
    Files,
    Engine,
    None,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawCsi {
    pub(crate) plugin_dir: Option<PathBuf>,
    pub(crate) startup_timeout: Span,
    pub(crate) kill_grace: Span,
    pub(crate) on_unhealthy: RawOnUnhealthy,
    pub(crate) liveness: RawLiveness,
    pub(crate) restart: RawRestart,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawOnUnhealthy {
    #[default]
    Restart,
    Report,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawLiveness {
    pub(crate) interval: Option<Span>,
    pub(crate) timeout: Option<Span>,
    pub(crate) failure_threshold: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawRestart {
    pub(crate) initial: Option<Span>,
    pub(crate) max: Option<Span>,
    pub(crate) stable_after: Option<Span>,
    pub(crate) start_limit_burst: Option<u32>,
    pub(crate) start_limit_window: Option<Span>,
    pub(crate) slow_retry: Option<Span>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawService {
    Controller,
    Node,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawPlugin {
    #[serde(rename = "type")]
    pub(crate) type_: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) services: Option<Vec<RawService>>,
    pub(crate) startup_timeout: Option<Span>,
    pub(crate) kill_grace: Option<Span>,
    pub(crate) on_unhealthy: Option<RawOnUnhealthy>,
    pub(crate) liveness: RawLiveness,
    pub(crate) restart: RawRestart,
    pub(crate) target_path_root: Option<String>,
    pub(crate) target_path_exists: Option<bool>,
    pub(crate) kubelet: Option<bool>,
    pub(crate) containers: Vec<RawContainer>,
    pub(crate) endpoints: RawEndpoints,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawEndpoints {
    pub(crate) controller: Option<String>,
    pub(crate) node: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawContainer {
    pub(crate) services: Vec<RawService>,
    pub(crate) command: Option<Vec<String>>,
    pub(crate) shell: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) resources: RawResources,
    pub(crate) volumes: Vec<RawVolume>,
    pub(crate) image: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawResources {
    pub(crate) cpus: Option<f64>,
    pub(crate) mem: Option<Size>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawVolume {
    pub(crate) host: String,
    pub(crate) container: Option<String>,
    #[serde(default)]
    pub(crate) mode: RawMode,
    #[serde(default)]
    pub(crate) propagation: RawPropagation,
}

#[derive(Debug, Default, Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawMode {
    #[default]
    Rw,
    Ro,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RawPropagation {
    #[default]
    Private,
    Slave,
    Bidirectional,
}
