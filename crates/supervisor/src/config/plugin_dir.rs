//! A directory of `CSIPluginInfo` files in Mesos' JSON form, one plugin a file.
//!
//! As in Mesos every regular file counts, whatever its name ends in; hidden files and the
//! leftovers of editors (`~`, `.swp`, `.tmp`) do not. The file's stem is the plugin's name here.
//! A broken file never hurts the others: it is reported, and what it said before stays in force.

use std::path::{Path, PathBuf};

use longshore_mesos_api::json::{self, JsonError};
use longshore_mesos_api::{DecodeLimits, v1 as mesos};

use super::error::{ConfigError, Origin};
use super::plugin::{self, Ground, PluginSpec};
use super::sources::{FILE_MAX, read_bounded};

/// The most plugin files that are read.
const FILES_MAX: usize = 4096;

/// What a plugin directory holds.
#[derive(Debug, Default)]
pub(crate) struct PluginDir {
    pub(crate) plugins: Vec<PluginSpec>,
    pub(crate) errors: Vec<ConfigError>,
    pub(crate) warnings: Vec<String>,
}

/// Reads every file of `dir`; for a broken one, `previous` gives what it said before.
pub(crate) fn read(
    dir: &Path,
    ground: &Ground,
    previous: &dyn Fn(&Path) -> Option<PluginSpec>,
) -> PluginDir {
    let mut found = PluginDir::default();
    let files = match files(dir) {
        Ok(files) => files,
        Err(source) => {
            found.errors.push(ConfigError::Read {
                path: dir.to_owned(),
                source,
            });
            return found;
        }
    };
    for path in files {
        match file(&path, ground, &mut found.warnings) {
            Ok(plugin) => found.plugins.push(plugin),
            Err(errors) => {
                let gone = |error: &ConfigError| match error {
                    ConfigError::Read { source, .. } => {
                        source.kind() == std::io::ErrorKind::NotFound
                    }
                    _ => false,
                };
                // Gone between the listing and now: removed, not broken.
                if !errors.iter().any(gone) {
                    found.errors.extend(errors);
                    found.plugins.extend(previous(&path));
                }
            }
        }
    }
    found
}

/// The regular files of a directory, without hidden ones and leftovers, in their order.
pub(super) fn files(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        let leftover = name.starts_with('.')
            || [".swp", ".tmp", "~"]
                .iter()
                .any(|suffix| name.ends_with(suffix));
        if !leftover && path.is_file() {
            files.push(path);
        }
        if files.len() > FILES_MAX {
            return Err(std::io::Error::other(format!(
                "more than {FILES_MAX} files"
            )));
        }
    }
    files.sort();
    Ok(files)
}

fn file(
    path: &Path,
    ground: &Ground,
    warnings: &mut Vec<String>,
) -> Result<PluginSpec, Vec<ConfigError>> {
    let text = read_bounded(path).map_err(|error| vec![error])?;
    let limits = DecodeLimits {
        max_bytes: usize::try_from(FILE_MAX).unwrap_or(usize::MAX),
        ..DecodeLimits::default()
    };
    let read = json::from_slice_reporting::<mesos::CsiPluginInfo>(text.as_bytes(), &limits)
        .map_err(|error| vec![json_error(path, &error)])?;
    for field in &read.unknown {
        let line = line_of(&text, field);
        warnings.push(format!(
            "{}: {field}: unknown field, ignored",
            Origin::File {
                path: path.to_owned(),
                line
            }
        ));
    }
    let stem = path
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let origin = Origin::File {
        path: path.to_owned(),
        line: 1,
    };
    let invalid = |refusal: plugin::Refusal| {
        let key = if refusal.key.is_empty() {
            "file name".to_owned()
        } else {
            refusal.key
        };
        ConfigError::Invalid {
            origin: Origin::File {
                path: path.to_owned(),
                line: line_of(&text, &key),
            },
            key,
            message: refusal.message,
        }
    };
    let line = |refusal| invalid(refusal).to_string();
    plugin::from_info(&stem, read.message, ground, origin, &line)
        .map_err(|refusals| refusals.into_iter().map(invalid).collect())
}

/// Where a JSON text is wrong.
pub(super) fn json_error_line(error: &serde_json::Error) -> usize {
    error.line().max(1)
}

fn json_error(path: &Path, error: &JsonError) -> ConfigError {
    let (line, message) = match error {
        JsonError::Malformed { source, .. } => (source.line(), format!("{error}: {source}")),
        other => (1, other.to_string()),
    };
    ConfigError::Syntax {
        origin: Origin::File {
            path: path.to_owned(),
            line,
        },
        key: String::new(),
        message,
    }
}

/// The first line that has the last part of `key` as a JSON member; 1 when none has.
pub(super) fn line_of(text: &str, key: &str) -> usize {
    let last = key.rsplit('.').next().unwrap_or(key);
    let last = last.split('[').next().unwrap_or(last);
    let member = format!("\"{last}\"");
    text.lines()
        .position(|line| line.contains(&member))
        .map_or(1, |index| index + 1)
}
