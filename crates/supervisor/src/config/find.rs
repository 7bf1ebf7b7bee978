//! Where a daemon with given sources is found, also while its file is not valid. A client that cannot tell
//! says so: it never asks another daemon than the one that is meant.

use std::path::{Path, PathBuf};

use serde::Deserialize as _;
use toml::Table;
use toml::de::{DeTable, Deserializer};

use super::error::{ConfigError, Origin};
use super::locate::Located;
use super::sources::Sources;
use super::{default_runtime_dir, default_state_dir};

const RUNTIME_DIR: &str = "runtime_dir";
const STATE_DIR: &str = "state_dir";

pub(super) fn runtime_dir(sources: &Sources) -> Result<PathBuf, ConfigError> {
    if let Some((dir, origin)) = sources.overridden(RUNTIME_DIR) {
        return absolute(RUNTIME_DIR, dir, origin);
    }
    let file = Salvaged::read(sources)?;
    if let Some(dir) = file.dir(RUNTIME_DIR)? {
        return Ok(dir);
    }
    let state_dir = match sources.overridden(STATE_DIR) {
        Some((dir, origin)) => absolute(STATE_DIR, dir, origin)?,
        None => match file.dir(STATE_DIR)? {
            Some(dir) => dir,
            None => default_state_dir(sources)?,
        },
    };
    Ok(default_runtime_dir(sources, &state_dir))
}

fn absolute(key: &str, dir: String, origin: Origin) -> Result<PathBuf, ConfigError> {
    let path = PathBuf::from(&dir);
    if path.is_absolute() {
        return Ok(path);
    }
    Err(ConfigError::Invalid {
        origin,
        key: key.to_owned(),
        message: format!("`{dir}` is not an absolute path"),
    })
}

/// What can be read of a main file.
struct Salvaged {
    path: PathBuf,
    text: String,
    table: Table,
    /// Why the rest cannot be: a line, and what is wrong there.
    broken: Option<(usize, String)>,
}

impl Salvaged {
    /// A file that is named must be there.
    fn read(sources: &Sources) -> Result<Self, ConfigError> {
        let (path, text) = sources.read_file()?.unwrap_or_default();
        let (root, errors) = DeTable::parse_recoverable(&text);
        let located = Located::new(&text);
        let broken = errors.first().map(|error| {
            let line = error.span().map_or(0, |span| located.line_at(span.start));
            (line, error.message().trim().replace('\n', "; "))
        });
        let table = Table::deserialize(Deserializer::from(root)).unwrap_or_default();
        Ok(Self {
            path,
            text,
            table,
            broken,
        })
    }

    /// The directory at a key; `None` when the file surely does not have the key.
    fn dir(&self, key: &str) -> Result<Option<PathBuf>, ConfigError> {
        let at = |line| Origin::File {
            path: self.path.clone(),
            line,
        };
        let value = self.table.get(key);
        let dir = value.and_then(|value| value.as_str());
        if let Some(dir) = dir.filter(|dir| Path::new(dir).is_absolute()) {
            return Ok(Some(PathBuf::from(dir)));
        }
        if let Some((line, message)) = self.broken.as_ref().filter(|_| self.text.contains(key)) {
            return Err(ConfigError::Syntax {
                origin: at(*line),
                key: String::new(),
                message: format!(
                    "{message}; its {key} cannot be told: repair it, or name the daemon with --runtime-dir"
                ),
            });
        }
        let line = || Located::new(&self.text).line(key);
        match (value, dir) {
            (None, _) => Ok(None),
            (Some(_), Some(dir)) => absolute(key, dir.to_owned(), at(line())).map(Some),
            (Some(_), None) => Err(ConfigError::Invalid {
                origin: at(line()),
                key: key.to_owned(),
                message: "is not a string".to_owned(),
            }),
        }
    }
}
