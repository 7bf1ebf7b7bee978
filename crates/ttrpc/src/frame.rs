//! The frames of ttrpc: a 10-byte header and up to 4 MiB of data.
//!
//! ```text
//!  0        4          8      9      10
//!  +--------+----------+------+------+-----------------+
//!  | length | streamid | type | flags| data (length B) |
//!  +--------+----------+------+------+-----------------+
//!    u32 BE   u32 BE     u8     u8
//! ```

use bytes::{Buf, Bytes, BytesMut};

/// Length of a header in bytes.
pub(crate) const HEADER: usize = 10;

/// The most data a frame may hold, in bytes (4 MiB), as everywhere in ttrpc.
pub const MAX_DATA: usize = 4 << 20;

/// A client asks.
pub(crate) const REQUEST: u8 = 1;

/// A server answers.
pub(crate) const RESPONSE: u8 = 2;

/// A piece of a stream; unary peers send none.
pub(crate) const DATA: u8 = 3;

/// What a header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) length: u32,
    pub(crate) stream: u32,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
}

impl Header {
    pub(crate) fn to_bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[..4].copy_from_slice(&self.length.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.stream.to_be_bytes());
        bytes[8] = self.kind;
        bytes[9] = self.flags;
        bytes
    }

    fn parse(mut bytes: &[u8]) -> Self {
        let (length, stream) = (bytes.get_u32(), bytes.get_u32());
        Self {
            length,
            stream,
            kind: bytes.get_u8(),
            flags: bytes.get_u8(),
        }
    }
}

/// What comes out of the decoder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Inbound {
    /// A whole frame.
    Frame { stream: u32, kind: u8, data: Bytes },
    /// A frame whose data is over the limit; the data is skipped.
    Oversized {
        stream: u32,
        kind: u8,
        length: usize,
    },
}

/// Cuts a stream of bytes into frames. Holds at most one frame that is not complete.
#[derive(Debug, Default)]
pub(crate) struct FrameDecoder {
    partial: BytesMut,
    /// Data of an oversized frame still to be dropped.
    skip: usize,
}

impl FrameDecoder {
    /// Whether the bytes seen so far end between two frames.
    pub(crate) fn is_between_frames(&self) -> bool {
        self.partial.is_empty() && self.skip == 0
    }

    /// Takes the next bytes; calls `each` for every frame that is complete. Data over
    /// `limit(kind)` is never stored.
    pub(crate) fn push(
        &mut self,
        mut chunk: Bytes,
        limit: impl Fn(u8) -> usize,
        mut each: impl FnMut(Inbound),
    ) {
        while !chunk.is_empty() {
            if self.skip > 0 {
                let dropped = self.skip.min(chunk.len());
                chunk.advance(dropped);
                self.skip -= dropped;
                continue;
            }
            if self.partial.is_empty() && chunk.len() >= HEADER {
                let header = Header::parse(&chunk[..HEADER]);
                let length = header.length as usize;
                if length > limit(header.kind) {
                    chunk.advance(HEADER);
                    self.oversized(header, &mut each);
                    continue;
                }
                if chunk.len() >= HEADER + length {
                    chunk.advance(HEADER);
                    let data = chunk.split_to(length);
                    each(Inbound::Frame {
                        stream: header.stream,
                        kind: header.kind,
                        data,
                    });
                    continue;
                }
            }
            self.collect(&mut chunk, &limit, &mut each);
        }
    }

    /// Moves bytes of `chunk` to the partial frame: first its header, then its data.
    fn collect(
        &mut self,
        chunk: &mut Bytes,
        limit: &impl Fn(u8) -> usize,
        each: &mut impl FnMut(Inbound),
    ) {
        if self.partial.len() < HEADER {
            take(chunk, &mut self.partial, HEADER);
            if self.partial.len() < HEADER {
                return;
            }
        }
        let header = Header::parse(&self.partial);
        let length = header.length as usize;
        if length > limit(header.kind) {
            self.partial.clear();
            self.oversized(header, each);
            return;
        }
        take(chunk, &mut self.partial, HEADER + length);
        if self.partial.len() == HEADER + length {
            let mut data = std::mem::take(&mut self.partial).freeze();
            data.advance(HEADER);
            each(Inbound::Frame {
                stream: header.stream,
                kind: header.kind,
                data,
            });
        }
    }

