//! The frames of the multiplexer: several connections in one stream.
//!
//! ```text
//!  0        4        8
//!  +--------+--------+----------------------+
//!  | connid | length | payload (length B)   |
//!  +--------+--------+----------------------+
//!    u32 BE   u32 BE
//! ```
//!
//! There are no frames for opening, closing or acknowledging. Peers written in Go read a
//! connection through a buffer of 4096 bytes and lose the whole trunk when a frame larger than
//! that holds anything but the rest of one message, or when 256 frames wait unread. A message is
//! therefore written as one frame of at most [`FIRST`] bytes, and one more with all the rest.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::error::CloseReason;
use crate::frame;

/// Length of a header in bytes.
pub(crate) const HEADER: usize = 8;

/// The most payload a frame may hold, in bytes: a whole message of ttrpc with its header.
pub const MAX_PAYLOAD: usize = frame::MAX_DATA + frame::HEADER;

/// The most payload of the first frame of a message, in bytes.
pub(crate) const FIRST: usize = 4096;

/// A payload of at most so many bytes is copied out: it would else keep the whole buffer, and the next read would
/// need another.
const COPIED: usize = 1024;

/// Takes the next whole frame of at most `max` bytes off `buffer`; `None` when more bytes are
/// needed, for which room is made.
///
/// # Errors
/// [`CloseReason::FrameTooLarge`], before anything is allocated for the frame.
pub(crate) fn next_frame(
    buffer: &mut BytesMut,
    max: usize,
) -> Result<Option<(u32, Bytes)>, CloseReason> {
    if buffer.len() < HEADER {
        return Ok(None);
    }
    let mut header = &buffer[..HEADER];
    let (connection, length) = (header.get_u32(), header.get_u32() as usize);
    if length > max {
        return Err(CloseReason::FrameTooLarge {
            connection,
            length,
            max,
        });
    }
    if buffer.len() < HEADER + length {
        buffer.reserve(HEADER + length - buffer.len());
        return Ok(None);
    }
    buffer.advance(HEADER);
    if length > COPIED {
        return Ok(Some((connection, buffer.split_to(length).freeze())));
    }
    let payload = Bytes::copy_from_slice(&buffer[..length]);
    buffer.advance(length);
    Ok(Some((connection, payload)))
}

/// The chunks to write for a message that was encoded behind [`HEADER`] spare bytes.
pub(crate) fn frames(connection: u32, mut message: BytesMut) -> impl Iterator<Item = Bytes> {
    let length = message.len() - HEADER;
    let first = length.min(FIRST);
    message[..HEADER].copy_from_slice(&header(connection, first));
    let rest = (length > FIRST).then(|| message.split_off(HEADER + FIRST).freeze());
    let rest = rest.into_iter().flat_map(move |rest| {
        [
            Bytes::copy_from_slice(&header(connection, rest.len())),
            rest,
        ]
    });
    std::iter::once(message.freeze()).chain(rest)
}

fn header(connection: u32, length: usize) -> [u8; HEADER] {
    let mut bytes = [0; HEADER];
    let mut writer = bytes.as_mut_slice();
    writer.put_u32(connection);
    // No message is longer than MAX_PAYLOAD.
    writer.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(length: usize) -> BytesMut {
        let mut message = BytesMut::zeroed(HEADER);
        message.extend((0..length).map(|n| u8::try_from(n % 251).unwrap()));
        message
    }

    fn lengths(length: usize) -> Vec<usize> {
        let mut wire = BytesMut::new();
        frames(1, message(length)).for_each(|chunk| wire.extend_from_slice(&chunk));
        let mut lengths = Vec::new();
        let mut payload = BytesMut::new();
        while let Some((connection, frame)) = next_frame(&mut wire, MAX_PAYLOAD).unwrap() {
            assert_eq!(connection, 1);
            lengths.push(frame.len());
            payload.extend_from_slice(&frame);
        }
        assert_eq!(payload, message(length)[HEADER..], "nothing is lost");
        lengths
    }

    #[test]
    fn rows_246_247_a_message_is_at_most_two_frames_and_the_first_fits_a_go_buffer() {
        for (length, expected) in [
            (10, vec![10]),
            (4096, vec![4096]),
            (4097, vec![4096, 1]),
            (5061, vec![4096, 965]),
            (100_063, vec![4096, 95_967]),
            (MAX_PAYLOAD, vec![4096, MAX_PAYLOAD - 4096]),
        ] {
            assert_eq!(lengths(length), expected);
        }
    }

    #[test]
    fn a_frame_over_the_limit_is_refused_before_it_is_allocated() {
        let mut buffer = BytesMut::from(&header(2, MAX_PAYLOAD + 1)[..]);
        let refused = next_frame(&mut buffer, MAX_PAYLOAD);
        let expected = MAX_PAYLOAD + 1;
        assert!(
            matches!(refused, Err(CloseReason::FrameTooLarge { connection: 2, length, .. }) if length == expected)
        );
        assert!(buffer.capacity() < 4096);
    }

    #[test]
    fn an_answer_that_is_kept_leaves_the_buffer_to_the_next_read() {
        let mut buffer = BytesMut::with_capacity(8192);
        let place = buffer.as_ptr();
        let mut kept = Vec::new();
        for _ in 0..100 {
            frames(1, message(COPIED)).for_each(|chunk| buffer.extend_from_slice(&chunk));
            kept.push(next_frame(&mut buffer, MAX_PAYLOAD).unwrap().unwrap().1);
            buffer.reserve(8192);
        }
        assert!(
            kept.iter()
                .all(|payload| payload == &message(COPIED)[HEADER..])
        );
        assert_eq!(buffer.as_ptr(), place);
    }

    #[test]
    fn an_empty_frame_is_a_frame() {
        let mut buffer = BytesMut::from(&header(1, 0)[..]);
        assert_eq!(
            next_frame(&mut buffer, MAX_PAYLOAD).unwrap(),
            Some((1, Bytes::new()))
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let mut buffer = BytesMut::from(bytes.as_slice());
            while let Ok(Some((_, payload))) = next_frame(&mut buffer, MAX_PAYLOAD) {
                prop_assert!(payload.len() <= bytes.len());
            }
        }
    }
}
