use std::path::PathBuf;
use std::time::Duration;

use crate::auth::ClientConfig;
use crate::endpoint::EngineEndpoint;

/// How to reach an engine.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DockerConfig {
    /// Where it is.
    pub endpoint: EngineEndpoint,
    /// How long calls may take.
    pub deadlines: Deadlines,
    /// The docker client's configuration, read at each pull for credentials.
    pub client_config: Option<PathBuf>,
}

impl DockerConfig {
    /// The engine at `endpoint`, with the default deadlines and the docker client's configuration
    /// at its usual place.
    #[must_use]
    pub fn new(endpoint: EngineEndpoint) -> Self {
        Self {
            endpoint,
            deadlines: Deadlines::default(),
            client_config: ClientConfig::default_path(),
        }
    }
}

/// How long calls may take, from the connection to the last byte of the answer; of streams, to the
/// head of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    /// Calls that look or signal: version, inspect, list, kill, pause, update, exec, opening
    /// a stream. Default 15 s.
    pub quick: Duration,
    /// Calls that make the engine work on disks, networks and plugins: create, start, remove. Default 2
    /// minutes.
    pub slow: Duration,
    /// What a stop gets beyond its grace. Default 1 minute.
    pub stop: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            quick: Duration::from_secs(15),
            slow: Duration::from_secs(120),
            stop: Duration::from_secs(60),
        }
    }
}
