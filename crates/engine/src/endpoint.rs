use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::EngineError;
use crate::auth::ClientConfig;

/// Where an engine listens when nothing says otherwise.
const DEFAULT_SOCKET: &str = "/var/run/docker.sock";
/// Longest path that fits a Unix socket's address, with its NUL.
const MAX_PATH: usize = 107;
/// Longest description of a context that is read.
const MAX_META: u64 = 1 << 20;

/// The Unix socket of an engine on this machine. Its text is `unix:///PATH`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct EngineEndpoint {
    socket: PathBuf,
}

impl EngineEndpoint {
    /// As the docker client finds it: `DOCKER_HOST`, otherwise the context that `DOCKER_CONTEXT` names,
    /// otherwise the current context of the client's configuration, otherwise
    /// `/var/run/docker.sock`.
    ///
    /// # Errors
    /// [`EngineError::Remote`] when that is not a Unix socket, [`EngineError::Endpoint`] when it is no address,
    /// [`EngineError::ClientConfig`].
    pub fn from_environment() -> Result<Self, EngineError> {
        Self::find(
            |name| std::env::var(name).ok().filter(|value| !value.is_empty()),
            ClientConfig::default_path().as_deref(),
        )
    }

    fn find(
        variable: impl Fn(&str) -> Option<String>,
        config: Option<&Path>,
    ) -> Result<Self, EngineError> {
        if let Some(host) = variable("DOCKER_HOST") {
            return Self::parse(&host, "DOCKER_HOST");
        }
        let usual = || Self::parse(&format!("unix://{DEFAULT_SOCKET}"), "the default");
        let (context, origin) = match (variable("DOCKER_CONTEXT"), config) {
            (Some(name), _) => (name, "DOCKER_CONTEXT".to_owned()),
            (None, Some(path)) => match ClientConfig::load(path)?.current_context() {
                Some(name) => (name.to_owned(), path.display().to_string()),
                None => return usual(),
            },
            (None, None) => return usual(),
        };
        if context == "default" {
            return usual();
        }
        let folder = config.and_then(Path::parent).unwrap_or(Path::new("."));
        let host = context_host(folder, &context)?;
        Self::parse(&host, &format!("context {context} of {origin}"))
    }

    /// Reads `unix:///PATH`; `origin` says in an error where the text is from.
    ///
    /// # Errors
    /// [`EngineError::Remote`], [`EngineError::Endpoint`].
    pub fn parse(text: &str, origin: &str) -> Result<Self, EngineError> {
        let fail = |reason| EngineError::Endpoint {
            given: format!("{text} (from {origin})"),
            reason,
        };
        let Some(path) = text.strip_prefix("unix://") else {
            return Err(match text.split_once("://") {
                Some(("tcp" | "http" | "https" | "ssh" | "npipe" | "fd", _)) => {
                    EngineError::Remote {
                        given: without_user(text),
                        origin: origin.to_owned(),
                    }
                }
                Some(_) => fail("its scheme is not unix://"),
                None => fail("it does not begin with unix://"),
            });
        };
        if !path.starts_with('/') {
            return Err(fail("its path is not absolute"));
        }
        if path.len() > MAX_PATH {
            return Err(fail("its path is longer than 107 bytes"));
        }
        if path.contains('\0') {
            return Err(fail("its path has a NUL"));
        }
        Ok(Self {
            socket: PathBuf::from(path),
        })
    }

    /// The path of the socket.
    #[must_use]
    pub fn socket(&self) -> &Path {
        &self.socket
    }
}

impl FromStr for EngineEndpoint {
    type Err = EngineError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::parse(text, "a setting")
    }
}

impl fmt::Display for EngineEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unix://{}", self.socket.display())
    }
}

/// An address may hold `user:password@`.
fn without_user(text: &str) -> String {
    match (text.split_once("://"), text.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        _ => text.to_owned(),
    }
}

#[derive(Deserialize)]
struct Meta {
    #[serde(rename = "Endpoints", default)]
    endpoints: std::collections::BTreeMap<String, MetaEndpoint>,
}

#[derive(Deserialize)]
struct MetaEndpoint {
    #[serde(rename = "Host", default)]
    host: String,
}

