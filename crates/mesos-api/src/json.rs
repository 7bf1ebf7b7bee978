//! The JSON form of the messages, as Mesos reads and writes it: members named as in the `.proto`
//! (snake_case), enums by name, bytes in base64, 64-bit integers as numbers. Unknown members and
//! unknown enum names are ignored on reading, as Mesos ignores them.

use prost_reflect::{
    DeserializeOptions, DynamicMessage, Kind, MessageDescriptor, ReflectMessage as _,
    SerializeOptions, Value,
};
use serde_json::Value as Json;

use crate::{ApiMessage, DecodeLimits, schema};

/// Why JSON could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// More bytes than [`DecodeLimits::max_bytes`].
    #[error("JSON of {bytes} bytes is over the limit of {limit}")]
    TooLarge {
        /// Length of the input.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// More members and array entries than [`DecodeLimits::max_elements`].
    #[error("JSON has more than {limit} elements")]
    TooManyElements {
        /// The limit.
        limit: usize,
    },
    /// Not JSON, or a value of the wrong type for its member.
    #[error("not the JSON form of {message}")]
    Malformed {
        /// Name of the message.
        message: &'static str,
        /// Line, column and what was expected.
        #[source]
        source: serde_json::Error,
    },
    /// Members that the message must have are absent.
    #[error("missing required fields: {}", fields.join(", "))]
    MissingRequired {
        /// Paths such as `launch_container.container_id.value`.
        fields: Vec<String>,
    },
    /// The committed descriptors and the generated code disagree.
    #[error("{message} does not fit its descriptor: run `cargo xtask codegen`")]
    Descriptor {
        /// Name of the message.
        message: &'static str,
    },
}

/// The JSON form of `message`, compact.
///
/// # Errors
/// [`JsonError`] only if the committed descriptors do not fit the generated code.
pub fn to_vec<M: ApiMessage>(message: &M) -> Result<Vec<u8>, JsonError> {
    write(message, false)
}

/// The JSON form of `message`, indented for people.
///
/// # Errors
/// As [`to_vec`].
pub fn to_vec_pretty<M: ApiMessage>(message: &M) -> Result<Vec<u8>, JsonError> {
    write(message, true)
}

fn write<M: ApiMessage>(message: &M, pretty: bool) -> Result<Vec<u8>, JsonError> {
    let descriptor = descriptor::<M>()?;
    let mut dynamic = DynamicMessage::new(descriptor);
    dynamic
        .transcode_from(message)
        .map_err(|_| JsonError::Descriptor {
            message: M::FULL_NAME,
        })?;
    let mut out = Vec::new();
    let options = SerializeOptions::new()
        .stringify_64_bit_integers(false)
        .use_proto_field_name(true);
    let written = if pretty {
        dynamic.serialize_with_options(&mut serde_json::Serializer::pretty(&mut out), &options)
    } else {
        dynamic.serialize_with_options(&mut serde_json::Serializer::new(&mut out), &options)
    };
    written.map_err(|source| JsonError::Malformed {
        message: M::FULL_NAME,
        source,
    })?;
    Ok(out)
}

/// Reads the JSON form of `M` within `limits`; unknown members are ignored.
///
/// # Errors
/// [`JsonError`]: over a limit, not JSON, a value of the wrong type, required members missing.
pub fn from_slice<M: ApiMessage>(bytes: &[u8], limits: &DecodeLimits) -> Result<M, JsonError> {
    check(bytes, limits)?;
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let read = DynamicMessage::deserialize_with_options(
        descriptor::<M>()?,
        &mut deserializer,
        &DeserializeOptions::new().deny_unknown_fields(false),
    )
    .and_then(|dynamic| deserializer.end().map(|()| dynamic));
    finish(read)
}

/// What [`from_slice_reporting`] found beside the message.
#[derive(Debug, Clone, PartialEq)]
pub struct Reported<M> {
    /// The message.
    pub message: M,
    /// Paths of members that the message does not have, such as `containers[0].comand`.
    pub unknown: Vec<String>,
}

