//! The daemon's configuration: read, merged, checked, with the origin of every value.
//!
//! One TOML file, a directory of `CSIPluginInfo` JSON files, `LONGSHORE_*` and flags. Reading has
//! no side effect. The main file is right as a whole or refused as a whole; a broken file of the
//! plugin directory is reported and leaves the other plugins (and what it said before) alone.

mod error;
mod locate;
mod plugin;
mod plugin_dir;
mod raw;
mod show;
mod sources;
mod units;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use longshore_paths::{RuntimeDir, check_socket_path};

pub use error::{ConfigError, Origin};
pub use plugin::PluginSpec;
pub use show::Setting;
pub use sources::{DEFAULT_FILE, DEFAULT_TOML, Flags, Sources};
pub use units::{format_duration, parse_duration, parse_size};

use raw::{RawCsi, RawEmbedded};
use sources::{Layers, Origins};

/// A configuration that can be run.
#[derive(Debug, Clone)]
pub struct Config {
    /// The main file, when there is one.
    pub path: Option<PathBuf>,
    /// What must survive a reboot.
    pub state_dir: PathBuf,
    /// Sockets and what cannot outlive a reboot.
    pub runtime_dir: PathBuf,
    /// The log filter.
    pub log: String,
    /// Who runs the containers.
    pub agent: AgentChoice,
    /// What plugins get as `MESOS_AGENT_ID`; `None`: what the agent says.
    pub agent_id: Option<String>,
    /// The watched directory of JSON files.
    pub plugin_dir: Option<PathBuf>,
    /// The plugins, by name.
    pub plugins: Vec<PluginSpec>,
    /// What deserves a look.
    pub warnings: Vec<String>,
    /// Broken files of the plugin directory, each one line.
    pub errors: Vec<String>,
    settings: Vec<Setting>,
    main: Arc<Main>,
}

/// What the main file gave, for reading the plugin directory again without it.
#[derive(Debug, Default)]
struct Main {
    defaults: RawCsi,
    plugins: Vec<PluginSpec>,
}

/// Who runs the containers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentChoice {
    /// The agent within this process.
    Embedded(EmbeddedAgent),
    /// Another process.
    External {
        /// Its URL.
        url: String,
        /// The file with its bearer token.
        token_file: Option<PathBuf>,
    },
}

/// The embedded agent's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbeddedAgent {
    /// For how long an exit status can still be asked for.
    pub exit_retention: Duration,
    /// The age at which the sandbox of an ended container goes.
    pub sandbox_max_age: Duration,
    /// The size that all sandboxes of ended containers may have, in bytes.
    pub sandbox_max_bytes: u64,
    /// The size at which stdout and stderr of a container are rotated, in bytes.
    pub log_max_bytes: u64,
    /// How many containers may exist at a time.
    pub max_containers: usize,
    /// Whether containers get cgroups, where the host allows it.
    pub cgroups: bool,
    /// TCP, besides the Unix socket.
    pub tcp: Option<AgentTcp>,
}

/// The embedded agent on TCP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentTcp {
    /// Address and port.
    pub listen: std::net::SocketAddr,
    /// The file with the token that callers need.
    pub token_file: PathBuf,
    /// Certificate chain and key, both PEM.
    pub tls: Option<(PathBuf, PathBuf)>,
}

