use std::path::PathBuf;
use std::time::Duration;

use longshore_mesos_api::DecodeLimits;

use crate::{AgentEndpoint, RetryPolicy};

/// How to reach an agent and how patient to be with it. Every default is in
/// [`AgentClientConfig::new`].
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct AgentClientConfig {
    /// Where the agent is.
    pub endpoint: AgentEndpoint,
    /// Form of the messages. Default protobuf.
    pub codec: Codec,
    /// How to authenticate. Default not at all.
    pub credentials: Credentials,
    /// Certificates of an `https://` agent.
    pub tls: TlsOptions,
    /// How long each call may take.
    pub deadlines: Deadlines,
    /// What is tried again, and how soon.
    pub retry: RetryPolicy,
    /// TCP keep-alive, which is what notices a dead peer under a WAIT.
    pub keep_alive: KeepAlive,
    /// Sends REMOVE for top-level containers to agents that are not Longshore's too. A Mesos
    /// agent *aborts* on it, so the default is false.
    pub remove_top_level: bool,
    /// Largest answer that is read, and the most elements in it. Default 16 MiB and 50,000.
    pub answer: DecodeLimits,
}

impl AgentClientConfig {
    /// The defaults for `endpoint`.
    #[must_use]
    pub fn new(endpoint: AgentEndpoint) -> Self {
        Self {
            endpoint,
            codec: Codec::Protobuf,
            credentials: Credentials::None,
            tls: TlsOptions::default(),
            deadlines: Deadlines::default(),
            retry: RetryPolicy::default(),
            keep_alive: KeepAlive::default(),
            remove_top_level: false,
            answer: DecodeLimits::default(),
        }
    }
}

/// Form of requests and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Codec {
    /// `application/x-protobuf`.
    #[default]
    Protobuf,
    /// `application/json`.
    Json,
}

/// How to authenticate. Secrets are in files, so that none is in a configuration, an argument
/// or a log; a file is read again when it changes. Trailing line ends are not part of a secret.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Credentials {
    /// Not at all.
    #[default]
    None,
    /// `Authorization: Bearer`, with the token in this file.
    BearerFile(PathBuf),
    /// `Authorization: Basic`.
    Basic {
        /// The principal; must not contain a colon.
        user: String,
        /// File with the password.
        password_file: PathBuf,
    },
}

/// Certificates of an `https://` agent (feature `tls`).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct TlsOptions {
    /// PEM file with the certificates that the agent's is verified against. Default
    /// `/etc/ssl/certs/ca-certificates.crt`.
    pub ca_file: Option<PathBuf>,
}

/// How long a call may take in all, retries included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deadlines {
    /// One attempt to connect, TLS included. Default 5 s.
    pub connect: Duration,
    /// `GET_*`. Default 10 s.
    pub get: Duration,
    /// `LAUNCH_*`: a Mesos agent fetches and provisions before it answers. Default 60 s.
    ///
    /// When it passes, the agent sees the connection close and a Mesos agent destroys what it
    /// was launching.
    pub launch: Duration,
    /// `KILL_*`: answered at once. Default 10 s.
    pub kill: Duration,
    /// `REMOVE_*`: deletes a sandbox. Default 30 s.
    pub remove: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            get: Duration::from_secs(10),
            launch: Duration::from_secs(60),
            kill: Duration::from_secs(10),
            remove: Duration::from_secs(30),
        }
    }
}

/// TCP keep-alive: a peer that is silent for `idle + interval * probes` is given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeepAlive {
    /// Silence before the first probe, in whole seconds, at least one. Default 30 s.
    pub idle: Duration,
    /// Time between probes, in whole seconds, at least one. Default 10 s.
    pub interval: Duration,
    /// Unanswered probes until the connection is closed. Default 3.
    pub probes: u32,
}

impl Default for KeepAlive {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(30),
            interval: Duration::from_secs(10),
            probes: 3,
        }
    }
}
