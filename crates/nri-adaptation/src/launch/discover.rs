//! Finding plugins and their configuration.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use longshore_nri_api::{InvalidName, PluginId};

use super::trust::Judge;
use super::{LaunchError, LaunchOptions};
use crate::merge::Compat;

/// A plugin that can be started.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Program {
    /// Index and name, which the plugin is told and which count, whatever it says when it registers.
    pub id: PluginId,
    /// The executable, absolute; also `argv[0]`.
    pub path: PathBuf,
    /// Arguments; none for a plugin that was discovered.
    pub args: Vec<OsString>,
    /// The text of its drop-in file, empty without one.
    pub config: String,
    /// Whether it is started whoever could have changed it.
    pub trust_any_owner: bool,
}

impl Program {
    /// Any executable as a plugin, to try it out: no name, owner or place is asked for.
    pub fn untrusted(id: PluginId, path: impl Into<PathBuf>, args: Vec<OsString>) -> Self {
        Self {
            id,
            path: path.into(),
            args,
            config: String::new(),
            trust_any_owner: true,
        }
    }
}

/// What is in a plugin directory.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Discovered {
    /// The plugins, in the order of their file names.
    pub programs: Vec<Program>,
    /// What looks like a plugin and is not started, in the same order.
    pub skipped: Vec<Skipped>,
}

/// A file, or the whole directory, that is passed over.
#[derive(Debug)]
#[non_exhaustive]
pub struct Skipped {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub reason: LaunchError,
}

/// Lists the plugins of a directory, with their configuration; blocking.
///
/// Subdirectories and files that are not executable are no plugins. A file that is executable and cannot
/// be used is named in [`Discovered::skipped`] and in the log.
///
/// # Errors
/// [`LaunchError`] when the directory exists and cannot be listed or holds more than
/// [`LaunchOptions::ENTRIES_MAX`] entries; under [`Compat::GoAdaptation`] also for a bad name and a
/// drop-in that cannot be read.
pub fn discover(options: &LaunchOptions) -> Result<Discovered, LaunchError> {
    discover_with(options, &Judge::new(options.trust_any_owner))
}

pub(super) fn discover_with(
    options: &LaunchOptions,
    judge: &Judge,
) -> Result<Discovered, LaunchError> {
    let mut discovered = Discovered::default();
    let directory = absolute(&options.plugin_dir)?;
    match judge.look(&directory) {
        Ok(_) => {}
        Err(LaunchError::Look { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(discovered);
        }
        Err(LaunchError::Look { path, source }) => return Err(LaunchError::List { path, source }),
        Err(reason) => {
            discovered.skip(directory, reason);
            return Ok(discovered);
        }
    }
    let config_dir = absolute(&options.config_dir)?;
    for name in list(&directory)? {
        let path = directory.join(&name);
        match examine(&path, &name, &config_dir, options, judge) {
            Ok(None) => {}
            Ok(Some(program)) => discovered.programs.push(program),
            Err(
                reason @ (LaunchError::Name { .. }
                | LaunchError::Config { .. }
                | LaunchError::ConfigContent { .. }),
            ) if options.compat == Compat::GoAdaptation => return Err(reason),
            Err(reason) => discovered.skip(path, reason),
        }
    }
    Ok(discovered)
}

impl Discovered {
    fn skip(&mut self, path: PathBuf, reason: LaunchError) {
        let source = std::error::Error::source(&reason).map(tracing::field::display);
        tracing::error!(path = %path.display(), %reason, source, "a plugin is skipped");
        self.skipped.push(Skipped { path, reason });
    }
}

fn absolute(path: &Path) -> Result<PathBuf, LaunchError> {
    std::path::absolute(path).map_err(|source| LaunchError::Look {
        path: path.to_owned(),
        source,
    })
}

/// The names in a directory, sorted.
fn list(directory: &Path) -> Result<Vec<OsString>, LaunchError> {
    let failed = |source| LaunchError::List {
        path: directory.to_owned(),
        source,
    };
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        if names.len() == LaunchOptions::ENTRIES_MAX {
            return Err(LaunchError::Entries {
                path: directory.to_owned(),
                max: LaunchOptions::ENTRIES_MAX,
            });
        }
        names.push(entry.map_err(failed)?.file_name());
    }
    names.sort_unstable();
    Ok(names)
}

/// The plugin that a file is; `None` when it is none and need not be one.
fn examine(
    path: &Path,
    name: &OsStr,
    config_dir: &Path,
    options: &LaunchOptions,
    judge: &Judge,
) -> Result<Option<Program>, LaunchError> {
    // Whether it is a plugin at all comes first: nobody cares who could change a README.
    let metadata = fs::metadata(path).map_err(|source| LaunchError::Look {
        path: path.to_owned(),
        source,
    })?;
    if !is_executable(&metadata) {
        return Ok(None);
    }
    let id = plugin_id(name).map_err(|source| LaunchError::Name {
        path: path.to_owned(),
        source,
    })?;
    judge.look(path)?;
    let config = read_config(&id, config_dir, judge)?;
    Ok(Some(Program {
        id,
        path: path.to_owned(),
        args: Vec::new(),
        config,
        trust_any_owner: options.trust_any_owner,
    }))
}

pub(super) fn is_executable(metadata: &Metadata) -> bool {
    metadata.is_file() && metadata.mode() & 0o111 != 0
}

/// The plugin that a file name means.
fn plugin_id(name: &OsStr) -> Result<PluginId, InvalidName> {
    // What is not UTF-8 holds a character that is not allowed, whatever it is replaced by.
    PluginId::from_file_name(&name.to_string_lossy())
}

/// The text of `NN-name.conf`, else of `name.conf`, else nothing.
fn read_config(id: &PluginId, directory: &Path, judge: &Judge) -> Result<String, LaunchError> {
    for name in [format!("{id}.conf"), format!("{}.conf", id.base())] {
        let path = directory.join(name);
        let failed = |source| LaunchError::Config {
            path: path.clone(),
            plugin: id.to_string(),
            source,
        };
        match judge.look(&path) {
            Ok(_) => {}
            // A directory on the way that is missing too.
            Err(LaunchError::Look { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                // A link that leads nowhere is there, and was meant.
                if fs::symlink_metadata(&path).is_ok() {
                    return Err(failed(source));
                }
                continue;
            }
            Err(LaunchError::Look { source, .. }) => return Err(failed(source)),
            Err(distrust) => return Err(distrust),
        }
        let bytes = read_bounded(&path, LaunchOptions::CONFIG_MAX).map_err(failed)?;
        let refused = |problem| LaunchError::ConfigContent {
            path: path.clone(),
            plugin: id.to_string(),
            problem,
        };
        let Some(bytes) = bytes else {
            let max = LaunchOptions::CONFIG_MAX;
            return Err(refused(format!(
                "is no regular file of at most {max} bytes"
            )));
        };
        return String::from_utf8(bytes)
            .map_err(|error| refused(format!("is not UTF-8: {}", error.utf8_error())));
    }
    Ok(String::new())
}

/// The bytes of a regular file; `None` when it is none, or longer than `max`.
fn read_bounded(path: &Path, max: usize) -> io::Result<Option<Vec<u8>>> {
    // Not blocking, so that a fifo does not hold up the start.
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    let limit = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
    file.take(limit).read_to_end(&mut bytes)?;
    Ok((bytes.len() <= max).then_some(bytes))
}

/// Whether a name could be told to a process at all.
pub(super) fn holds_nul(text: &OsStr) -> bool {
    text.as_bytes().contains(&0)
}

#[cfg(test)]
mod tests;
