//! The envelopes around payloads: ttrpc's `Request` and `Response`.
//!
//! Requests are written field by field into the buffer that goes to the socket, so that a payload
//! is copied once, out of the message into that buffer.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, key_len};

use crate::status::{Code, Status};

/// A request as it is decoded.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RequestEnvelope {
    #[prost(string, tag = "1")]
    pub(crate) service: String,
    #[prost(string, tag = "2")]
    pub(crate) method: String,
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) payload: Bytes,
    #[prost(int64, tag = "4")]
    pub(crate) timeout_nano: i64,
    #[prost(message, repeated, tag = "5")]
    pub(crate) metadata: Vec<KeyValue>,
}

/// One entry of a request's metadata.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub struct KeyValue {
    /// The name; may occur more than once.
    #[prost(string, tag = "1")]
    pub key: String,
    /// The value.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// A response as it is decoded and encoded.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResponseEnvelope {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<StatusMessage>,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) payload: Bytes,
}

/// `google.rpc.Status`, without its details.
#[derive(Clone, PartialEq, Eq, Hash, Message)]
pub(crate) struct StatusMessage {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
}

impl From<Status> for StatusMessage {
    fn from(status: Status) -> Self {
        Self {
            code: status.code.number(),
            message: status.message,
        }
    }
}

impl ResponseEnvelope {
    /// The payload, or the failure. A status of code 0 is success.
    pub(crate) fn into_result(self) -> Result<Bytes, Status> {
        match self.status {
            Some(status) if status.code != 0 => Err(Status {
                code: Code::from(status.code),
                message: status.message,
            }),
            Some(_) | None => Ok(self.payload),
        }
    }
}

/// A request that has yet to be encoded around its payload.
#[derive(Debug)]
pub(crate) struct Outgoing<'a> {
    pub(crate) service: &'a str,
    pub(crate) method: &'a str,
    pub(crate) timeout_nano: i64,
    pub(crate) metadata: &'a [KeyValue],
}

impl Outgoing<'_> {
    /// Length of the envelope with a payload of `payload` bytes.
    pub(crate) fn encoded_len(&self, payload: usize) -> usize {
        let bytes = |tag, length: usize| match length {
            0 => 0,
            _ => key_len(tag) + encoded_len_varint(length as u64) + length,
        };
        let timeout = match self.timeout_nano {
            0 => 0,
            nanos => key_len(4) + encoded_len_varint(nanos.cast_unsigned()),
        };
        let metadata: usize = self
            .metadata
            .iter()
            .map(|entry| bytes_always(5, entry.encoded_len()))
            .sum();
        bytes(1, self.service.len())
            + bytes(2, self.method.len())
            + bytes(3, payload)
            + timeout
            + metadata
    }

    /// Appends the envelope; `payload` bytes are written by `write`.
    pub(crate) fn encode(
        &self,
        buffer: &mut BytesMut,
        payload: usize,
        write: impl FnOnce(&mut BytesMut),
    ) {
        put_bytes(buffer, 1, self.service.as_bytes());
        put_bytes(buffer, 2, self.method.as_bytes());
        if payload > 0 {
            encode_key(3, WireType::LengthDelimited, buffer);
            encode_varint(payload as u64, buffer);
            write(buffer);
        }
        if self.timeout_nano != 0 {
            encode_key(4, WireType::Varint, buffer);
            encode_varint(self.timeout_nano.cast_unsigned(), buffer);
        }
        for entry in self.metadata {
            encode_key(5, WireType::LengthDelimited, buffer);
            encode_varint(entry.encoded_len() as u64, buffer);
            entry.encode_raw(buffer);
        }
    }
}

fn bytes_always(tag: u32, length: usize) -> usize {
    key_len(tag) + encoded_len_varint(length as u64) + length
}

fn put_bytes(buffer: &mut BytesMut, tag: u32, value: &[u8]) {
    if !value.is_empty() {
        encode_key(tag, WireType::LengthDelimited, buffer);
        encode_varint(value.len() as u64, buffer);
        buffer.put_slice(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_encoded_by_hand_decodes_as_the_message(
            service in ".{0,40}",
            method in ".{0,40}",
            payload in proptest::collection::vec(any::<u8>(), 0..300),
            timeout_nano in any::<i64>(),
            metadata in proptest::collection::vec((".{0,9}", ".{0,9}"), 0..4),
        ) {
            let metadata: Vec<KeyValue> =
                metadata.into_iter().map(|(key, value)| KeyValue { key, value }).collect();
            let outgoing = Outgoing { service: &service, method: &method, timeout_nano, metadata: &metadata };
            let mut buffer = BytesMut::new();
            outgoing.encode(&mut buffer, payload.len(), |buffer| buffer.put_slice(&payload));
            prop_assert_eq!(buffer.len(), outgoing.encoded_len(payload.len()));
            let decoded = RequestEnvelope::decode(buffer.freeze()).unwrap();
            let expected = RequestEnvelope {
                service: service.clone(), method: method.clone(), payload: payload.into(), timeout_nano, metadata: metadata.clone(),
            };
            prop_assert_eq!(decoded, expected);
        }
    }

    #[test]
    fn an_empty_answer_has_no_bytes_and_a_status_of_zero_is_success() {
        let empty = ResponseEnvelope {
            status: None,
            payload: Bytes::new(),
        };
        assert_eq!(empty.encoded_len(), 0);
        let zero = ResponseEnvelope {
            status: Some(StatusMessage {
                code: 0,
                message: "fine".into(),
            }),
            payload: Bytes::from_static(b"x"),
        };
        assert_eq!(zero.into_result(), Ok(Bytes::from_static(b"x")));
    }
}
