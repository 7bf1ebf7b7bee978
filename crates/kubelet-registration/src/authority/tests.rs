use proptest::prelude::*;
use tokio::io::AsyncReadExt as _;

use super::*;

/// HEADERS with these fields, as literals that enter the table; in Huffman's code or not.
fn headers(fields: &[(&str, &str)], huffman: bool) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        match *name {
            ":authority" => block.push(0x41),
            name => {
                block.push(0x40);
                text(&mut block, name, huffman);
            }
        }
        text(&mut block, value, huffman);
    }
    frame(HEADERS, END_HEADERS, &block)
}

fn text(block: &mut Vec<u8>, text: &str, huffman: bool) {
    let bytes = if huffman {
        let mut bits = Bits::default();
        for byte in text.bytes() {
            let (code, length) = code(byte).unwrap();
            bits.push(code, length);
        }
        bits.finish()
    } else {
        text.as_bytes().to_vec()
    };
    let mark = if huffman { 0x80 } else { 0 };
    if bytes.len() < 127 {
        block.push(mark | u8::try_from(bytes.len()).unwrap());
    } else {
        block.push(mark | 127);
        let mut rest = bytes.len() - 127;
        while rest >= 128 {
            block.push(0x80 | u8::try_from(rest % 128).unwrap());
            rest /= 128;
        }
        block.push(u8::try_from(rest).unwrap());
    }
    block.extend(bytes);
}

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = vec![a, b, c, kind, flags, 0, 0, 0, 1];
    frame.extend(payload);
    frame
}

/// What comes out of a connection into which this went, in pieces.
async fn through(bytes: &[u8], piece: usize) -> io::Result<Vec<u8>> {
    let mut builder = Pieces::default();
    builder.0.extend(bytes.chunks(piece).map(<[u8]>::to_vec));
    let mut out = Vec::new();
    Authority::new(builder, ()).read_to_end(&mut out).await?;
    Ok(out)
}

#[derive(Default)]
struct Pieces(std::collections::VecDeque<Vec<u8>>);

impl AsyncRead for Pieces {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Some(piece) = self.0.pop_front() {
            buf.put_slice(&piece);
        }
        Poll::Ready(Ok(()))
    }
}

const HELLO: &[u8; PREFACE] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

#[tokio::test]
async fn a_path_for_an_authority_becomes_one_of_the_same_length_and_all_else_stays() {
    let table = [
        ("/var/lib/kubelet/x-reg.sock", "-var-lib-kubelet-x-reg.sock"),
        ("%2Fvar%2Flib%2Fx-reg.sock", "-2Fvar-2Flib-2Fx-reg.sock"),
        ("/a:b&c[d", "-aBbXc~d"),
        ("localhost", "localhost"),
        ("node:80", "node:80"),
    ];
    for (given, expected) in table {
        for huffman in [true, false] {
            let expected = if huffman {
                expected.to_owned()
            } else {
                expected.replace(['B', 'X', '~'], "-")
            };
            let settings = frame(4, 0, &[0; 12]);
            let data = frame(0, 1, b"%2F/%2F");
            let around = |authority: &str| {
                let fields = [
                    (":path", "/pluginregistration.Registration/GetInfo"),
                    (":authority", authority),
                    ("user-agent", "grpc-go/1.83.1"),
                ];
                let headers = headers(&fields, huffman);
                [HELLO.as_slice(), &settings, &headers, &data].concat()
            };
            for piece in [1, 7, 4096] {
                let out = through(&around(given), piece).await.unwrap();
                assert_eq!(out, around(&expected), "{given} {huffman} {piece}");
            }
        }
    }
}

#[tokio::test]
async fn padding_priority_and_a_spelled_name_are_understood() {
    for huffman in [true, false] {
        let block = |value: &str| {
            // The size of the table, an indexed field, then the name in full, never to be kept.
            let mut block = vec![0x20, 0x82, 0x10];
            text(&mut block, ":authority", huffman);
            text(&mut block, value, huffman);
            let mut payload = vec![3, 0, 0, 0, 0, 9];
            payload.extend(block);
            payload.extend([0, 0, 0]);
            let flags = END_HEADERS | PADDED | PRIORITY;
            [HELLO.as_slice(), &frame(HEADERS, flags, &payload)].concat()
        };
        let out = through(&block("/a/b"), 5).await.unwrap();
        assert_eq!(out, block("-a-b"));
    }
}

#[tokio::test]
async fn a_header_block_that_cannot_be_seen_as_a_whole_is_refused() {
    let table = [
        frame(HEADERS, 0, &[0x82]),
        frame(CONTINUATION, END_HEADERS, &[0x82]),
        frame(HEADERS, END_HEADERS, &vec![0; FRAME_MAX + 1]),
    ];
    for frame in table {
        let sent = [HELLO.as_slice(), &frame].concat();
        let error = through(&sent, 4096).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}

proptest! {
    #[test]
    fn whatever_comes_its_length_stays_and_nothing_panics(
        payload in proptest::collection::vec(any::<u8>(), 0..200),
        flags: u8,
        piece in 1..64usize,
    ) {
        let frame = frame(HEADERS, flags | END_HEADERS, &payload);
        let sent = [HELLO.as_slice(), &frame, &frame].concat();
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let out = runtime.block_on(through(&sent, piece)).unwrap();
        prop_assert_eq!(out.len(), sent.len());
    }

    #[test]
    fn the_code_is_read_as_it_was_written(text in "[ -~]{0,80}") {
        let mut bits = Bits::default();
        for byte in text.bytes() {
            let (code, length) = code(byte).unwrap();
            bits.push(code, length);
        }
        prop_assert_eq!(decode(&bits.finish()), Some(text.into_bytes()));
    }
}
