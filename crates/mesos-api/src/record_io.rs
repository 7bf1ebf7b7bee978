//! RecordIO, the framing of Mesos' streams: the length in decimal ASCII, a line feed, that many
//! bytes, and at once the next record. An empty record is legal (Mesos API, "RecordIO response
//! format").
//!
//! ```text
//!            digits        '\n', length = 0: a record
//!         .---------.   .------------------.
//!         v         |   v                  |
//!        Length ----+-> Body(n) -- n bytes: a record --> Length
//!           |  anything else, or a length over the limit
//!           '--> Failed (for good: the stream has lost its frame)
//! ```

use bytes::{BufMut, Bytes, BytesMut};

/// Why a stream cannot be read any further.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecordIoError {
    /// A length is not decimal digits and a line feed.
    #[error("record {record} has no valid length: found byte 0x{byte:02x}")]
    BadLength {
        /// Number of the record, from 0.
        record: u64,
        /// The byte that does not belong there.
        byte: u8,
    },
    /// A record is longer than the decoder's limit.
    #[error("record {record} is over the limit of {limit} bytes")]
    TooLarge {
        /// Number of the record, from 0.
        record: u64,
        /// The limit in bytes.
        limit: usize,
    },
    /// The stream ended inside a record.
    #[error("the stream ended inside record {record}")]
    Truncated {
        /// Number of the record, from 0.
        record: u64,
    },
}

/// Writes records.
#[derive(Debug, Clone, Copy, Default)]
pub struct Encoder;

impl Encoder {
    /// Appends `record` with its length to `out`.
    pub fn encode(&self, record: &[u8], out: &mut BytesMut) {
        let length = record.len().to_string();
        out.reserve(length.len() + 1 + record.len());
        out.put_slice(length.as_bytes());
        out.put_u8(b'\n');
        out.put_slice(record);
    }

    /// `record` with its length.
    #[must_use]
    pub fn to_bytes(&self, record: &[u8]) -> Bytes {
        let mut out = BytesMut::new();
        self.encode(record, &mut out);
        out.freeze()
    }
}

/// Reads records from chunks that may be cut anywhere.
///
/// It buffers at most one record, never more than its limit; a length over the limit is refused
/// before anything of that record is kept. After an error it stays failed.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    record: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Digits so far: none yet, or their value.
    Length(Option<usize>),
    Body {
        length: usize,
        bytes: BytesMut,
    },
    Failed(RecordIoError),
}

/// A record's buffer starts at most this large and grows with what arrives.
const FIRST_CAPACITY: usize = 64 << 10;

impl Decoder {
    /// A decoder that refuses records over `max_record` bytes.
    #[must_use]
    pub fn new(max_record: usize) -> Self {
        Self {
            limit: max_record,
            record: 0,
            state: State::Length(None),
        }
    }

    /// Takes the next record out of `chunk` and moves `chunk` past what was used; `None` means
    /// that all of `chunk` was used and the record is not whole yet.
    ///
    /// # Errors
    /// [`RecordIoError`], the same one for ever after.
    pub fn next(&mut self, chunk: &mut &[u8]) -> Result<Option<Bytes>, RecordIoError> {
        loop {
            match &mut self.state {
                State::Failed(error) => return Err(error.clone()),
                State::Length(so_far) => {
                    let Some((&byte, rest)) = chunk.split_first() else {
                        return Ok(None);
                    };
                    match (byte, *so_far) {
                        (b'0'..=b'9', _) => {
                            let value = so_far
                                .unwrap_or(0)
                                .checked_mul(10)
                                .and_then(|value| value.checked_add(usize::from(byte - b'0')))
                                .filter(|value| *value <= self.limit);
                            if value.is_none() {
                                return self.fail(RecordIoError::TooLarge {
                                    record: self.record,
                                    limit: self.limit,
                                });
                            }
                            *so_far = value;
                        }
                        (b'\n', Some(length)) => {
                            let bytes = BytesMut::with_capacity(length.min(FIRST_CAPACITY));
                            self.state = State::Body { length, bytes };
                        }
                        _ => {
                            return self.fail(RecordIoError::BadLength {
                                record: self.record,
                                byte,
                            });
                        }
                    }
                    *chunk = rest;
                }
                State::Body { length, bytes } => {
                    let wanted = length.saturating_sub(bytes.len()).min(chunk.len());
                    let (now, rest) = chunk.split_at(wanted);
                    bytes.extend_from_slice(now);
                    *chunk = rest;
                    if bytes.len() < *length {
                        return Ok(None);
                    }
                    let whole = std::mem::take(bytes).freeze();
                    self.state = State::Length(None);
                    self.record += 1;
                    return Ok(Some(whole));
                }
            }
        }
    }

    /// All records that `chunk` completes. The caller bounds a chunk, and with it their number.
    ///
    /// # Errors
    /// [`RecordIoError`]; records before the fault in the same chunk are lost with it, use
    /// [`Decoder::next`] to have them.
    pub fn feed(&mut self, mut chunk: &[u8]) -> Result<Vec<Bytes>, RecordIoError> {
        let mut records = Vec::new();
        while let Some(record) = self.next(&mut chunk)? {
            records.push(record);
        }
        Ok(records)
    }

