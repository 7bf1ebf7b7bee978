//! Reading along a trunk without taking part: for proxies, recorders and tests.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use prost::Message;

use crate::envelope::{KeyValue, RequestEnvelope, ResponseEnvelope};
use crate::error::CloseReason;
use crate::frame::{self, FrameDecoder, Inbound};
use crate::mux;
use crate::status::Status;

/// Cuts one direction of a multiplexed trunk into messages. Pure: bytes in, messages out.
///
/// Stores at most one frame of the multiplexer and one message for each connection that it watches,
/// and checks every length before it stores anything.
///
/// ```
/// use bytes::Bytes;
/// use longshore_ttrpc::{Observed, Observer};
///
/// // A success without payload, on connection 1.
/// let wire = [0, 0, 0, 1, 0, 0, 0, 10, /**/ 0, 0, 0, 0, 0, 0, 0, 3, 2, 0];
/// let mut seen = Vec::new();
/// let mut observer = Observer::new(&[1, 2]);
/// observer.push(Bytes::copy_from_slice(&wire), |observed| seen.push(observed))?;
/// assert!(matches!(&seen[..], [Observed::Response { connection: 1, stream: 3, answer: Ok(_) }]));
/// # Ok::<(), longshore_ttrpc::CloseReason>(())
/// ```
#[derive(Debug)]
pub struct Observer {
    buffer: BytesMut,
    connections: Vec<(u32, FrameDecoder)>,
}

/// Something that went by.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Observed {
    /// A request.
    Request {
        /// The connection within the trunk.
        connection: u32,
        /// Its stream id.
        stream: u32,
        /// The full name of the service.
        service: String,
        /// The bare name of the method.
        method: String,
        /// How long the caller waits.
        timeout: Option<Duration>,
        /// What the caller's interceptors sent along.
        metadata: Vec<KeyValue>,
        /// The encoded message.
        payload: Bytes,
    },
    /// An answer.
    Response {
        /// The connection within the trunk.
        connection: u32,
        /// The stream id of its request.
        stream: u32,
        /// The encoded message, or why there is none.
        answer: Result<Bytes, Status>,
    },
    /// A frame that is neither, or whose envelope is malformed.
    Other {
        /// The connection within the trunk.
        connection: u32,
        /// Its stream id.
        stream: u32,
        /// Its type: 1 and 2 are requests and responses that are malformed.
        kind: u8,
        /// Its length in bytes, without header.
        length: usize,
    },
    /// A message over the limit of ttrpc; its bytes are skipped.
    Oversized {
        /// The connection within the trunk.
        connection: u32,
        /// Its stream id.
        stream: u32,
        /// What its header says, in bytes.
        length: usize,
    },
    /// A frame of a connection that is not watched.
    Foreign {
        /// The connection within the trunk.
        connection: u32,
        /// Length of the frame in bytes.
        length: usize,
    },
}

impl Observer {
    /// Watches these connections.
    #[must_use]
    pub fn new(connections: &[u32]) -> Self {
        let watch = |connection: &u32| (*connection, FrameDecoder::default());
        Self {
            buffer: BytesMut::new(),
            connections: connections.iter().map(watch).collect(),
        }
    }

    /// Takes the next bytes, and calls `each` for everything that is complete with them.
    ///
    /// # Errors
    /// [`CloseReason::FrameTooLarge`]: from here on nothing can be told apart any more; a peer
    /// closes the trunk.
    pub fn push(
        &mut self,
        bytes: Bytes,
        mut each: impl FnMut(Observed),
    ) -> Result<(), CloseReason> {
        self.buffer.extend_from_slice(&bytes);
        let max = mux::MAX_PAYLOAD;
        while let Some((connection, payload)) = mux::next_frame(&mut self.buffer, max)? {
            let watched = self
                .connections
                .iter_mut()
                .find(|(known, _)| *known == connection);
            match watched {
                Some((_, decoder)) => {
                    decoder.push(
                        payload,
                        |_| frame::MAX_DATA,
                        |inbound| each(observed(connection, inbound)),
                    );
                }
                None => each(Observed::Foreign {
                    connection,
                    length: payload.len(),
                }),
            }
        }
        Ok(())
    }

    /// Whether the bytes so far end between two messages.
    #[must_use]
    pub fn is_between_messages(&self) -> bool {
        let between = |(_, decoder): &(u32, FrameDecoder)| decoder.is_between_frames();
        self.buffer.is_empty() && self.connections.iter().all(between)
    }
}

fn observed(connection: u32, inbound: Inbound) -> Observed {
    let (stream, kind, data) = match inbound {
        Inbound::Frame { stream, kind, data } => (stream, kind, data),
        Inbound::Oversized { stream, length, .. } => {
            return Observed::Oversized {
                connection,
                stream,
                length,
            };
        }
    };
    let length = data.len();
    let other = Observed::Other {
        connection,
        stream,
        kind,
        length,
    };
    match kind {
        frame::REQUEST => match crate::server::decode_envelope(data) {
            Ok(request) => of_request(connection, stream, request),
            Err(_) => other,
        },
        frame::RESPONSE => match ResponseEnvelope::decode(data) {
            Ok(response) => Observed::Response {
                connection,
                stream,
                answer: response.into_result(),
            },
            Err(_) => other,
        },
        _ => other,
    }
}

