//! Where a configuration comes from: defaults < file < environment < flags.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::error::{ConfigError, ConfigErrors, Origin};
use super::locate::Located;
use super::raw::RawConfig;
use super::shape;

/// Every key and its default, documented; what `longshore config default` prints.
pub const DEFAULT_TOML: &str = include_str!("default.toml");

/// The file a daemon of root reads when none is named.
pub const DEFAULT_FILE: &str = "/etc/longshore/longshore.toml";

/// The largest file of a configuration that is read, in bytes.
pub(crate) const FILE_MAX: u64 = 1024 * 1024;

/// A key that the environment or a flag may set.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Override {
    key: &'static str,
    env: &'static str,
    flag: &'static str,
}

const OVERRIDES: &[Override] = &[
    Override {
        key: "state_dir",
        env: "LONGSHORE_STATE_DIR",
        flag: "--state-dir",
    },
    Override {
        key: "runtime_dir",
        env: "LONGSHORE_RUNTIME_DIR",
        flag: "--runtime-dir",
    },
    Override {
        key: "log",
        env: "LONGSHORE_LOG",
        flag: "--log",
    },
    Override {
        key: "log_format",
        env: "LONGSHORE_LOG_FORMAT",
        flag: "--log-format",
    },
    Override {
        key: "http.listen",
        env: "LONGSHORE_HTTP",
        flag: "--http",
    },
    Override {
        key: "agent.url",
        env: "LONGSHORE_AGENT_URL",
        flag: "--agent-url",
    },
    Override {
        key: "agent.token_file",
        env: "LONGSHORE_AGENT_TOKEN_FILE",
        flag: "--agent-token-file",
    },
    Override {
        key: "agent.id",
        env: "LONGSHORE_AGENT_ID",
        flag: "--agent-id",
    },
    Override {
        key: "tasks.engine",
        env: "LONGSHORE_ENGINE",
        flag: "--engine",
    },
    Override {
        key: "csi.plugin_dir",
        env: "LONGSHORE_PLUGIN_DIR",
        flag: "--plugin-dir",
    },
];

/// Variables that are no settings: where the file is, and what every container of ours has.
const OTHER_VARIABLES: [&str; 2] = ["LONGSHORE_CONFIG", "LONGSHORE_LAUNCH_HASH"];

/// How many letters have to be added, removed or replaced to make one name of the other.
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, a) in one.bytes().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (column, b) in other.bytes().enumerate() {
            let replaced = diagonal + usize::from(a != b);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

/// The values given by flag; `None` where the flag was not given.
#[derive(Debug, Clone, Default)]
pub struct Flags {
    /// `--state-dir`
    pub state_dir: Option<PathBuf>,
    /// `--runtime-dir`
    pub runtime_dir: Option<PathBuf>,
    /// `--log`
    pub log: Option<String>,
    /// `--log-format`
    pub log_format: Option<String>,
    /// `--http`
    pub http: Option<String>,
    /// `--agent-url`
    pub agent_url: Option<String>,
    /// `--agent-token-file`
    pub agent_token_file: Option<PathBuf>,
    /// `--agent-id`
    pub agent_id: Option<String>,
    /// `--plugin-dir`
    pub plugin_dir: Option<PathBuf>,
    /// `--engine`
    pub engine: Option<String>,
}

impl Flags {
    fn get(&self, key: &str) -> Option<String> {
        let path = |path: &Option<PathBuf>| path.as_ref().map(|p| p.to_string_lossy().into_owned());
        match key {
            "state_dir" => path(&self.state_dir),
            "runtime_dir" => path(&self.runtime_dir),
            "log" => self.log.clone(),
            "log_format" => self.log_format.clone(),
            "http.listen" => self.http.clone(),
            "agent.url" => self.agent_url.clone(),
            "agent.token_file" => path(&self.agent_token_file),
            "agent.id" => self.agent_id.clone(),
            "tasks.engine" => self.engine.clone(),
            "csi.plugin_dir" => path(&self.plugin_dir),
            _ => None,
        }
    }
}

/// Everything a configuration is read from; reading it again is a reload.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The main file; `None` for the default file, which may be missing.
    pub file: Option<PathBuf>,
    /// The environment, `LONGSHORE_*`, `HOME` and `XDG_*` alone.
    pub env: BTreeMap<String, String>,
    /// The flags.
    pub flags: Flags,
    /// The user whom the daemon runs as: whose default directories there are, and what their containers
    /// may be given.
    pub uid: u32,
}

