//! NRI plugins: `[nri]`.

use std::path::{Path, PathBuf};
use std::time::Duration;

use longshore_nri_adaptation::Timeouts;
use longshore_nri_api::{InvalidName, PluginId};
use longshore_paths::{RuntimeDir, check_socket_path};

use super::problems::Problems;
use super::raw::RawNri;

/// The longest namespace, in bytes: as Kubernetes has it.
const NAMESPACE_MAX: usize = 63;

/// What holds for NRI plugins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NriSettings {
    /// Whether there are any.
    pub enabled: bool,
    /// Where they connect.
    pub socket: PathBuf,
    /// Those that are launched.
    pub plugin_dir: PathBuf,
    /// Their drop-in configuration.
    pub config_dir: PathBuf,
    /// The namespace of all pods.
    pub namespace: String,
    /// Plugins without which no container is created, by name or with their index.
    pub required: Vec<String>,
    /// How long they may take.
    pub timeouts: Timeouts,
}

/// The settings, as far as they are acceptable; what is not is noted.
pub(super) fn settings(
    raw: &RawNri,
    runtime_dir: &Path,
    problems: &mut Problems<'_>,
) -> NriSettings {
    for (key, path) in [
        ("nri.socket", raw.socket.as_ref()),
        ("nri.plugin_dir", Some(&raw.plugin_dir)),
        ("nri.config_dir", Some(&raw.config_dir)),
    ] {
        if let Some(path) = path.filter(|path| !path.is_absolute()) {
            problems.note(key, format!("`{}` is not an absolute path", path.display()));
        }
    }
    let socket = match &raw.socket {
        Some(socket) => socket.clone(),
        None => RuntimeDir::new(runtime_dir).nri_socket(),
    };
    if let Err(error) = check_socket_path(&socket) {
        problems.note("nri.socket", error.to_string());
    }
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let namespace = &raw.namespace;
    if namespace.is_empty() || namespace.len() > NAMESPACE_MAX || !namespace.bytes().all(plain) {
        problems.note(
            "nri.namespace",
            format!("it has 1 to {NAMESPACE_MAX} small letters, digits and dashes"),
        );
    }
    for name in &raw.required {
        if let Err(error) = check_name(name) {
            problems.note("nri.required", format!("`{name}` names no plugin: {error}"));
        }
    }
    for (key, timeout) in [
        ("nri.registration_timeout", raw.registration_timeout.0),
        ("nri.request_timeout", raw.request_timeout.0),
    ] {
        if timeout.is_zero() || timeout > Duration::from_secs(60) {
            problems.note(key, "it must be more than 0 and at most 1m");
        }
    }
    NriSettings {
        enabled: raw.enabled,
        socket,
        plugin_dir: raw.plugin_dir.clone(),
        config_dir: raw.config_dir.clone(),
        namespace: namespace.clone(),
        required: raw.required.clone(),
        timeouts: Timeouts {
            registration: raw.registration_timeout.0,
            request: raw.request_timeout.0,
        },
    }
}

/// `10-logger`, or `logger` alone.
fn check_name(name: &str) -> Result<(), InvalidName> {
    match name.parse::<PluginId>() {
        Ok(_) => Ok(()),
        Err(_) => PluginId::new("00", name).map(drop),
    }
}
