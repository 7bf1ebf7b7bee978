//! Rejects containers to which a plugin wants to give more of the host than is allowed: OCI hooks,
//! namespaces of the host, and mounts from outside some directories.
//!
//! ```text
//! cargo run -p longshore-nri-stub --example validator -- --idx 99 --socket /var/run/nri/nri.sock
//! ```
//!
//! The configuration names the directories that may be mounted, one a line; without one it is
//! `/var/lib/plugins`.

use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use longshore_nri_stub::api::{
    ContainerAdjustment, Field, OwningPlugins, ValidateContainerAdjustmentRequest, is_removal,
};
use longshore_nri_stub::{Configuration, plugin};

mod common;

/// The plugin.
pub(crate) struct Validator {
    allowed: Mutex<Vec<PathBuf>>,
}

impl Default for Validator {
    fn default() -> Self {
        Self {
            allowed: Mutex::new(vec![PathBuf::from("/var/lib/plugins")]),
        }
    }
}

#[plugin]
impl Validator {
    async fn configure(&self, configuration: Configuration) {
        let lines = configuration.config.lines().map(str::trim);
        let paths: Vec<PathBuf> = lines
            .filter(|line| !line.is_empty())
            .map(Into::into)
            .collect();
        if !paths.is_empty() {
            *self.allowed.lock().unwrap_or_else(PoisonError::into_inner) = paths;
        }
    }

    async fn validate_container_adjustment(
        &self,
        request: ValidateContainerAdjustmentRequest,
    ) -> Result<(), String> {
        let container = request.container.unwrap_or_default();
        let owners = Owners {
            owners: request.owners.unwrap_or_default(),
            container: &container.id,
        };
        let allowed = self.allowed.lock().unwrap_or_else(PoisonError::into_inner);
        let verdict = judge(&request.adjust.unwrap_or_default(), &owners, &allowed);
        match &verdict {
            Ok(()) => common::say(&format_args!("{}: allowed", container.name)),
            Err(reason) => common::say(&format_args!("{}: rejected: {reason}", container.name)),
        }
        verdict
    }
}

/// Who asked for what, to be named.
struct Owners<'a> {
    owners: OwningPlugins,
    container: &'a str,
}

impl Owners<'_> {
    fn of(&self, field: Field, key: Option<&str>) -> &str {
        self.owners
            .owner(self.container, field, key)
            .unwrap_or("a plugin")
    }
}

fn judge(
    adjustment: &ContainerAdjustment,
    owners: &Owners<'_>,
    allowed: &[PathBuf],
) -> Result<(), String> {
    if adjustment.hooks.is_some() {
        let owner = owners.of(Field::OciHooks, None);
        return Err(format!("{owner} adds OCI hooks"));
    }
    for mount in &adjustment.mounts {
        if is_removal(&mount.destination) || !Path::new(&mount.source).is_absolute() {
            continue;
        }
        if !is_below(Path::new(&mount.source), allowed) {
            let owner = owners.of(Field::Mounts, Some(&mount.destination));
            return Err(format!("{owner} mounts {} of the host", mount.source));
        }
    }
    let namespaces = adjustment.linux.iter().flat_map(|linux| &linux.namespaces);
    for namespace in namespaces {
        // Without a namespace of its own, or with that of another process.
        if is_removal(&namespace.r#type) || !namespace.path.is_empty() {
            let kind = namespace.r#type.trim_start_matches('-');
            let owner = owners.of(Field::Namespace, Some(kind));
            return Err(format!("{owner} takes the {kind} namespace away"));
        }
    }
    Ok(())
}

fn is_below(path: &Path, allowed: &[PathBuf]) -> bool {
    let escapes = path.components().any(|part| part == Component::ParentDir);
    !escapes && allowed.iter().any(|allowed| path.starts_with(allowed))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    common::run(Validator::default()).await
}
