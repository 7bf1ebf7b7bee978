//! The layout and its identifiers, from outside: rows PA1 to PA5.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod container_id;
mod hostile;
mod layout;
mod reject;
mod roots;
mod socket;

use longshore_paths::{ContainerId, PluginName, PluginType, VolumeId};

fn ty(value: &str) -> PluginType {
    PluginType::new(value).unwrap()
}

fn name(value: &str) -> PluginName {
    PluginName::new(value).unwrap()
}

fn container(value: &str) -> ContainerId {
    ContainerId::new(value).unwrap()
}

fn volume(value: &str) -> VolumeId {
    VolumeId::new(value).unwrap()
}
