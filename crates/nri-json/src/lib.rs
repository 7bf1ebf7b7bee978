#![doc = include_str!("../README.md")]
//!
//! # Invariants
//!
//! - What is written is read back as the same message, also where a present wrapper holds zero.
//! - Nothing of the input is ignored: an unknown member or enum name is an error that names it.

use std::sync::OnceLock;

use longshore_nri_api::cost::Message;
use prost_reflect::prost::Message as _;
use prost_reflect::prost_types::FileDescriptorSet;
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, MessageDescriptor, SerializeOptions,
};
use serde_json::Value;

static DESCRIPTORS: &[u8] = include_bytes!("gen/descriptors.bin");
static POOL: OnceLock<Option<DescriptorPool>> = OnceLock::new();

/// Why a message has no JSON form, or JSON is none of a message.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// A member that the message does not have, or a value of the wrong type.
    #[error("not the JSON form of {message}")]
    Malformed {
        /// Full name of the message.
        message: &'static str,
        /// What was expected.
        #[source]
        source: serde_json::Error,
    },
    /// The committed descriptors and the generated code disagree.
    #[error("{message} does not fit its descriptor: run `cargo xtask codegen`")]
    Descriptor {
        /// Full name of the message.
        message: &'static str,
    },
}

/// The JSON form of `message`.
///
/// # Errors
/// [`JsonError`] only if the committed descriptors do not fit the generated code.
pub fn to_value<M: Message>(message: &M) -> Result<Value, JsonError> {
    let mut dynamic = DynamicMessage::new(descriptor::<M>()?);
    dynamic
        .transcode_from(message)
        .map_err(|_| JsonError::Descriptor { message: M::NAME })?;
    let options = SerializeOptions::new()
        .stringify_64_bit_integers(false)
        .use_proto_field_name(true);
    dynamic
        .serialize_with_options(serde_json::value::Serializer, &options)
        .map_err(malformed::<M>)
}

/// The message of which `value` is the JSON form. Limit the text before it is parsed: the message
/// takes memory in proportion to `value`.
///
/// # Errors
/// [`JsonError::Malformed`].
pub fn from_value<M: Message>(value: Value) -> Result<M, JsonError> {
    DynamicMessage::deserialize_with_options(
        descriptor::<M>()?,
        value,
        &DeserializeOptions::new().deny_unknown_fields(true),
    )
    .map_err(malformed::<M>)?
    .transcode_to()
    .map_err(|_| JsonError::Descriptor { message: M::NAME })
}

fn malformed<M: Message>(source: serde_json::Error) -> JsonError {
    JsonError::Malformed {
        message: M::NAME,
        source,
    }
}

fn descriptor<M: Message>() -> Result<MessageDescriptor, JsonError> {
    POOL.get_or_init(|| {
        let files = FileDescriptorSet::decode(DESCRIPTORS).ok()?;
        DescriptorPool::from_file_descriptor_set(files).ok()
    })
    .as_ref()
    .and_then(|pool| pool.get_message_by_name(M::NAME))
    .ok_or(JsonError::Descriptor { message: M::NAME })
}

#[cfg(test)]
mod tests {
    use longshore_nri_api::{Container, ContainerState, ContainerUpdate, SynchronizeRequest};
    use serde_json::json;

    use super::*;

    #[test]
    fn enums_are_names_integers_numbers_and_what_is_empty_is_left_out() {
        let container = Container {
            id: "c0".into(),
            state: ContainerState::ContainerRunning.into(),
            created_at: 1 << 60,
            ..Container::default()
        };
        let value = json!({"id": "c0", "state": "CONTAINER_RUNNING", "created_at": 1_u64 << 60});
        assert_eq!(to_value(&container).unwrap(), value);
        assert_eq!(from_value::<Container>(value).unwrap(), container);
    }

    #[test]
    fn camel_case_and_integers_as_text_are_read() {
        let value = json!({"podSandboxId": "p0", "created_at": "7"});
        let container = from_value::<Container>(value).unwrap();
        assert_eq!(
            (&*container.pod_sandbox_id, container.created_at),
            ("p0", 7)
        );
    }

    #[test]
    fn a_present_wrapper_stays_present() {
        let mut update = ContainerUpdate::default();
        update.resources_mut().set_cpu_shares(0_u64);
        let value = to_value(&update).unwrap();
        assert_eq!(from_value::<ContainerUpdate>(value).unwrap(), update);
    }

    #[test]
    fn what_does_not_exist_is_named() {
        for (value, named) in [
            (json!({"containers": [{"nmae": "x"}]}), "nmae"),
            (json!({"containers": [{"state": "RUNING"}]}), "RUNING"),
            (json!({"more": "yes"}), "yes"),
        ] {
            let error = from_value::<SynchronizeRequest>(value).unwrap_err();
            let JsonError::Malformed { source, .. } = &error else {
                panic!("{error}");
            };
            assert!(source.to_string().contains(named), "{source}");
        }
    }
}
