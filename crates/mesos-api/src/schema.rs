//! The descriptors, read once on first use.

use std::sync::OnceLock;

use prost_reflect::prost::Message as _;
use prost_reflect::prost_types::{DescriptorProto, FileDescriptorSet};
use prost_reflect::{DescriptorPool, MessageDescriptor};

static DESCRIPTORS: &[u8] = include_bytes!("gen/descriptors.bin");
static POOL: OnceLock<Option<DescriptorPool>> = OnceLock::new();

/// The descriptor of `full_name`; `None` only if the committed descriptors do not have it, which
/// a test excludes for every [`crate::ApiMessage`].
pub(crate) fn message(full_name: &str) -> Option<MessageDescriptor> {
    POOL.get_or_init(load)
        .as_ref()?
        .get_message_by_name(full_name)
}

fn load() -> Option<DescriptorPool> {
    let mut files = FileDescriptorSet::decode(DESCRIPTORS).ok()?;
    for file in &mut files.file {
        for message in &mut file.message_type {
            name_fields_as_mesos_does(message);
        }
    }
    DescriptorPool::from_file_descriptor_set(files).ok()
}

/// Mesos' JSON knows the names of the `.proto` alone: a camelCase member is an unknown one. With
/// both names equal the mapping reads and writes just that one.
fn name_fields_as_mesos_does(message: &mut DescriptorProto) {
    for field in message.field.iter_mut().chain(&mut message.extension) {
        field.json_name.clone_from(&field.name);
    }
    for nested in &mut message.nested_type {
        name_fields_as_mesos_does(nested);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_api_message_has_a_descriptor() {
        for name in crate::api_message::ALL {
            assert!(message(name).is_some(), "{name}");
        }
    }
}