fn of_request(connection: u32, stream: u32, request: RequestEnvelope) -> Observed {
    let timeout = u64::try_from(request.timeout_nano)
        .ok()
        .filter(|nanos| *nanos > 0);
    Observed::Request {
        connection,
        stream,
        service: request.service,
        method: request.method,
        timeout: timeout.map(Duration::from_nanos),
        metadata: request.metadata,
        payload: request.payload,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::status::Code;

    fn wire(connection: u32, stream: u32, kind: u8, data: &[u8]) -> Vec<u8> {
        let header = frame::Header {
            length: u32::try_from(data.len()).unwrap(),
            stream,
            kind,
            flags: 0,
        };
        let length = u32::try_from(frame::HEADER + data.len()).unwrap();
        let mut bytes = connection.to_be_bytes().to_vec();
        bytes.extend(length.to_be_bytes());
        bytes.extend(header.to_bytes());
        bytes.extend(data);
        bytes
    }

    fn all(observer: &mut Observer, bytes: &[u8]) -> Result<Vec<Observed>, CloseReason> {
        let mut seen = Vec::new();
        let bytes = Bytes::copy_from_slice(bytes);
        observer.push(bytes, |observed| seen.push(observed))?;
        Ok(seen)
    }

    #[test]
    fn requests_answers_and_everything_else_are_told_apart() {
        let request = RequestEnvelope {
            service: "s".into(),
            method: "m".into(),
            payload: Bytes::from_static(b"p"),
            timeout_nano: 5,
            metadata: Vec::new(),
        };
        let failure = [0x0a, 0x02, 0x08, 0x0c];
        let bytes = [
            wire(1, 1, frame::REQUEST, &request.encode_to_vec()),
            wire(2, 1, frame::RESPONSE, b""),
            wire(1, 3, frame::RESPONSE, &failure),
            wire(1, 5, frame::REQUEST, b"\xff"),
            wire(2, 5, frame::DATA, b"12"),
            wire(9, 5, frame::REQUEST, b""),
        ]
        .concat();
        let mut observer = Observer::new(&[1, 2]);
        let seen = all(&mut observer, &bytes).unwrap();
        let unimplemented = Status::new(Code::Unimplemented, "");
        let expected = [
            Observed::Request {
                connection: 1,
                stream: 1,
                service: "s".into(),
                method: "m".into(),
                timeout: Some(Duration::from_nanos(5)),
                metadata: Vec::new(),
                payload: Bytes::from_static(b"p"),
            },
            Observed::Response {
                connection: 2,
                stream: 1,
                answer: Ok(Bytes::new()),
            },
            Observed::Response {
                connection: 1,
                stream: 3,
                answer: Err(unimplemented),
            },
            Observed::Other {
                connection: 1,
                stream: 5,
                kind: frame::REQUEST,
                length: 1,
            },
            Observed::Other {
                connection: 2,
                stream: 5,
                kind: frame::DATA,
                length: 2,
            },
            Observed::Foreign {
                connection: 9,
                length: 10,
            },
        ];
        assert_eq!(seen, expected);
        assert!(observer.is_between_messages());
    }

    #[test]
    fn what_is_too_long_is_said_and_never_stored() {
        let mut observer = Observer::new(&[1]);
        let header = [0, 0, 0, 1, 0, 0, 0, 10, 0xff, 0, 0, 0, 0, 0, 0, 1, 1, 0];
        let seen = all(&mut observer, &header).unwrap();
        let length = 0xff00_0000;
        assert_eq!(
            seen,
            [Observed::Oversized {
                connection: 1,
                stream: 1,
                length
            }]
        );
        assert!(!observer.is_between_messages());
        let refused = all(&mut observer, &[0, 0, 0, 1, 0xff, 0, 0, 0]);
        assert!(matches!(refused, Err(CloseReason::FrameTooLarge { .. })));
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_show_the_same(
            bytes in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..80),
                proptest::collection::vec(
                    (0u32..4, any::<u32>(), 0u8..4, proptest::collection::vec(any::<u8>(), 0..30)),
                    0..6,
                ).prop_map(|frames| frames.into_iter().flat_map(|(c, s, k, d)| wire(c, s, k, &d)).collect()),
            ],
            cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let mut whole = Observer::new(&[1, 2]);
            let expected = all(&mut whole, &bytes);
            let mut points: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            points.push(bytes.len());
            points.sort_unstable();
            let (mut observer, mut from, mut seen) = (Observer::new(&[1, 2]), 0, Vec::new());
            let mut broken = false;
            for to in points {
                match all(&mut observer, &bytes[std::mem::replace(&mut from, to)..to]) {
                    Ok(more) => seen.extend(more),
                    Err(_) => broken = true,
                }
                if broken {
                    break;
                }
            }
            match expected {
                Ok(expected) => prop_assert!(!broken && seen == expected),
                Err(_) => prop_assert!(broken),
            }
        }
    }
}
