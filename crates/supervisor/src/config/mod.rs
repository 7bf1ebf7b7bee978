//! The daemon's configuration: read, merged, checked, with the origin of every value.
//!
//! One TOML file, a directory of `CSIPluginInfo` JSON files, `LONGSHORE_*` and flags. Reading has
//! no side effect. The main file is right as a whole or refused as a whole, with all that is wrong; a
//! broken file of the plugin directory is reported and leaves the other plugins (and what it said
//! before) alone.

mod agent;
mod error;
mod find;
mod group;
mod http;
mod kubelet;
mod locate;
mod log;
mod nri;
mod plugin;
mod plugin_dir;
mod problems;
mod raw;
#[cfg(test)]
mod reference;
mod shape;
mod show;
mod sources;
mod task_dir;
mod tasks;
mod units;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use longshore_paths::{RuntimeDir, StateRoot, check_socket_path};

pub use agent::{AgentChoice, AgentTcp, EmbeddedAgent};
pub use error::{ConfigError, ConfigErrors, Origin};
pub use group::ControlGroup;
pub use http::HttpSettings;
pub use kubelet::KubeletSettings;
pub use log::{LogFormat, parse_log_filter};
pub use nri::NriSettings;
pub use plugin::PluginSpec;
pub use show::Setting;
pub use sources::{DEFAULT_FILE, DEFAULT_TOML, Flags, Sources};
pub(crate) use task_dir::{TaskDir, rule};
pub use tasks::TaskSettings;
pub use units::{format_duration, parse_duration, parse_size};

use locate::quoted;
use plugin::Ground;
use problems::Problems;
use sources::Layers;

/// A configuration that can be run.
#[derive(Debug, Clone)]
pub struct Config {
    /// The main file, when there is one.
    pub path: Option<PathBuf>,
    /// What must survive a reboot.
    pub state_dir: PathBuf,
    /// Sockets and what cannot outlive a reboot.
    pub runtime_dir: PathBuf,
    /// Who may use the control socket beside root and the daemon's user.
    pub control_group: Option<ControlGroup>,
    /// The log filter.
    pub log: String,
    /// How a line of the log looks.
    pub log_format: LogFormat,
    /// Who runs the containers.
    pub agent: AgentChoice,
    /// What plugins get as `MESOS_AGENT_ID`; `None`: what the agent says.
    pub agent_id: Option<String>,
    /// Docker tasks.
    pub tasks: TaskSettings,
    /// NRI plugins.
    pub nri: NriSettings,
    /// What is told over HTTP; `None`: nothing is.
    pub http: Option<HttpSettings>,
    /// Where plugins are registered with kubelet; whether one is, is its own.
    pub kubelet: KubeletSettings,
    /// The watched directory of JSON files.
    pub plugin_dir: Option<PathBuf>,
    /// The watched directory of declared tasks, and whether the configuration names it.
    pub task_dir: Option<(PathBuf, bool)>,
    /// What it declares.
    pub(crate) declared: Arc<TaskDir>,
    /// The plugins, by name.
    pub plugins: Vec<PluginSpec>,
    /// What deserves a look.
    pub warnings: Vec<String>,
    /// Broken files of the plugin directory, each one line.
    pub errors: Vec<String>,
    /// What this machine lacks for some plugin, such as a user, each one line. It is no error of the file: the
    /// plugin fails until it is there, and no other does. Each is among the warnings.
    pub lacking: Vec<String>,
    settings: Vec<Setting>,
    main: Arc<Main>,
}

/// What the main file gave, for reading the plugin directory again without it.
#[derive(Debug)]
struct Main {
    ground: Ground,
    plugins: Vec<PluginSpec>,
    warnings: Vec<String>,
}