    fn oversized(&mut self, header: Header, each: &mut impl FnMut(Inbound)) {
        self.skip = header.length as usize;
        let Header {
            length,
            stream,
            kind,
            ..
        } = header;
        each(Inbound::Oversized {
            stream,
            kind,
            length: length as usize,
        });
    }
}

/// Moves bytes until `to` holds `wanted`, or `from` is empty.
fn take(from: &mut Bytes, to: &mut BytesMut, wanted: usize) {
    let count = (wanted - to.len()).min(from.len());
    to.extend_from_slice(&from.split_to(count));
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(stream: u32, kind: u8, data: &[u8]) -> Vec<u8> {
        let length = u32::try_from(data.len()).unwrap();
        let mut bytes = Header {
            length,
            stream,
            kind,
            flags: 0,
        }
        .to_bytes()
        .to_vec();
        bytes.extend_from_slice(data);
        bytes
    }

    fn decode(chunks: &[&[u8]], limit: usize) -> (Vec<Inbound>, bool) {
        let mut decoder = FrameDecoder::default();
        let mut seen = Vec::new();
        for chunk in chunks {
            decoder.push(
                Bytes::copy_from_slice(chunk),
                |_| limit,
                |inbound| seen.push(inbound),
            );
        }
        (seen, decoder.is_between_frames())
    }

    #[test]
    fn a_success_without_payload_is_a_bare_header() {
        let bytes = [0, 0, 0, 0, 0, 0, 0, 1, 2, 0];
        let (seen, done) = decode(&[&bytes], MAX_DATA);
        assert_eq!(
            seen,
            [Inbound::Frame {
                stream: 1,
                kind: RESPONSE,
                data: Bytes::new()
            }]
        );
        assert!(done);
    }

    #[test]
    fn data_over_the_limit_is_skipped_at_every_split() {
        let mut bytes = frame(1, REQUEST, &[7; 40]);
        bytes.extend(frame(3, REQUEST, b"next"));
        for split in 0..=bytes.len() {
            let (seen, done) = decode(&[&bytes[..split], &bytes[split..]], 39);
            let next = Bytes::from_static(b"next");
            assert_eq!(
                seen,
                [
                    Inbound::Oversized {
                        stream: 1,
                        kind: REQUEST,
                        length: 40
                    },
                    Inbound::Frame {
                        stream: 3,
                        kind: REQUEST,
                        data: next
                    },
                ]
            );
            assert!(done);
        }
    }

    #[test]
    fn an_announced_4_gib_is_not_allocated() {
        let header = Header {
            length: u32::MAX,
            stream: 1,
            kind: RESPONSE,
            flags: 0,
        };
        let mut decoder = FrameDecoder::default();
        let mut seen = 0;
        decoder.push(
            Bytes::copy_from_slice(&header.to_bytes()),
            |_| MAX_DATA,
            |_| seen += 1,
        );
        assert_eq!((seen, decoder.partial.capacity()), (1, 0));
    }

    proptest! {
        #[test]
        fn any_split_gives_the_same_frames(
            frames in proptest::collection::vec((any::<u32>(), any::<u8>(), proptest::collection::vec(any::<u8>(), 0..60)), 0..6),
            mut splits in proptest::collection::vec(any::<prop::sample::Index>(), 0..12),
        ) {
            let mut bytes = Vec::new();
            let mut expected = Vec::new();
            for (stream, kind, data) in &frames {
                bytes.extend(frame(*stream, *kind, data));
                expected.push(Inbound::Frame { stream: *stream, kind: *kind, data: data.clone().into() });
            }
            let mut points: Vec<usize> = splits.drain(..).map(|split| split.index(bytes.len() + 1)).collect();
            points.sort_unstable();
            points.push(bytes.len());
            let mut start = 0;
            let chunks: Vec<&[u8]> = points.into_iter().map(|end| { let chunk = &bytes[start..end]; start = end; chunk }).collect();
            let (seen, done) = decode(&chunks, MAX_DATA);
            prop_assert_eq!(seen, expected);
            prop_assert!(done);
        }

        #[test]
        fn no_bytes_make_it_panic_or_store_more_than_a_frame(
            chunks in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..10),
        ) {
            let mut decoder = FrameDecoder::default();
            for chunk in chunks {
                decoder.push(chunk.into(), |_| 64, |_| {});
                prop_assert!(decoder.partial.len() <= 64 + HEADER);
            }
        }
    }
}
