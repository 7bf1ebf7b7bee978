//! The two services of a CSI plugin, and the container ids made of them.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::error::Shown;
use crate::{ContainerId, PathsError, PluginName, PluginType};

/// A service that a plugin's container offers (`CSIPluginContainerInfo.Service`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Service {
    /// `CONTROLLER_SERVICE`, number 1.
    Controller,
    /// `NODE_SERVICE`, number 2.
    Node,
}

impl Service {
    /// Both services, in the order of their numbers.
    pub const ALL: [Self; 2] = [Self::Controller, Self::Node];

    /// The name of Mesos' enum value, as in container ids.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Controller => "CONTROLLER_SERVICE",
            Self::Node => "NODE_SERVICE",
        }
    }

    /// The name that people write: `controller` or `node`.
    #[must_use]
    pub const fn short(self) -> &'static str {
        match self {
            Self::Controller => "controller",
            Self::Node => "node",
        }
    }

    /// The number of Mesos' enum value.
    #[must_use]
    pub const fn number(self) -> i32 {
        match self {
            Self::Controller => 1,
            Self::Node => 2,
        }
    }

    /// The service with a number of Mesos' enum; `None` for 0 (unknown) and any other.
    #[must_use]
    pub const fn from_number(number: i32) -> Option<Self> {
        match number {
            1 => Some(Self::Controller),
            2 => Some(Self::Node),
            _ => None,
        }
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Service {
    type Err = PathsError;

    /// Takes either name.
    fn from_str(value: &str) -> Result<Self, PathsError> {
        Self::ALL
            .into_iter()
            .find(|service| value == service.as_str() || value == service.short())
            .ok_or_else(|| PathsError::UnknownService {
                value: Shown::new(value),
            })
    }
}

/// The id of a plugin's container, as Mesos' service manager forms it:
/// `<prefix><type with '-' for '.'>-<name>--<SERVICE>[-<SERVICE> ..]`, the services in the order given.
///
/// Neither the prefix nor the name is changed, so a name with a dot or a space is refused here. Two plugins
/// may map to one id (`a.b` and `a-b`): see [`refuse_shared_container`].
///
/// # Errors
/// When `services` is empty, or the result is not a container id.
pub fn csi_container_id(
    prefix: &str,
    ty: &PluginType,
    name: &PluginName,
    services: &[Service],
) -> Result<ContainerId, PathsError> {
    if services.is_empty() {
        return Err(PathsError::NoServices {
            ty: ty.to_string(),
            name: name.to_string(),
        });
    }
    let services: Vec<&str> = services.iter().map(|service| service.as_str()).collect();
    let ty = ty.as_str().replace('.', "-");
    ContainerId::new(format!("{prefix}{ty}-{name}--{}", services.join("-")))
}

/// Refuses a configuration in which two containers would share one id.
///
/// Each entry is a container id and how to name its owner in the message, such as
/// `plugin nfs of type org.example.nfs`.
///
/// # Errors
/// [`PathsError::SharedContainer`] with the first two that collide.
pub fn refuse_shared_container<L: fmt::Display>(
    containers: impl IntoIterator<Item = (L, ContainerId)>,
) -> Result<(), PathsError> {
    let mut owners = BTreeMap::new();
    for (owner, id) in containers {
        if let Some(first) = owners.get(&id) {
            let (first, second, id) = (format!("{first}"), owner.to_string(), id.to_string());
            return Err(PathsError::SharedContainer { first, second, id });
        }
        owners.insert(id, owner);
    }
    Ok(())
}