impl Config {
    /// Reads the configuration. With the one in force as `previous`, a broken file of the plugin
    /// directory keeps the meaning it had there.
    ///
    /// # Errors
    /// [`ConfigErrors`]: all that is wrong, each with file, line and key. Broken files of the plugin
    /// directory are no error here but in [`Config::errors`].
    pub fn load(sources: &Sources, previous: Option<&Self>) -> Result<Self, ConfigErrors> {
        let Layers {
            raw,
            table,
            origins,
            misshapen,
        } = sources.read()?;
        let mut problems = Problems::new(&origins, misshapen);
        for (key, path) in [
            ("state_dir", &raw.state_dir),
            ("runtime_dir", &raw.runtime_dir),
            ("csi.plugin_dir", &raw.csi.plugin_dir),
            ("tasks.dir", &raw.tasks.dir),
        ] {
            if let Some(path) = path.as_ref().filter(|path| !path.is_absolute()) {
                let message = format!("`{}` is not an absolute path", path.display());
                problems.note(key, message);
            }
        }
        let plugin_dir = raw.csi.plugin_dir.clone();
        let task_dir = match &raw.tasks.dir {
            Some(dir) => Some((dir.clone(), true)),
            None => task_dir::default_dir(&sources.path()).map(|dir| (dir, false)),
        };
        // What is refused has a stand-in, so that the rest can be judged, too.
        let state_dir = match &raw.state_dir {
            Some(dir) => dir.clone(),
            None => problems
                .keep(default_state_dir(sources))
                .unwrap_or_else(|| PathBuf::from("/")),
        };
        let runtime_dir = match &raw.runtime_dir {
            Some(dir) => dir.clone(),
            None => default_runtime_dir(sources, &state_dir),
        };
        // The longest of the sockets below it; every plugin has such a one.
        let socket = RuntimeDir::new(&runtime_dir).csi_socket("0123456789abcdef");
        if let Err(error) = check_socket_path(&socket) {
            problems.note("runtime_dir", error.to_string());
        }
        if let Err(message) = parse_log_filter(&raw.log) {
            problems.note("log", message);
        }
        let control_group = group::group(raw.control_group.as_deref(), sources.uid, &mut problems);
        let agent = agent::choice(&raw.agent, &mut problems);
        let tasks = tasks::settings(&raw.tasks, &mut problems);
        let nri = nri::settings(&raw.nri, &runtime_dir, &mut problems);
        let http = http::settings(&raw.http, &mut problems);
        let kubelet = kubelet::settings(&raw.kubelet, &mut problems);
        // The defaults of all plugins are judged even when no plugin uses them.
        for refusal in plugin::check_defaults(&raw.csi) {
            problems.note(format!("csi.{}", refusal.key), refusal.message);
        }
        let ground = Ground {
            defaults: raw.csi,
            embedded: raw.agent.url.is_none(),
            engine: tasks.endpoint().map(drop),
            uid: sources.uid,
            register: raw.kubelet.register,
            state: StateRoot::new(&state_dir),
            runtime: RuntimeDir::new(&runtime_dir),
        };
        let mut plugins = Vec::with_capacity(raw.plugins.len());
        for (name, table) in &raw.plugins {
            let key = plugin_key(name);
            let line = |refusal: plugin::Refusal| {
                let key = format!("{key}.{}", refusal.key);
                origins.invalid(key, refusal.message).to_string()
            };
            match plugin::from_table(name, table, &ground, origins.near(&key), &line) {
                Ok(plugin) => plugins.push(plugin),
                Err(refusals) => {
                    for refusal in refusals {
                        let dot = if refusal.key.is_empty() { "" } else { "." };
                        problems.note(format!("{key}{dot}{}", refusal.key), refusal.message);
                    }
                }
            }
        }
        for (plugin, earlier, id) in plugin::collisions(&plugins) {
            let message = format!(
                "its id `{id}` is also that of plugins.{} ({}); change type or name of one",
                earlier.name(),
                earlier.origin
            );
            problems.note(plugin_key(plugin.name()), message);
        }
        let errors = problems.into_errors();
        if !errors.is_empty() {
            // All that is wrong is told, also in the files beside this one.
            let dir = plugin_dir.filter(|dir| dir.is_absolute());
            let beside = dir.map(|dir| plugin_dir::read(&dir, &ground, &|_| None).errors);
            let all = errors.into_iter().chain(beside.into_iter().flatten());
            return Err(ConfigErrors::of(all.collect()));
        }
        let main = Main {
            ground,
            plugins,
            warnings: sources.unknown_variables(),
        };
        let mut config = Self {
            path: origins.path().map(Path::to_owned),
            agent,
            agent_id: raw.agent.id.clone(),
            tasks,
            nri,
            http,
            kubelet,
            plugin_dir,
            task_dir,
            declared: Arc::default(),
            state_dir,
            runtime_dir,
            control_group,
            log: raw.log.clone(),
            log_format: raw.log_format.into(),
            plugins: main.plugins.clone(),
            warnings: main.warnings.clone(),
            errors: Vec::new(),
            lacking: Vec::new(),
            settings: Vec::new(),
            main: Arc::new(main),
        };
        config.settings = show::settings(&table, &origins.finder(), &config);
        config.read_plugin_dir(previous);
        config.read_task_dir();
        config.tell_what_is_lacking();
        Ok(config)
    }