/// The address of a context: `contexts/meta/SHA256-OF-NAME/meta.json`.
fn context_host(folder: &Path, name: &str) -> Result<String, EngineError> {
    let hash: String = Sha256::digest(name.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let path = folder.join("contexts/meta").join(hash).join("meta.json");
    let fail = |reason: String| EngineError::ClientConfig {
        path: path.clone(),
        reason: format!("context {name}: {reason}"),
    };
    let mut text = Vec::new();
    std::fs::File::open(&path)
        .and_then(|file| file.take(MAX_META).read_to_end(&mut text))
        .map_err(|error| fail(error.to_string()))?;
    let meta: Meta = serde_json::from_slice(&text).map_err(|error| fail(error.to_string()))?;
    match meta.endpoints.get("docker") {
        Some(endpoint) if !endpoint.host.is_empty() => Ok(endpoint.host.clone()),
        // A context without an address is the usual place.
        _ => Ok(format!("unix://{DEFAULT_SOCKET}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_other_machines_are_refused_by_name() {
        for text in [
            "tcp://10.0.0.1:2375",
            "tcp://127.0.0.1:2375",
            "ssh://ann@host",
            "https://host:2376",
            "npipe:////./pipe/docker_engine",
        ] {
            let error = EngineEndpoint::parse(text, "DOCKER_HOST").unwrap_err();
            assert!(matches!(error, EngineError::Remote { .. }), "{error}");
            assert!(error.to_string().contains("DOCKER_HOST"), "{error}");
        }
        let error = EngineEndpoint::parse("tcp://ann:hunter2@host", "x").unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }

    #[test]
    fn what_is_no_address_is_refused() {
        let long = format!("unix:///{}", "a".repeat(107));
        for text in [
            "",
            "/run/docker.sock",
            "unix://run/docker.sock",
            "unix://",
            "x://a",
            &long,
        ] {
            let error = EngineEndpoint::parse(text, "a setting").unwrap_err();
            assert!(
                matches!(error, EngineError::Endpoint { .. }),
                "{text}: {error}"
            );
        }
        let good: EngineEndpoint = "unix:///run/docker.sock".parse().unwrap();
        assert_eq!(good.to_string(), "unix:///run/docker.sock");
    }

    #[test]
    fn it_is_found_as_the_docker_client_finds_it() {
        let folder = tempfile::tempdir().unwrap();
        let config = folder.path().join("config.json");
        let context = |name: &str, host: &str| {
            let hash: String = Sha256::digest(name)
                .iter()
                .map(|b| format!("{b:02x}"))
                .collect();
            let place = folder.path().join("contexts/meta").join(hash);
            std::fs::create_dir_all(&place).unwrap();
            let text =
                format!(r#"{{"Name": "{name}", "Endpoints": {{"docker": {{"Host": "{host}"}}}}}}"#);
            std::fs::write(place.join("meta.json"), text).unwrap();
        };
        context("near", "unix:///near.sock");
        context("far", "ssh://far");
        let find = |host: Option<&str>, named: Option<&str>, file: &str| {
            std::fs::write(&config, file).unwrap();
            let variable = |name: &str| match name {
                "DOCKER_HOST" => host.map(str::to_owned),
                _ => named.map(str::to_owned),
            };
            EngineEndpoint::find(variable, Some(&config)).map(|found| found.to_string())
        };
        let near = r#"{"currentContext": "near"}"#;
        let usual = "unix:///var/run/docker.sock";
        assert_eq!(find(None, None, "{}").unwrap(), usual);
        assert_eq!(find(None, None, near).unwrap(), "unix:///near.sock");
        assert_eq!(find(None, Some("default"), near).unwrap(), usual);
        assert_eq!(find(None, Some("near"), "{}").unwrap(), "unix:///near.sock");
        assert_eq!(
            find(Some("unix:///a.sock"), Some("near"), near).unwrap(),
            "unix:///a.sock"
        );
        assert!(matches!(
            find(None, Some("far"), "{}"),
            Err(EngineError::Remote { .. })
        ));
        assert!(matches!(
            find(None, Some("none"), "{}"),
            Err(EngineError::ClientConfig { .. })
        ));
    }
}
