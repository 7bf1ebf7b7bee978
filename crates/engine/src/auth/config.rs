use std::collections::BTreeMap;
use std::fmt;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::{RegistryAuth, helper};
use crate::EngineError;
use crate::image::DEFAULT_REGISTRY;

/// The key of docker.io in the client's configuration.
const INDEX_SERVER: &str = "https://index.docker.io/v1/";
/// Longest file that is read.
const MAX_FILE: u64 = 1 << 20;

/// The docker client's configuration (`config.json`, or the older `.dockercfg`): who we are to
/// which registry, and which context is in use. `Debug` shows no secret.
#[derive(Clone)]
pub struct ClientConfig {
    path: PathBuf,
    file: File,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct File {
    auths: BTreeMap<String, Option<Entry>>,
    #[serde(rename = "credHelpers")]
    helpers: BTreeMap<String, String>,
    #[serde(rename = "credsStore")]
    store: Option<String>,
    #[serde(rename = "currentContext")]
    context: Option<String>,
}

#[derive(Clone, Default, Deserialize)]
#[serde(default)]
struct Entry {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

impl ClientConfig {
    /// `$DOCKER_CONFIG/config.json`, otherwise `~/.docker/config.json`.
    #[must_use]
    pub fn default_path() -> Option<PathBuf> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let folder = set("DOCKER_CONFIG")
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(set("HOME")?).join(".docker")))?;
        Some(folder.join("config.json"))
    }

    /// Reads `path`; a file that is not there is an empty one.
    ///
    /// # Errors
    /// [`EngineError::ClientConfig`].
    pub fn load(path: &Path) -> Result<Self, EngineError> {
        let fail = |reason: String| EngineError::ClientConfig {
            path: path.to_path_buf(),
            reason,
        };
        let empty = Self {
            path: path.to_path_buf(),
            file: File::default(),
        };
        let opened = match std::fs::File::open(path) {
            Ok(opened) => opened,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(empty),
            Err(error) => return Err(fail(error.to_string())),
        };
        let mut text = Vec::new();
        opened
            .take(MAX_FILE + 1)
            .read_to_end(&mut text)
            .map_err(|error| fail(error.to_string()))?;
        if text.len() as u64 > MAX_FILE {
            return Err(fail(format!("it is longer than {MAX_FILE} bytes")));
        }
        Ok(Self {
            file: parse(&text).map_err(fail)?,
            ..empty
        })
    }

    /// `currentContext`, unless it is the default one.
    #[must_use]
    pub fn current_context(&self) -> Option<&str> {
        let name = self.file.context.as_deref()?;
        (!name.is_empty() && name != "default").then_some(name)
    }

    /// Who we are to `registry` (`docker.io`, `host:port`): from the helper for that registry, otherwise from the
    /// store, otherwise from `auths`; `None` when none of them knows it. A helper is a program
    /// `docker-credential-NAME` in PATH; it gets 10 seconds.
    ///
    /// # Errors
    /// [`EngineError::ClientConfig`], [`EngineError::CredentialHelper`].
    pub async fn auth_for(&self, registry: &str) -> Result<Option<RegistryAuth>, EngineError> {
        let server = server(registry);
        let chosen = self
            .file
            .helpers
            .iter()
            .find(|(key, _)| host(key) == host(server))
            .map(|(_, helper)| helper)
            .or(self.file.store.as_ref())
            .filter(|name| !name.is_empty());
        if let Some(name) = chosen
            && let Some(auth) = helper::ask(name, server).await?
        {
            return Ok(Some(auth));
        }
        let entry = self.file.auths.get(server).or_else(|| {
            let mut entries = self.file.auths.iter();
            Some(entries.find(|(key, _)| host(key) == host(server))?.1)
        });
        match entry {
            Some(Some(entry)) => entry.auth().map_err(|reason| EngineError::ClientConfig {
                path: self.path.clone(),
                reason: format!("auths.{server}: {reason}"),
            }),
            _ => Ok(None),
        }
    }
}

impl Entry {
    fn auth(&self) -> Result<Option<RegistryAuth>, &'static str> {
        let set = |value: &Option<String>| value.clone().filter(|text| !text.is_empty());
        if let Some(token) = set(&self.identitytoken) {
            return Ok(Some(RegistryAuth::IdentityToken(token)));
        }
        if let Some(coded) = set(&self.auth) {
            let pair = STANDARD
                .decode(coded.trim())
                .ok()
                .and_then(|bytes| String::from_utf8(bytes).ok())
                .ok_or("`auth` is not the base64 of a text")?;
            let (user, password) = pair.split_once(':').ok_or("`auth` has no colon")?;
            return Ok(Some(RegistryAuth::Password {
                user: user.to_owned(),
                // Old clients padded it.
                password: password.trim_end_matches('\0').to_owned(),
            }));
        }
        match (set(&self.username), set(&self.password)) {
            (Some(user), Some(password)) => Ok(Some(RegistryAuth::Password { user, password })),
            // An empty entry says that the credentials are in the store.
            _ => Ok(None),
        }
    }
}