    /// This configuration with its directories of plugins and tasks read again, the main file untouched.
    #[must_use]
    pub fn rescan(&self) -> Self {
        let mut config = self.clone();
        config.plugins.clone_from(&self.main.plugins);
        config.warnings.clone_from(&self.main.warnings);
        config.errors.clear();
        config.read_plugin_dir(Some(self));
        config.read_task_dir();
        config.tell_what_is_lacking();
        config
    }

    fn tell_what_is_lacking(&mut self) {
        let plugins = self.plugins.iter();
        self.lacking = plugins.flat_map(|it| it.lacking.clone()).collect();
        self.warnings.extend(self.lacking.iter().cloned());
    }

    /// The runtime directory that a daemon with these sources uses, also while its file is not
    /// valid: for a client that looks for the daemon.
    ///
    /// # Errors
    /// [`ConfigError`] when that cannot be told: a file that is named and cannot be read, a broken line that
    /// may have set it, a path that is not absolute.
    pub fn runtime_dir(sources: &Sources) -> Result<PathBuf, ConfigError> {
        find::runtime_dir(sources)
    }

    fn read_task_dir(&mut self) {
        let Some((dir, named)) = &self.task_dir else {
            return;
        };
        let found = task_dir::read(dir, *named);
        self.warnings.extend(found.warnings.iter().cloned());
        self.errors.extend(found.errors.iter().cloned());
        self.declared = Arc::new(found);
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
        let found = plugin_dir::read(&dir, &self.main.ground, &before);
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
            let collisions = plugin::collisions(&self.plugins);
            if let Some((plugin, earlier, id)) = collisions.first() {
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

    /// Whether what is in force with `other` is the same; where it was read from does not matter.
    pub(crate) fn says_the_same(&self, other: &Self) -> bool {
        let one = |config: &Self| {
            let plugins = config.plugins.iter();
            let plugins: Vec<_> = plugins.map(|p| (p.config.clone(), p.kubelet)).collect();
            (
                config.kubelet.clone(),
                config.path.clone(),
                config.plugin_dir.clone(),
                config.log.clone(),
                plugins,
                Arc::clone(&config.declared),
            )
        };
        one(self) == one(other)
    }

    /// Every key that has a default, with it.
    #[must_use]
    pub fn defaults() -> Vec<Setting> {
        show::defaults()
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
    format!("plugins.{}", quoted(name))
}

fn default_state_dir(sources: &Sources) -> Result<PathBuf, ConfigError> {
    if sources.uid == 0 {
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
    if sources.uid == 0 {
        return PathBuf::from("/run/longshore");
    }
    // Without XDG_RUNTIME_DIR: a directory of our own, never a name in /tmp that others can take.
    sources
        .env_dir("XDG_RUNTIME_DIR")
        .map_or_else(|| state_dir.join("run"), |dir| dir.join("longshore"))
}