impl Config {
    /// Reads the configuration. With the one in force as `previous`, a broken file of the plugin
    /// directory keeps the meaning it had there.
    ///
    /// # Errors
    /// [`ConfigError`], naming file, line and key. Broken files of the plugin directory are no
    /// error here but in [`Config::errors`].
    pub fn load(sources: &Sources, previous: Option<&Self>) -> Result<Self, ConfigError> {
        let Layers {
            raw,
            table,
            origins,
        } = sources.read()?;
        let state_dir = match &raw.state_dir {
            Some(dir) => absolute(&origins, "state_dir", dir)?,
            None => default_state_dir(sources)?,
        };
        let runtime_dir = match &raw.runtime_dir {
            Some(dir) => absolute(&origins, "runtime_dir", dir)?,
            None => default_runtime_dir(sources, &state_dir),
        };
        // The longest of the sockets below it; every plugin has such a one.
        let socket = RuntimeDir::new(&runtime_dir).csi_socket("0123456789abcdef");
        check_socket_path(&socket)
            .map_err(|error| origins.invalid("runtime_dir", error.to_string()))?;
        if raw.log.trim().is_empty() {
            return Err(origins.invalid("log", "empty; write a level like \"info\""));
        }
        let mut config = Self {
            path: origins.path().map(Path::to_owned),
            agent: agent(&raw.agent, &origins)?,
            agent_id: raw.agent.id.clone(),
            plugin_dir: match &raw.csi.plugin_dir {
                Some(dir) => Some(absolute(&origins, "csi.plugin_dir", dir)?),
                None => None,
            },
            state_dir,
            runtime_dir,
            log: raw.log.clone(),
            plugins: Vec::with_capacity(raw.plugins.len()),
            warnings: Vec::new(),
            errors: Vec::new(),
            settings: Vec::new(),
            main: Arc::default(),
        };
        // The defaults of all plugins are judged even when no plugin uses them.
        plugin::check_defaults(&raw.csi)
            .map_err(|refusal| origins.invalid(format!("csi.{}", refusal.key), refusal.message))?;
        for (name, table) in &raw.plugins {
            let key = plugin_key(name);
            let plugin = plugin::from_table(name, table, &raw.csi, origins.near(&key));
            config.plugins.push(plugin.map_err(|refusal| {
                let dot = if refusal.key.is_empty() { "" } else { "." };
                origins.invalid(format!("{key}{dot}{}", refusal.key), refusal.message)
            })?);
        }
        if let Some((plugin, earlier, id)) = plugin::first_collision(&config.plugins) {
            let message = format!(
                "its id `{id}` is also that of plugins.{} ({}); change type or name of one",
                earlier.name(),
                earlier.origin
            );
            return Err(origins.invalid(plugin_key(plugin.name()), message));
        }
        config.settings = show::settings(&table, &origins.finder(), &config);
        config.main = Arc::new(Main {
            defaults: raw.csi,
            plugins: config.plugins.clone(),
        });
        config.read_plugin_dir(previous);
        Ok(config)
    }

    /// This configuration with its plugin directory read again, the main file untouched.
    #[must_use]
    pub fn rescan(&self) -> Self {
        let mut config = self.clone();
        config.plugins.clone_from(&self.main.plugins);
        config.warnings.clear();
        config.errors.clear();
        config.read_plugin_dir(Some(self));
        config
    }

    /// The runtime directory that a daemon with these sources uses, also while its file is not
    /// valid: for a client that looks for the daemon.
    ///
    /// # Errors
    /// [`ConfigError::NoHome`] alone.
    pub fn runtime_dir(sources: &Sources) -> Result<PathBuf, ConfigError> {
        let named = |key| sources.lenient(key).filter(|dir| dir.is_absolute());
        if let Some(dir) = named("runtime_dir") {
            return Ok(dir);
        }
        let state_dir = match named("state_dir") {
            Some(dir) => dir,
            None => default_state_dir(sources)?,
        };
        Ok(default_runtime_dir(sources, &state_dir))
    }

    fn read_plugin_dir(&mut self, previous: Option<&Self>) {
        let Some(dir) = self.plugin_dir.clone() else {
            return;
        };
        let before = |path: &Path| {
            let plugins = previous
                .map(|config| config.plugins.as_slice())
                .unwrap_or_default();
            plugins
                .iter()
                .find(|plugin| plugin.file() == Some(path))
                .cloned()
        };
        let found = plugin_dir::read(&dir, &self.main.defaults, &before);
        self.warnings.extend(found.warnings);
        self.errors
            .extend(found.errors.iter().map(ToString::to_string));
        for plugin in found.plugins {
            let clash = self
                .plugins
                .iter()
                .find(|other| other.name() == plugin.name());
            if let Some(other) = clash {
                let (name, at) = (plugin.name(), &other.origin);
                self.errors.push(format!(
                    "{}: a plugin `{name}` is already declared at {at}; rename the file",
                    plugin.origin
                ));
                continue;
            }
            self.plugins.push(plugin);
            if let Some((plugin, earlier, id)) = plugin::first_collision(&self.plugins) {
                self.errors.push(format!(
                    "{}: its id `{id}` is also that of plugin {} ({}); change type or name of one",
                    plugin.origin,
                    earlier.name(),
                    earlier.origin
                ));
                self.plugins.pop();
            }
        }
    }

    /// Every setting in force with its origin, in the file's order of keys.
    #[must_use]
    pub fn settings(&self) -> &[Setting] {
        &self.settings
    }
}

impl PluginSpec {
    fn file(&self) -> Option<&Path> {
        match &self.origin {
            Origin::File { path, .. } => Some(path),
            _ => None,
        }
    }
}