    /// To be called at the end of the stream.
    ///
    /// # Errors
    /// [`RecordIoError::Truncated`] if a record is unfinished, or the earlier error.
    pub fn finish(&self) -> Result<(), RecordIoError> {
        match &self.state {
            State::Length(None) => Ok(()),
            State::Failed(error) => Err(error.clone()),
            State::Length(Some(_)) | State::Body { .. } => Err(RecordIoError::Truncated {
                record: self.record,
            }),
        }
    }

    fn fail<T>(&mut self, error: RecordIoError) -> Result<T, RecordIoError> {
        self.state = State::Failed(error.clone());
        Err(error)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const STREAM: &[u8] = b"5\nhello0\n012\n{\"type\":\n\"A}1\n\n";
    const RECORDS: &[&[u8]] = &[b"hello", b"", b"{\"type\":\n\"A}", b"\n"];

    #[test]
    fn ex17_records_come_out_whole_at_every_split_point() {
        for first in 0..=STREAM.len() {
            for second in first..=STREAM.len() {
                let mut decoder = Decoder::new(100);
                let mut records = decoder.feed(&STREAM[..first]).unwrap();
                records.extend(decoder.feed(&STREAM[first..second]).unwrap());
                records.extend(decoder.feed(&STREAM[second..]).unwrap());
                assert_eq!(records, RECORDS, "split at {first} and {second}");
                assert_eq!(decoder.finish(), Ok(()));
            }
        }
    }

    #[test]
    fn ex17_records_come_out_byte_by_byte_and_all_at_once() {
        let mut decoder = Decoder::new(100);
        let mut records = Vec::new();
        for byte in STREAM.chunks(1) {
            records.extend(decoder.feed(byte).unwrap());
        }
        assert_eq!(records, RECORDS);
        assert_eq!(Decoder::new(100).feed(STREAM).unwrap(), RECORDS);
    }

    #[test]
    fn ex17_a_bad_length_is_a_permanent_error() {
        for (bad, byte) in [
            (&b"\n"[..], b'\n'),
            (b"-1\n", b'-'),
            (b"+1\n", b'+'),
            (b" 1\n", b' '),
            (b"1 \n", b' '),
            (b"1\r\n", b'\r'),
            (b"0x1\n", b'x'),
            (b"{}", b'{'),
        ] {
            for split in 0..=bad.len() {
                let mut decoder = Decoder::new(100);
                let found = decoder
                    .feed(b"2\nab")
                    .and_then(|_| decoder.feed(&bad[..split]))
                    .and_then(|_| decoder.feed(&bad[split..]));
                let error = RecordIoError::BadLength { record: 1, byte };
                assert_eq!(found, Err(error.clone()), "{bad:?} at {split}");
                assert_eq!(decoder.feed(b"2\nab"), Err(error.clone()));
                assert_eq!(decoder.finish(), Err(error));
            }
        }
    }

    #[test]
    fn a_length_over_the_limit_is_refused_before_its_record_is_buffered() {
        let error = Err(RecordIoError::TooLarge {
            record: 0,
            limit: 9,
        });
        assert_eq!(Decoder::new(9).feed(b"10"), error);
        assert_eq!(Decoder::new(9).feed(b"99999999999999999999999999"), error);
        assert_eq!(
            Decoder::new(9).feed(b"009\n123456789").unwrap(),
            [&b"123456789"[..]]
        );
    }

    #[test]
    fn an_end_inside_a_record_is_told_from_an_end_between_records() {
        for (stream, whole) in [
            (&b""[..], true),
            (b"1\na", true),
            (b"1", false),
            (b"2\na", false),
        ] {
            let mut decoder = Decoder::new(10);
            decoder.feed(stream).unwrap();
            assert_eq!(decoder.finish().is_ok(), whole, "{stream:?}");
        }
    }

    #[test]
    fn records_before_a_fault_in_the_same_chunk_can_be_had_one_by_one() {
        let mut decoder = Decoder::new(10);
        let mut chunk = &b"1\nax"[..];
        assert_eq!(decoder.next(&mut chunk), Ok(Some(Bytes::from_static(b"a"))));
        assert!(decoder.next(&mut chunk).is_err());
    }

    proptest! {
        #[test]
        fn what_the_encoder_writes_the_decoder_reads(
            records in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..50), 0..10),
            size in 1usize..40,
        ) {
            let mut stream = BytesMut::new();
            for record in &records {
                Encoder.encode(record, &mut stream);
            }
            let mut decoder = Decoder::new(50);
            let mut read = Vec::new();
            for chunk in stream.chunks(size) {
                read.extend(decoder.feed(chunk).unwrap());
            }
            prop_assert_eq!(read, records);
            prop_assert_eq!(decoder.finish(), Ok(()));
        }

        #[test]
        fn arbitrary_streams_never_panic_nor_buffer_more_than_the_limit(
            stream in proptest::collection::vec(prop_oneof![Just(b'\n'), b'0'..=b'9', any::<u8>()], 0..200),
        ) {
            let mut decoder = Decoder::new(16);
            for chunk in stream.chunks(7) {
                for record in decoder.feed(chunk).unwrap_or_default() {
                    prop_assert!(record.len() <= 16);
                }
            }
            drop(decoder.finish());
        }
    }
}
