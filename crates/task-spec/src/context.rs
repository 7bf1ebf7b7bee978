//! What the mapping of a task needs to know beside the task.

use std::fmt;

use serde::Deserialize;

use crate::TaskSpecError;
use crate::error::refused;

/// Everything that is not in the task itself.
///
/// `Debug` shows no value of an environment variable.
#[derive(Clone)]
pub struct TaskContext {
    /// The name that the container gets.
    pub container_name: String,
    /// The task's sandbox, where it has one.
    pub sandbox: Option<Sandbox>,
    /// Variables that win over those of the command (`--task_environment`).
    pub task_environment: Vec<(String, String)>,
    /// Resolvers of tasks that name none themselves (`--default_container_dns`).
    pub default_dns: DefaultDns,
    /// Whether a request of processors without a limit is a limit too (`--cgroups_enable_cfs`).
    pub enable_cfs: bool,
    /// The memory of this host, in bytes.
    pub host_memory: u64,
    /// Whether an agent has fetched the URIs and mounted the persistent volumes; otherwise nobody has, and a task that
    /// needs it is refused.
    pub prepared_by_agent: bool,
}

impl fmt::Debug for TaskContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.task_environment.iter().map(|(name, _)| name).collect();
        f.debug_struct("TaskContext")
            .field("container_name", &self.container_name)
            .field("sandbox", &self.sandbox)
            .field("task_environment", &names)
            .field("default_dns", &self.default_dns)
            .field("enable_cfs", &self.enable_cfs)
            .field("host_memory", &self.host_memory)
            .field("prepared_by_agent", &self.prepared_by_agent)
            .finish()
    }
}

/// Where the sandbox is, on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sandbox {
    /// On the host; absolute.
    pub host: String,
    /// In the container; absolute (`--mapped_directory`).
    pub mapped: String,
}

/// Resolvers by network: the part of `ContainerDNSInfo` that is about docker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct DefaultDns {
    /// The entries, in their order.
    #[serde(default, rename = "docker")]
    pub entries: Vec<DnsEntry>,
}

/// Resolvers of one network.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct DnsEntry {
    /// Of which kind of network.
    #[serde(rename = "network_mode")]
    pub network: DnsNetwork,
    /// Its name, for a user network; without one for all that have no entry of their own.
    #[serde(default)]
    pub network_name: Option<String>,
    /// What its containers get.
    pub dns: Dns,
}

/// The kind of network that an entry is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum DnsNetwork {
    /// The engine's bridge.
    Bridge,
    /// A network by name.
    User,
}

/// Resolvers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Dns {
    /// Addresses of name servers.
    #[serde(default)]
    pub nameservers: Vec<String>,
    /// Search domains.
    #[serde(default)]
    pub search: Vec<String>,
    /// Options of resolv.conf(5).
    #[serde(default)]
    pub options: Vec<String>,
}

impl DefaultDns {
    /// From the JSON of the flag `--default_container_dns`; what it says of Mesos' own containers is passed over.
    ///
    /// # Errors
    /// When it is no such JSON.
    pub fn parse(text: &str) -> Result<Self, TaskSpecError> {
        serde_json::from_str(text)
            .map_err(|error| refused("--default_container_dns", text, error.to_string()))
    }

    /// The one for the engine's bridge.
    pub(crate) fn bridge(&self) -> Option<&Dns> {
        let mut entries = self.entries.iter();
        let entry = entries.find(|entry| entry.network == DnsNetwork::Bridge)?;
        Some(&entry.dns)
    }

    /// The one for the user network `name`, otherwise the one without a name.
    pub(crate) fn user(&self, name: &str) -> Option<&Dns> {
        let user = |wanted: Option<&str>| {
            self.entries.iter().find(move |entry| {
                entry.network == DnsNetwork::User && entry.network_name.as_deref() == wanted
            })
        };
        user(Some(name))
            .or_else(|| user(None))
            .map(|entry| &entry.dns)
    }
}
