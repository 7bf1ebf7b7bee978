//! From a `CSIPluginContainerInfo` to the LAUNCH_CONTAINER request, and its hash. Pure.
//!
//! What Mesos' service manager does (`service_manager.cpp`, `getEndpoint`), with its faults
//! repaired: a variable of the user's own is replaced instead of doubled, `target_path_root` is
//! mounted, and `$(CSI_ENDPOINT)` and `$CSI_ENDPOINT` are expanded in the command.
//!
//! The hash is that of the *whole* request, so a changed agent id, socket or mount root is a
//! change too. It travels in the launched command's environment as `LONGSHORE_LAUNCH_HASH`: an
//! agent's GET_CONTAINERS tells nothing about a container but its id and pid, so for a container
//! without a record the hash is read from the environment of its process.

use std::path::Path;

use longshore_mesos_api::v1::agent::call::LaunchContainer;
use longshore_mesos_api::v1::environment::Variable;
use longshore_mesos_api::v1::environment::variable::Type as VariableType;
use longshore_mesos_api::v1::mount_propagation::Mode as Propagation;
use longshore_mesos_api::v1::volume::source::{HostPath, Type as SourceType};
use longshore_mesos_api::v1::volume::{Mode, Source};
use longshore_mesos_api::v1::{
    CommandInfo, ContainerId, ContainerInfo, CsiPluginContainerInfo, Environment, MountPropagation,
    Volume, container_info,
};
use prost::Message;

#[cfg(test)]
mod tests;

pub(crate) const CSI_ENDPOINT: &str = "CSI_ENDPOINT";
pub(crate) const MESOS_AGENT_ID: &str = "MESOS_AGENT_ID";
pub(crate) const LAUNCH_HASH: &str = "LONGSHORE_LAUNCH_HASH";

/// SHA-256 over the encoded request, without the hash itself.
#[derive(Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
pub(crate) struct LaunchHash([u8; 32]);

impl From<[u8; 32]> for LaunchHash {
    fn from(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }
}

impl std::fmt::Display for LaunchHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::fmt::Debug for LaunchHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// What a request is made of besides the plugin's own part.
pub(crate) struct Surroundings<'a> {
    pub(crate) id: &'a str,
    pub(crate) socket: &'a str,
    /// The mount root first, then `target_path_root` where there is one.
    pub(crate) mount_roots: &'a [String],
    /// Only for a container with NODE_SERVICE.
    pub(crate) agent_id: Option<&'a str>,
}

/// The request and its hash.
pub(crate) fn launch_request(
    info: &CsiPluginContainerInfo,
    around: &Surroundings<'_>,
) -> (LaunchContainer, LaunchHash) {
    let uri = format!("unix://{}", around.socket);
    let mut command = info.command.clone().unwrap_or_default();
    expand(&mut command, &uri);
    set_variable(&mut command, CSI_ENDPOINT, &uri);
    if let Some(agent_id) = around.agent_id {
        set_variable(&mut command, MESOS_AGENT_ID, agent_id);
    }
    remove_variable(&mut command, LAUNCH_HASH);
    let mut container = info.container.clone().unwrap_or_else(|| ContainerInfo {
        r#type: container_info::Type::Mesos.into(),
        ..ContainerInfo::default()
    });
    let directory = Path::new(around.socket)
        .parent()
        .and_then(Path::to_str)
        .unwrap_or("/");
    container.volumes.push(socket_volume(directory));
    container
        .volumes
        .extend(around.mount_roots.iter().map(|root| mount_volume(root)));
    let mut request = LaunchContainer {
        container_id: ContainerId {
            value: around.id.to_owned(),
            parent: None,
        },
        command: Some(command),
        resources: info.resources.clone(),
        container: Some(container),
        ..LaunchContainer::default()
    };
    let hash = LaunchHash::of(&request.encode_to_vec());
    if let Some(command) = &mut request.command {
        set_variable(command, LAUNCH_HASH, &hash.to_string());
    }
    (request, hash)
}

fn socket_volume(directory: &str) -> Volume {
    Volume {
        container_path: directory.to_owned(),
        host_path: Some(directory.to_owned()),
        mode: Mode::Rw.into(),
        ..Volume::default()
    }
}

fn mount_volume(root: &str) -> Volume {
    let propagation = MountPropagation {
        mode: Some(Propagation::Bidirectional.into()),
    };
    Volume {
        container_path: root.to_owned(),
        mode: Mode::Rw.into(),
        source: Some(Source {
            r#type: Some(SourceType::HostPath.into()),
            host_path: Some(HostPath {
                path: root.to_owned(),
                mount_propagation: Some(propagation),
            }),
            ..Source::default()
        }),
        ..Volume::default()
    }
}

/// Replaces every variable of this name by one.
fn set_variable(command: &mut CommandInfo, name: &str, value: &str) {
    remove_variable(command, name);
    command
        .environment
        .get_or_insert_with(Environment::default)
        .variables
        .push(Variable {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            r#type: Some(VariableType::Value.into()),
            secret: None,
        });
}

fn remove_variable(command: &mut CommandInfo, name: &str) {
    if let Some(environment) = &mut command.environment {
        environment
            .variables
            .retain(|variable| variable.name != name);
    }
}

fn expand(command: &mut CommandInfo, uri: &str) {
    if let Some(value) = &mut command.value {
        *value = expanded(value, uri);
    }
    for argument in &mut command.arguments {
        *argument = expanded(argument, uri);
    }
}

/// Replaces `$(CSI_ENDPOINT)` (Kubernetes), `${CSI_ENDPOINT}` and `$CSI_ENDPOINT` (shell); a
/// longer name such as `$CSI_ENDPOINTS` is left alone.
fn expanded(text: &str, uri: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        let after = &rest[at + 1..];
        let taken = ["(CSI_ENDPOINT)", "{CSI_ENDPOINT}", CSI_ENDPOINT]
            .into_iter()
            .find(|form| after.starts_with(form))
            .filter(|form| *form != CSI_ENDPOINT || ends_name(&after[CSI_ENDPOINT.len()..]));
        match taken {
            Some(form) => {
                out.push_str(uri);
                rest = &after[form.len()..];
            }
            None => {
                out.push('$');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

fn ends_name(rest: &str) -> bool {
    !rest.starts_with(|next: char| next == '_' || next.is_ascii_alphanumeric())
}
