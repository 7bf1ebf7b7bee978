//! Who runs the containers: `[agent]`.

use std::path::PathBuf;
use std::time::Duration;

use longshore_agent::{TcpOptions, TlsFiles};

use super::error::ConfigErrors;
use super::problems::Problems;
use super::raw::{RawAgent, RawEmbedded};
use super::{Config, ConfigError, Origin};

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

/// The choice, as far as it is acceptable; what is not is noted.
pub(super) fn choice(raw: &RawAgent, problems: &mut Problems<'_>) -> AgentChoice {
    if let Some(url) = &raw.url {
        if let Err(error) = url.parse::<longshore_agent_client::AgentEndpoint>() {
            problems.note("agent.url", error.to_string());
        }
        if let Some(file) = raw.token_file.as_ref().filter(|file| !file.is_absolute()) {
            let message = format!("`{}` is not an absolute path", file.display());
            problems.note("agent.token_file", message);
        }
        return AgentChoice::External {
            url: url.clone(),
            token_file: raw.token_file.clone(),
        };
    }
    if raw.token_file.is_some() {
        problems.note(
            "agent.token_file",
            "only of use with `agent.url`; the embedded agent needs none on its Unix socket",
        );
    }
    let embedded = &raw.embedded;
    if embedded.max_containers == 0 {
        problems.note("agent.embedded.max_containers", "0 is not allowed");
    }
    AgentChoice::Embedded(EmbeddedAgent {
        exit_retention: embedded.exit_retention.0,
        sandbox_max_age: embedded.sandbox_max_age.0,
        sandbox_max_bytes: embedded.sandbox_max_bytes.0,
        log_max_bytes: embedded.log_max_bytes.0,
        max_containers: usize::try_from(embedded.max_containers).unwrap_or(usize::MAX),
        cgroups: embedded.cgroups,
        tcp: tcp(embedded, problems),
    })
}

fn tcp(raw: &RawEmbedded, problems: &mut Problems<'_>) -> Option<AgentTcp> {
    let text = raw.listen.as_ref()?;
    let listen = text.parse::<std::net::SocketAddr>();
    if listen.is_err() {
        problems.note(
            "agent.embedded.listen",
            format!("`{text}` is no address and port, write it like \"127.0.0.1:5051\""),
        );
    }
    if raw.token_file.is_none() {
        problems.note(
            "agent.embedded.listen",
            "TCP needs a token; set `token_file` to a 0600 file of at least 32 random bytes",
        );
    }
    let tls = match (&raw.tls_certificate, &raw.tls_key) {
        (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
        (None, None) => None,
        (Some(_), None) => {
            problems.note("agent.embedded.tls_certificate", "set `tls_key` too");
            None
        }
        (None, Some(_)) => {
            problems.note("agent.embedded.tls_key", "set `tls_certificate` too");
            None
        }
    };
    let (listen, token_file) = (listen.ok()?, raw.token_file.clone()?);
    let any_tls = raw.tls_certificate.is_some() || raw.tls_key.is_some();
    if !any_tls && !listen.ip().is_loopback() {
        problems.note(
            "agent.embedded.listen",
            format!("{listen} is not loopback and needs TLS; set `tls_certificate` and `tls_key`"),
        );
    }
    Some(AgentTcp {
        listen,
        token_file,
        tls,
    })
}

impl AgentTcp {
    /// As the agent is told.
    pub(crate) fn options(&self) -> TcpOptions {
        let mut options = TcpOptions::new(self.listen, self.token_file.clone());
        options.tls = self
            .tls
            .clone()
            .map(|(certificates, key)| TlsFiles { certificates, key });
        options
    }
}

impl Config {
    /// Looks at the files that the embedded agent's TCP listener needs (token, certificate, key), as the
    /// start of a daemon does. Blocking.
    ///
    /// # Errors
    /// [`ConfigErrors`] with the file and what is wrong with it.
    pub fn check_files(&self) -> Result<(), ConfigErrors> {
        let AgentChoice::Embedded(EmbeddedAgent { tcp: Some(tcp), .. }) = &self.agent else {
            return Ok(());
        };
        longshore_agent::http::check_tcp(&tcp.options()).map_err(|error| {
            let key = "agent.embedded.listen";
            let setting = self.settings().iter().find(|setting| setting.key == key);
            ConfigErrors::from(ConfigError::Invalid {
                origin: setting.map_or(Origin::Default, |setting| setting.origin.clone()),
                key: key.to_owned(),
                message: crate::reload::chain(&error),
            })
        })
    }
}