fn plugin_key(name: &str) -> String {
    let bare = name
        .chars()
        .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
    if bare {
        format!("plugins.{name}")
    } else {
        format!("plugins.\"{name}\"")
    }
}

fn absolute(origins: &Origins, key: &str, path: &Path) -> Result<PathBuf, ConfigError> {
    if path.is_absolute() {
        Ok(path.to_owned())
    } else {
        let message = format!("`{}` is not an absolute path", path.display());
        Err(origins.invalid(key, message))
    }
}

fn agent(raw: &raw::RawAgent, origins: &Origins) -> Result<AgentChoice, ConfigError> {
    if let Some(url) = &raw.url {
        if let Err(error) = url.parse::<longshore_agent_client::AgentEndpoint>() {
            return Err(origins.invalid("agent.url", error.to_string()));
        }
        let token_file = match &raw.token_file {
            Some(file) => Some(absolute(origins, "agent.token_file", file)?),
            None => None,
        };
        return Ok(AgentChoice::External {
            url: url.clone(),
            token_file,
        });
    }
    if raw.token_file.is_some() {
        let message =
            "only of use with `agent.url`; the embedded agent needs none on its Unix socket";
        return Err(origins.invalid("agent.token_file", message));
    }
    let embedded = &raw.embedded;
    Ok(AgentChoice::Embedded(EmbeddedAgent {
        exit_retention: embedded.exit_retention.0,
        sandbox_max_age: embedded.sandbox_max_age.0,
        sandbox_max_bytes: embedded.sandbox_max_bytes.0,
        log_max_bytes: embedded.log_max_bytes.0,
        max_containers: positive_count(origins, embedded.max_containers)?,
        cgroups: embedded.cgroups,
        tcp: agent_tcp(embedded, origins)?,
    }))
}

fn positive_count(origins: &Origins, count: u32) -> Result<usize, ConfigError> {
    match usize::try_from(count) {
        Ok(count) if count > 0 => Ok(count),
        _ => Err(origins.invalid("agent.embedded.max_containers", "0 is not allowed")),
    }
}

fn agent_tcp(raw: &RawEmbedded, origins: &Origins) -> Result<Option<AgentTcp>, ConfigError> {
    let Some(listen) = &raw.listen else {
        return Ok(None);
    };
    let Ok(listen) = listen.parse::<std::net::SocketAddr>() else {
        let message =
            format!("`{listen}` is no address and port, write it like \"127.0.0.1:5051\"");
        return Err(origins.invalid("agent.embedded.listen", message));
    };
    let Some(token_file) = &raw.token_file else {
        let message =
            "TCP needs a token; set `token_file` to a 0600 file of at least 32 random bytes";
        return Err(origins.invalid("agent.embedded.listen", message));
    };
    let tls = match (&raw.tls_certificate, &raw.tls_key) {
        (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
        (None, None) => None,
        (Some(_), None) => {
            return Err(origins.invalid("agent.embedded.tls_certificate", "set `tls_key` too"));
        }
        (None, Some(_)) => {
            return Err(origins.invalid("agent.embedded.tls_key", "set `tls_certificate` too"));
        }
    };
    if tls.is_none() && !listen.ip().is_loopback() {
        let message =
            format!("{listen} is not loopback and needs TLS; set `tls_certificate` and `tls_key`");
        return Err(origins.invalid("agent.embedded.listen", message));
    }
    Ok(Some(AgentTcp {
        listen,
        token_file: token_file.clone(),
        tls,
    }))
}

fn default_state_dir(sources: &Sources) -> Result<PathBuf, ConfigError> {
    if nix::unistd::geteuid().is_root() {
        return Ok(PathBuf::from("/var/lib/longshore"));
    }
    sources
        .env_dir("XDG_STATE_HOME")
        .or_else(|| {
            sources
                .env_dir("HOME")
                .map(|home| home.join(".local/state"))
        })
        .map(|dir| dir.join("longshore"))
        .ok_or(ConfigError::NoHome { key: "state_dir" })
}

fn default_runtime_dir(sources: &Sources, state_dir: &Path) -> PathBuf {
    if nix::unistd::geteuid().is_root() {
        return PathBuf::from("/run/longshore");
    }
    // Without XDG_RUNTIME_DIR: a directory of our own, never a name in /tmp that others can take.
    sources
        .env_dir("XDG_RUNTIME_DIR")
        .map_or_else(|| state_dir.join("run"), |dir| dir.join("longshore"))
}
