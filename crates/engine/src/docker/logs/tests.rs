use bytes::BufMut as _;
use proptest::prelude::*;

use super::*;

fn frame(source: u8, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![source, 0, 0, 0];
    bytes.put_u32(u32::try_from(data.len()).unwrap());
    bytes.extend_from_slice(data);
    bytes
}

fn all(demux: &mut Demux, pieces: &[&[u8]]) -> Result<Vec<LogFrame>, String> {
    let mut frames = Vec::new();
    for piece in pieces {
        demux.push(Bytes::copy_from_slice(piece));
        while let Some(frame) = demux.next()? {
            frames.push(frame);
        }
    }
    Ok(frames)
}

#[test]
fn frames_are_told_apart_and_empty_ones_passed_over() {
    let mut input = frame(1, b"out\n");
    input.extend(frame(2, b""));
    input.extend(frame(2, b"err\n"));
    let mut demux = Demux::new(false);
    let frames = all(&mut demux, &[&input]).unwrap();
    let told: Vec<_> = frames
        .iter()
        .map(|it| (it.source, &it.data[..], it.continues))
        .collect();
    assert_eq!(
        told,
        [
            (LogSource::Stdout, &b"out\n"[..], false),
            (LogSource::Stderr, b"err\n", false)
        ]
    );
    assert!(demux.is_between());
}

#[test]
fn a_long_frame_comes_in_pieces_and_is_never_held_whole() {
    let data = vec![b'x'; MAX_FRAME * 2 + 10];
    let mut demux = Demux::new(false);
    let frames = all(&mut demux, &[&frame(1, &data)]).unwrap();
    let told: Vec<_> = frames
        .iter()
        .map(|it| (it.data.len(), it.continues))
        .collect();
    assert_eq!(told, [(MAX_FRAME, false), (MAX_FRAME, true), (10, true)]);
    // A length that no engine sends asks for no memory.
    let mut demux = Demux::new(false);
    let huge = [1, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, b'a'];
    assert_eq!(all(&mut demux, &[&huge]), Ok(vec![]));
    assert!(demux.input.capacity() < MAX_FRAME && !demux.is_between());
}

#[test]
fn what_is_no_frame_is_refused_and_the_engines_own_words_are_told() {
    for bytes in [
        &b"hello world"[..],
        &[4, 0, 0, 0, 0, 0, 0, 0],
        &[1, 1, 0, 0, 0, 0, 0, 0],
    ] {
        assert!(all(&mut Demux::new(false), &[bytes]).is_err());
    }
    let error = all(&mut Demux::new(false), &[&frame(3, b"no log driver")]).unwrap_err();
    assert!(error.contains("no log driver"), "{error}");
}

#[test]
fn the_time_is_taken_off_a_message() {
    let frame = |text: &'static [u8]| LogFrame {
        source: LogSource::Stdout,
        data: Bytes::from_static(text),
        continues: false,
    };
    let (time, rest) = frame(b"1970-01-01T00:00:01Z a b\n").split_time().unwrap();
    assert_eq!((time.as_nanos(), &rest[..]), (1_000_000_000, &b"a b\n"[..]));
    assert_eq!(frame(b"a b\n").split_time(), None);
    assert_eq!(frame(b"").split_time(), None);
}

proptest! {
    #[test]
    fn the_pieces_in_which_it_comes_make_no_difference(
        messages in prop::collection::vec((1u8..3, prop::collection::vec(any::<u8>(), 0..50)), 0..8),
        cuts in prop::collection::vec(1usize..20, 1..40),
    ) {
        let input: Vec<u8> = messages.iter().flat_map(|(source, data)| frame(*source, data)).collect();
        let whole = all(&mut Demux::new(false), &[&input]).unwrap();
        let mut rest = &input[..];
        let mut pieces = Vec::new();
        for cut in cuts.iter().cycle() {
            if rest.is_empty() {
                break;
            }
            let (piece, after) = rest.split_at((*cut).min(rest.len()));
            pieces.push(piece);
            rest = after;
        }
        prop_assert_eq!(all(&mut Demux::new(false), &pieces).unwrap(), whole.clone());
        let expected = messages.iter().filter(|(_, data)| !data.is_empty()).count();
        prop_assert_eq!(whole.len(), expected);
    }

    #[test]
    fn no_bytes_make_it_panic(input in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(all(&mut Demux::new(false), &[&input]));
        drop(all(&mut Demux::new(true), &[&input]));
    }
}