/// Reads the JSON form of `M` and names the members that it ignored: for configuration files,
/// where an unknown member is most likely a misspelt one.
///
/// # Errors
/// As [`from_slice`].
pub fn from_slice_reporting<M: ApiMessage>(
    bytes: &[u8],
    limits: &DecodeLimits,
) -> Result<Reported<M>, JsonError> {
    let message = from_slice(bytes, limits)?;
    let json: Json = serde_json::from_slice(bytes).map_err(|source| JsonError::Malformed {
        message: M::FULL_NAME,
        source,
    })?;
    let mut unknown = Vec::new();
    find_unknown(&json, &descriptor::<M>()?, "", &mut unknown);
    Ok(Reported { message, unknown })
}

fn descriptor<M: ApiMessage>() -> Result<MessageDescriptor, JsonError> {
    schema::message(M::FULL_NAME).ok_or(JsonError::Descriptor {
        message: M::FULL_NAME,
    })
}

fn finish<M: ApiMessage>(read: Result<DynamicMessage, serde_json::Error>) -> Result<M, JsonError> {
    let dynamic = read.map_err(|source| JsonError::Malformed {
        message: M::FULL_NAME,
        source,
    })?;
    let mut fields = Vec::new();
    find_missing(&dynamic, "", &mut fields);
    if !fields.is_empty() {
        return Err(JsonError::MissingRequired { fields });
    }
    dynamic.transcode_to().map_err(|_| JsonError::Descriptor {
        message: M::FULL_NAME,
    })
}

/// Counts members and entries without reading anything else; strings are skipped.
fn check(bytes: &[u8], limits: &DecodeLimits) -> Result<(), JsonError> {
    if bytes.len() > limits.max_bytes {
        return Err(JsonError::TooLarge {
            bytes: bytes.len(),
            limit: limits.max_bytes,
        });
    }
    let (mut in_string, mut escaped, mut elements) = (false, false, 0usize);
    for byte in bytes {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' | b',' if !in_string => elements += 1,
            _ => {}
        }
    }
    if elements > limits.max_elements {
        return Err(JsonError::TooManyElements {
            limit: limits.max_elements,
        });
    }
    Ok(())
}

/// Required members that are absent, deepest path last. Depth is bounded by the JSON reader.
fn find_missing(message: &DynamicMessage, path: &str, missing: &mut Vec<String>) {
    for field in message.descriptor().fields() {
        let at = join(path, field.name());
        if !message.has_field(&field) {
            if field.is_required() {
                missing.push(at);
            }
            continue;
        }
        match message.get_field(&field).as_ref() {
            Value::Message(inner) => find_missing(inner, &at, missing),
            Value::List(list) => {
                for (index, value) in list.iter().enumerate() {
                    if let Value::Message(inner) = value {
                        find_missing(inner, &format!("{at}[{index}]"), missing);
                    }
                }
            }
            Value::Map(map) => {
                for value in map.values() {
                    if let Value::Message(inner) = value {
                        find_missing(inner, &at, missing);
                    }
                }
            }
            _ => {}
        }
    }
}

fn find_unknown(json: &Json, message: &MessageDescriptor, path: &str, unknown: &mut Vec<String>) {
    let Json::Object(members) = json else { return };
    for (name, value) in members {
        let at = join(path, name);
        let Some(field) = message.get_field_by_json_name(name) else {
            unknown.push(at);
            continue;
        };
        let Kind::Message(inner) = field.kind() else {
            continue;
        };
        match value {
            Json::Array(entries) => {
                for (index, entry) in entries.iter().enumerate() {
                    find_unknown(entry, &inner, &format!("{at}[{index}]"), unknown);
                }
            }
            Json::Object(entries) if field.is_map() => {
                if let Kind::Message(of_value) = inner.map_entry_value_field().kind() {
                    for (key, entry) in entries {
                        find_unknown(entry, &of_value, &format!("{at}[{key:?}]"), unknown);
                    }
                }
            }
            _ => find_unknown(value, &inner, &at, unknown),
        }
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

#[cfg(test)]
mod tests;