impl Sources {
    /// The sources of this process: its environment, with the given file and flags.
    #[must_use]
    pub fn of_process(file: Option<PathBuf>, flags: Flags) -> Self {
        let env = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, value)| {
                let ours =
                    name.starts_with("LONGSHORE_") || name.starts_with("XDG_") || name == "HOME";
                ours && !value.is_empty()
            })
            .collect();
        Self {
            file,
            env,
            flags,
            uid: nix::unistd::geteuid().as_raw(),
        }
    }

    /// A warning for each variable of our name that no setting is read from.
    pub(crate) fn unknown_variables(&self) -> Vec<String> {
        let known = || {
            OVERRIDES
                .iter()
                .map(|known| known.env)
                .chain(OTHER_VARIABLES)
        };
        let unknown = self.env.keys().filter(|name| {
            name.starts_with("LONGSHORE_") && !known().any(|known| known == name.as_str())
        });
        let warning = |name: &String| {
            let closest = known()
                .map(|known| (distance(name, known), known))
                .min()
                .filter(|(distance, _)| *distance <= 3);
            let hint =
                closest.map_or_else(String::new, |(_, known)| format!("; did you mean {known}?"));
            format!("${name}: no setting is read from this variable, ignored{hint}")
        };
        unknown.map(warning).collect()
    }

    /// An absolute path from the environment, without the empty and the relative.
    pub(crate) fn env_dir(&self, name: &str) -> Option<PathBuf> {
        self.env
            .get(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    }

    /// The main file, which may be missing when none is named.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.main_file().0
    }

    /// The main file and whether it must exist.
    fn main_file(&self) -> (PathBuf, bool) {
        if let Some(path) = &self.file {
            return (path.clone(), true);
        }
        if let Some(path) = self.env.get("LONGSHORE_CONFIG") {
            return (PathBuf::from(path), true);
        }
        if self.uid == 0 {
            return (PathBuf::from(DEFAULT_FILE), false);
        }
        let home = self
            .env_dir("XDG_CONFIG_HOME")
            .or_else(|| self.env_dir("HOME").map(|home| home.join(".config")));
        match home {
            Some(home) => (home.join("longshore/longshore.toml"), false),
            None => (PathBuf::from(DEFAULT_FILE), false),
        }
    }

    /// Reads and merges, without judging the values.
    pub(crate) fn read(&self) -> Result<Layers, ConfigErrors> {
        self.merge(self.read_file()?)
    }

    /// The main file with its text; `None` when the default one is not there.
    pub(crate) fn read_file(&self) -> Result<Option<(PathBuf, String)>, ConfigError> {
        let (path, required) = self.main_file();
        match read_bounded(&path) {
            Ok(text) => Ok(Some((path, text))),
            Err(ConfigError::Read { source, .. })
                if !required && source.kind() == std::io::ErrorKind::NotFound =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The value of a key that a flag or the environment sets.
    pub(crate) fn overridden(&self, key: &str) -> Option<(String, Origin)> {
        let known = OVERRIDES.iter().find(|known| known.key == key)?;
        self.given(known)
    }

    fn given(&self, known: &Override) -> Option<(String, Origin)> {
        match (self.flags.get(known.key), self.env.get(known.env)) {
            (Some(value), _) => Some((value, Origin::Flag(known.flag))),
            (None, Some(value)) => Some((value.clone(), Origin::Env(known.env))),
            (None, None) => None,
        }
    }

    fn merge(&self, file: Option<(PathBuf, String)>) -> Result<Layers, ConfigErrors> {
        let of_ours = |error: &toml::de::Error| ConfigError::Syntax {
            origin: Origin::Default,
            key: String::new(),
            message: error.message().trim().replace('\n', "; "),
        };
        let mut table: Table = toml::from_str(DEFAULT_TOML).map_err(|error| of_ours(&error))?;
        let mut origins = Origins::default();
        let mut misshapen = Vec::new();
        if let Some((path, text)) = file {
            // Alone first: only a text on its own tells the line of a wrong type or unknown key.
            match shape::read(&path, &text) {
                Ok((own, errors)) => {
                    merge_tables(&mut table, own);
                    misshapen = errors;
                }
                Err(errors) => return Err(ConfigErrors::of(errors)),
            }
            origins.file = Some((path, text));
        }
        for known in OVERRIDES {
            if let Some((value, origin)) = self.given(known) {
                set(&mut table, known.key, Value::String(value));
                origins.overridden.insert(known.key.to_owned(), origin);
            }
        }
        let raw = RawConfig::try_from_table(table.clone()).map_err(|error| of_ours(&error))?;
        Ok(Layers {
            raw,
            table,
            origins,
            misshapen,
        })
    }
}

impl RawConfig {
    fn try_from_table(table: Table) -> Result<Self, toml::de::Error> {
        table.try_into()
    }
}

/// What `Sources::read` found.
#[derive(Debug)]
pub(crate) struct Layers {
    pub(crate) raw: RawConfig,
    pub(crate) table: Table,
    pub(crate) origins: Origins,
    /// What did not fit in the file, and was left out.
    pub(crate) misshapen: Vec<ConfigError>,
}

/// Where each key's value comes from.
#[derive(Debug, Default)]
pub(crate) struct Origins {
    file: Option<(PathBuf, String)>,
    overridden: BTreeMap<String, Origin>,
}

impl Origins {
    pub(crate) fn path(&self) -> Option<&Path> {
        self.file.as_ref().map(|(path, _)| path.as_path())
    }

    /// The origins of many keys; parses the file once.
    pub(crate) fn finder(&self) -> impl Fn(&str) -> Origin {
        let located = self
            .file
            .as_ref()
            .map(|(path, text)| (path, Located::new(text)));
        move |key| {
            if let Some(origin) = self.overridden.get(key) {
                return origin.clone();
            }
            match &located {
                Some((path, located)) if located.has(key) => Origin::File {
                    path: (*path).clone(),
                    line: located.line(key),
                },
                _ => Origin::Default,
            }
        }
    }

    /// Where to point for a key that is wrong, also when it is missing.
    pub(crate) fn near(&self, key: &str) -> Origin {
        if let Some(origin) = self.overridden.get(key) {
            return origin.clone();
        }
        match &self.file {
            Some((path, text)) => Origin::File {
                path: path.clone(),
                line: Located::new(text).line(key),
            },
            None => Origin::Default,
        }
    }

    pub(crate) fn invalid(
        &self,
        key: impl Into<String>,
        message: impl Into<String>,
    ) -> ConfigError {
        let key = key.into();
        ConfigError::Invalid {
            origin: self.near(&key),
            key,
            message: message.into(),
        }
    }
}

fn merge_tables(base: &mut Table, over: Table) {
    for (key, value) in over {
        match (base.get_mut(&key), value) {
            (Some(Value::Table(base)), Value::Table(over)) => merge_tables(base, over),
            (_, value) => {
                base.insert(key, value);
            }
        }
    }
}

fn set(table: &mut Table, key: &str, value: Value) {
    match key.split_once('.') {
        None => {
            table.insert(key.to_owned(), value);
        }
        Some((first, rest)) => {
            let inner = table
                .entry(first)
                .or_insert_with(|| Value::Table(Table::new()));
            if let Value::Table(inner) = inner {
                set(inner, rest, value);
            }
        }
    }
}

/// Reads a file of at most [`FILE_MAX`] bytes as text; a fifo or a device is refused by its kind.
pub(crate) fn read_bounded(path: &Path) -> Result<String, ConfigError> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let error = |source| ConfigError::Read {
        path: path.to_owned(),
        source,
    };
    let file = File::options()
        .read(true)
        .custom_flags(nix::libc::O_NONBLOCK | nix::libc::O_CLOEXEC)
        .open(path)
        .map_err(error)?;
    if !file.metadata().map_err(error)?.is_file() {
        return Err(error(std::io::Error::other("it is not a regular file")));
    }
    let mut bytes = Vec::new();
    file.take(FILE_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(error)?;
    if bytes.len() as u64 > FILE_MAX {
        return Err(ConfigError::TooLarge {
            path: path.to_owned(),
            limit: FILE_MAX,
        });
    }
    String::from_utf8(bytes).map_err(|bad| ConfigError::Syntax {
        origin: Origin::File {
            path: path.to_owned(),
            line: bad.as_bytes()[..bad.utf8_error().valid_up_to()]
                .iter()
                .filter(|byte| **byte == b'\n')
                .count()
                + 1,
        },
        key: String::new(),
        message: "the text is not UTF-8".to_owned(),
    })
}
