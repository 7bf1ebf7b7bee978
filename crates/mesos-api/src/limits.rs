use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};

use crate::{ApiMessage, schema};

/// What one decoded message may cost.
///
/// An *element* is one message, string or bytes value of protobuf, or one member or array entry
/// of JSON. The decoded form of an element takes at most about 4 KiB, so `max_elements` bounds
/// the memory whatever the bytes say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecodeLimits {
    /// Longest input in bytes.
    pub max_bytes: usize,
    /// Most elements in it.
    pub max_elements: usize,
}

impl Default for DecodeLimits {
    /// 16 MiB, 50,000 elements: an answer that lists some 8,000 containers.
    fn default() -> Self {
        Self {
            max_bytes: 16 << 20,
            max_elements: 50_000,
        }
    }
}

/// Why protobuf bytes were refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// More bytes than [`DecodeLimits::max_bytes`].
    #[error("{message} of {bytes} bytes is over the limit of {limit}")]
    TooLarge {
        /// Name of the message.
        message: &'static str,
        /// Length of the input.
        bytes: usize,
        /// The limit.
        limit: usize,
    },
    /// More elements than [`DecodeLimits::max_elements`].
    #[error("{message} has more than {limit} elements")]
    TooManyElements {
        /// Name of the message.
        message: &'static str,
        /// The limit.
        limit: usize,
    },
    /// Not the protobuf form of the message.
    #[error("{message} is not valid protobuf")]
    Malformed {
        /// Name of the message.
        message: &'static str,
        /// What the decoder says, when it was the decoder that refused.
        #[source]
        source: Option<prost::DecodeError>,
    },
}

/// A body up to this size cannot decode to more than about 32 MiB (two bytes an element), so its
/// elements are not counted and the descriptors not loaded.
const HARMLESS: usize = 16 << 10;

/// Nesting as deep as prost itself accepts.
const MAX_DEPTH: usize = 100;

/// Decodes the protobuf form of `M` within `limits`.
///
/// # Errors
/// [`DecodeError`] when the input is over a limit or not a message.
pub fn decode<M: ApiMessage>(bytes: &[u8], limits: &DecodeLimits) -> Result<M, DecodeError> {
    let message = M::FULL_NAME;
    if bytes.len() > limits.max_bytes {
        return Err(DecodeError::TooLarge {
            message,
            bytes: bytes.len(),
            limit: limits.max_bytes,
        });
    }
    if bytes.len() > HARMLESS.min(limits.max_elements.saturating_mul(2)) {
        let descriptor = schema::message(message).ok_or(DecodeError::Malformed {
            message,
            source: None,
        })?;
        let mut left = limits.max_elements;
        count(bytes, &descriptor, &mut left, MAX_DEPTH).map_err(|stop| match stop {
            Stop::Malformed => DecodeError::Malformed {
                message,
                source: None,
            },
            Stop::TooMany => DecodeError::TooManyElements {
                message,
                limit: limits.max_elements,
            },
        })?;
    }
    M::decode(bytes).map_err(|source| DecodeError::Malformed {
        message,
        source: Some(source),
    })
}

enum Stop {
    Malformed,
    TooMany,
}

/// Walks the wire format along the schema and takes one of `left` for each element.
fn count(
    mut bytes: &[u8],
    message: &MessageDescriptor,
    left: &mut usize,
    depth: usize,
) -> Result<(), Stop> {
    let depth = depth.checked_sub(1).ok_or(Stop::Malformed)?;
    while !bytes.is_empty() {
        let tag = varint(&mut bytes)?;
        match tag & 7 {
            0 => {
                varint(&mut bytes)?;
            }
            1 => skip(&mut bytes, 8)?,
            5 => skip(&mut bytes, 4)?,
            2 => {
                *left = left.checked_sub(1).ok_or(Stop::TooMany)?;
                let length = usize::try_from(varint(&mut bytes)?).map_err(|_| Stop::Malformed)?;
                let (field, rest) = bytes.split_at_checked(length).ok_or(Stop::Malformed)?;
                bytes = rest;
                let number = u32::try_from(tag >> 3).map_err(|_| Stop::Malformed)?;
                if let Some(Kind::Message(inner)) = message
                    .get_field(number)
                    .as_ref()
                    .map(FieldDescriptor::kind)
                {
                    count(field, &inner, left, depth)?;
                }
            }
            // Groups are in no message of ours; prost skips unknown ones, we refuse them.
            _ => return Err(Stop::Malformed),
        }
    }
    Ok(())
}

fn skip(bytes: &mut &[u8], n: usize) -> Result<(), Stop> {
    *bytes = bytes.get(n..).ok_or(Stop::Malformed)?;
    Ok(())
}

fn varint(bytes: &mut &[u8]) -> Result<u64, Stop> {
    let mut value = 0u64;
    for (index, byte) in bytes.iter().take(10).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            *bytes = &bytes[index + 1..];
            return Ok(value);
        }
    }
    Err(Stop::Malformed)
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;
    use crate::v1::agent::{Call, Response, response};

    fn limits(max_bytes: usize, max_elements: usize) -> DecodeLimits {
        DecodeLimits {
            max_bytes,
            max_elements,
        }
    }

    fn containers(n: usize) -> Vec<u8> {
        Response {
            get_containers: Some(response::GetContainers {
                containers: vec![response::get_containers::Container::default(); n],
            }),
            ..Response::default()
        }
        .encode_to_vec()
    }

    #[test]
    fn a_short_body_that_would_decode_to_gigabytes_is_refused_before_decoding() {
        // 100,000 containers in under a megabyte; decoded they take hundreds of megabytes.
        let bytes = containers(100_000);
        assert!(bytes.len() < 1 << 20);
        let refused = decode::<Response>(&bytes, &DecodeLimits::default()).unwrap_err();
        assert!(matches!(
            refused,
            DecodeError::TooManyElements { limit: 50_000, .. }
        ));
    }

    #[test]
    fn elements_are_counted_through_nested_messages() {
        // get_containers + 10 x (container + container_id + its value)
        let bytes = containers(10);
        assert!(decode::<Response>(&bytes, &limits(1000, 31)).is_ok());
        assert!(decode::<Response>(&bytes, &limits(1000, 10)).is_err());
    }

    #[test]
    fn a_long_body_and_a_broken_one_are_named() {
        let refused = decode::<Call>(&[0; 9], &limits(8, 8)).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "mesos.v1.agent.Call of 9 bytes is over the limit of 8"
        );
        for broken in [&b"\x0b"[..], b"\xff\xff", b"\x6a\x7f\x00", b"{\"type\":1}"] {
            assert!(matches!(
                decode::<Call>(broken, &DecodeLimits::default()),
                Err(DecodeError::Malformed { .. })
            ));
            assert!(matches!(
                decode::<Call>(broken, &limits(1000, 0)),
                Err(DecodeError::Malformed { .. } | DecodeError::TooManyElements { .. })
            ));
        }
    }

    proptest::proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..300)) {
            drop(decode::<Response>(&bytes, &limits(200, 20)));
            drop(decode::<Call>(&bytes, &DecodeLimits::default()));
        }
    }
}