/// Reads a `config.json`, or a `.dockercfg`, which is what `auths` became. The reason of a failure
/// holds nothing of the file but its line and column.
fn parse(text: &[u8]) -> Result<File, String> {
    if text.iter().all(u8::is_ascii_whitespace) {
        return Ok(File::default());
    }
    let place = |error: &serde_json::Error| {
        let what = if error.is_data() {
            "unexpected type of a member"
        } else {
            "not JSON"
        };
        format!("{what} at line {}, column {}", error.line(), error.column())
    };
    let file: File = serde_json::from_slice(text).map_err(|error| place(&error))?;
    if !file.auths.is_empty() || !file.helpers.is_empty() || file.store.is_some() {
        return Ok(file);
    }
    let old: Result<BTreeMap<String, Entry>, _> = serde_json::from_slice(text);
    match old {
        Ok(entries) if entries.values().any(|entry| entry.auth.is_some()) => Ok(File {
            auths: entries
                .into_iter()
                .map(|(key, entry)| (key, Some(entry)))
                .collect(),
            ..File::default()
        }),
        _ => Ok(file),
    }
}

fn server(registry: &str) -> &str {
    if registry == DEFAULT_REGISTRY {
        INDEX_SERVER
    } else {
        registry
    }
}

/// The host and port of a key, which may be an address with a path.
fn host(key: &str) -> &str {
    let rest = key
        .strip_prefix("https://")
        .or_else(|| key.strip_prefix("http://"))
        .unwrap_or(key);
    let host = rest.split('/').next().unwrap_or(rest);
    if matches!(host, "docker.io" | "registry-1.docker.io") {
        "index.docker.io"
    } else {
        host
    }
}

impl fmt::Debug for ClientConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientConfig")
            .field("path", &self.path)
            .field("auths", &self.file.auths.keys())
            .field("helpers", &self.file.helpers)
            .field("store", &self.file.store)
            .field("context", &self.file.context)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Result<ClientConfig, String> {
        Ok(ClientConfig {
            path: "config.json".into(),
            file: parse(text.as_bytes())?,
        })
    }

    async fn user(text: &str, registry: &str) -> Option<String> {
        let auth = config(text).unwrap().auth_for(registry).await.unwrap();
        auth.map(|auth| match auth {
            RegistryAuth::Password { user, password } => format!("{user}:{password}"),
            RegistryAuth::IdentityToken(token) => token,
        })
    }

    #[tokio::test]
    async fn dx34_an_entry_is_found_by_the_host_of_its_key() {
        // "ann:s:3cret"
        let of = |key: &str| format!(r#"{{"auths": {{"{key}": {{"auth": "YW5uOnM6M2NyZXQ="}}}}}}"#);
        for (key, registry, found) in [
            ("https://index.docker.io/v1/", "docker.io", true),
            ("docker.io", "docker.io", true),
            ("index.docker.io", "docker.io", true),
            ("quay.io", "quay.io", true),
            ("https://quay.io/v2/", "quay.io", true),
            ("localhost:5000", "localhost:5000", true),
            ("localhost:5001", "localhost:5000", false),
            ("quay.io", "docker.io", false),
        ] {
            let expected = found.then(|| "ann:s:3cret".to_owned());
            assert_eq!(user(&of(key), registry).await, expected, "{key} {registry}");
        }
    }

    #[tokio::test]
    async fn dx34_forms_of_an_entry_and_of_the_file() {
        for (text, expected) in [
            ("", None),
            ("{}", None),
            (r#"{"auths": {"quay.io": {}}}"#, None),
            (r#"{"auths": {"quay.io": null}}"#, None),
            (
                r#"{"auths": {"quay.io": {"username": "a", "password": "b"}}}"#,
                Some("a:b"),
            ),
            (
                r#"{"auths": {"quay.io": {"auth": "YTpi", "identitytoken": "t"}}}"#,
                Some("t"),
            ),
            (
                r#"{"quay.io": {"auth": "YTpi", "email": "x"}}"#,
                Some("a:b"),
            ),
            (
                r#"{"auths": {"quay.io": {"auth": "YTpiAAA="}}}"#,
                Some("a:b"),
            ),
        ] {
            assert_eq!(user(text, "quay.io").await.as_deref(), expected, "{text}");
        }
    }

    #[tokio::test]
    async fn what_is_wrong_is_told_without_a_value() {
        for text in [
            r#"{"auths": "hunter2"}"#,
            r#"{"auths": {"quay.io": {"auth": 2}}} hunter2"#,
            "hunter2",
        ] {
            let reason = config(text).unwrap_err();
            assert!(
                !reason.contains("hunter2") && reason.contains("line 1"),
                "{reason}"
            );
        }
        // "hunter2", without a colon
        for coded in ["aHVudGVyMg==", "hunter2"] {
            let text = format!(r#"{{"auths": {{"quay.io": {{"auth": "{coded}"}}}}}}"#);
            let config = config(&text).unwrap();
            let error = config.auth_for("quay.io").await.unwrap_err().to_string();
            assert!(
                !error.contains("hunter2") && error.contains("quay.io"),
                "{error}"
            );
            assert!(!format!("{config:?}").contains(coded), "{config:?}");
        }
    }
}
