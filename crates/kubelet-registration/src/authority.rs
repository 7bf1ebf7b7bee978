//! `:authority` as kubelet sends it, made acceptable.
//!
//! Kubelet dials a registration socket by its bare path, and Go's gRPC then names that path as the authority of each
//! request: `%2Fvar%2Flib%2Fkubelet%2F..`, in earlier releases `/var/lib/..`. Neither is an authority (RFC 3986), and
//! h2, below tonic, resets such a request. Nobody looks at the value, so it is changed before h2 sees it: each byte
//! that is not allowed becomes another one whose code is as long. Lengths stay, so frames stay as they are, and so
//! does the account of the table of headers (RFC 7541, 4.1) that both sides keep.
//!
//! ```text
//!   preface ──► frame header ──► HEADERS: as a whole, changed ──► on
//!                   ▲     └────► any other: on, as it comes ──┐
//!                   └─────────────────────────────────────────┘
//! ```

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

/// What a client of HTTP/2 says first (RFC 9113, 3.4).
const PREFACE: usize = 24;
const FRAME_HEADER: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;
const END_HEADERS: u8 = 0x4;
/// The largest frame that a server takes which does not say otherwise (RFC 9113, 6.5.2).
const FRAME_MAX: usize = 16 * 1024;
/// Of `:authority` in the static table (RFC 7541, appendix A).
const AUTHORITY: usize = 1;

/// A connection whose requests name an authority that can be one.
#[derive(Debug)]
pub(crate) struct Authority<S, K> {
    stream: S,
    rewriter: Rewriter,
    /// The other side has said all.
    ended: bool,
    /// What is kept for as long as the connection.
    _kept: K,
}

impl<S, K> Authority<S, K> {
    pub(crate) fn new(stream: S, kept: K) -> Self {
        Self {
            stream,
            rewriter: Rewriter::default(),
            ended: false,
            _kept: kept,
        }
    }
}

impl<S, K> Connected for Authority<S, K> {
    type ConnectInfo = ();

    fn connect_info(&self) -> Self::ConnectInfo {}
}

impl<S: AsyncRead + Unpin, K: Unpin> AsyncRead for Authority<S, K> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            if this.rewriter.take(buf) || this.ended || buf.remaining() == 0 {
                return Poll::Ready(Ok(()));
            }
            let mut chunk = [0; 4096];
            let mut read = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut this.stream).poll_read(cx, &mut read))?;
            this.ended = read.filled().is_empty();
            this.rewriter.feed(read.filled())?;
        }
    }
}

impl<S: AsyncWrite + Unpin, K: Unpin> AsyncWrite for Authority<S, K> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The bytes of one connection on their way.
#[derive(Debug)]
struct Rewriter {
    /// Not looked at yet: less than a frame's header, or a part of HEADERS.
    raw: Vec<u8>,
    /// How much of what comes is passed on unseen.
    pass: usize,
    /// To be read.
    out: Vec<u8>,
    taken: usize,
}

impl Default for Rewriter {
    fn default() -> Self {
        Self {
            raw: Vec::new(),
            pass: PREFACE,
            out: Vec::new(),
            taken: 0,
        }
    }
}

impl Rewriter {
    /// Whether there was something.
    fn take(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        let rest = self.out.get(self.taken..).unwrap_or_default();
        let some = rest.get(..buf.remaining()).unwrap_or(rest);
        if some.is_empty() {
            return false;
        }
        buf.put_slice(some);
        self.taken += some.len();
        if self.taken == self.out.len() {
            self.out.clear();
            self.taken = 0;
        }
        true
    }

    fn feed(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.raw.extend_from_slice(bytes);
        loop {
            let passed = self.pass.min(self.raw.len());
            self.out.extend(self.raw.drain(..passed));
            self.pass -= passed;
            let Some(head) = self.raw.first_chunk::<FRAME_HEADER>() else {
                return Ok(());
            };
            let [a, b, c, kind, flags, ..] = *head;
            let length = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
            if kind != HEADERS {
                // What belongs to HEADERS that were passed on already cannot be changed any more.
                if kind == CONTINUATION {
                    return Err(refused("a header block in several frames"));
                }
                self.pass = FRAME_HEADER + length;
                continue;
            }
            if length > FRAME_MAX {
                return Err(refused("a frame of more than 16 KiB"));
            }
            if flags & END_HEADERS == 0 {
                return Err(refused("a header block in several frames"));
            }
            let Some(frame) = self.raw.get_mut(..FRAME_HEADER + length) else {
                return Ok(());
            };
            let payload = frame.get_mut(FRAME_HEADER..).unwrap_or_default();
            if let Some(block) = block(payload, flags) {
                change(block);
            }
            self.pass = FRAME_HEADER + length;
        }
    }
}

fn refused(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// The header block of HEADERS, without padding and priority.
fn block(payload: &mut [u8], flags: u8) -> Option<&mut [u8]> {
    let (mut from, mut to) = (0, payload.len());
    if flags & PADDED != 0 {
        let padding = usize::from(*payload.first()?);
        from += 1;
        to = to.checked_sub(padding)?;
    }
    if flags & PRIORITY != 0 {
        from += 5;
    }
    payload.get_mut(from..to)
}

/// Changes the authority in a header block. What is not understood is left as it is: h2 judges it.
fn change(block: &mut [u8]) -> Option<()> {
    let mut at = 0;
    while at < block.len() {
        let first = *block.get(at)?;
        // RFC 7541, 6: an indexed field; the size of the table; literals, with and without a place in it.
        let (prefix, literal) = match first {
            0x80.. => (7, false),
            0x40..0x80 => (6, true),
            0x20..0x40 => (5, false),
            _ => (4, true),
        };
        let index = integer(block, &mut at, prefix)?;
        if !literal {
            continue;
        }
        let mut ours = index == AUTHORITY;
        if index == 0 {
            let (huffman, from, to) = string(block, &mut at)?;
            let name = block.get(from..to)?;
            ours = if huffman {
                decode(name)? == b":authority"
            } else {
                name == b":authority"
            };
        }
        let (huffman, from, to) = string(block, &mut at)?;
        if ours {
            let value = block.get_mut(from..to)?;
            if huffman {
                change_huffman(value)?;
            } else if value.iter().any(|byte| matches!(byte, b'/' | b'%')) {
                value
                    .iter_mut()
                    .filter(|byte| !is_plain(**byte))
                    .for_each(|byte| *byte = b'-');
            }
        }
    }
    Some(())
}

/// RFC 7541, 5.1.
fn integer(block: &[u8], at: &mut usize, prefix: u32) -> Option<usize> {
    let max = (1usize << prefix) - 1;
    let mut value = usize::from(*block.get(*at)?) & max;
    *at += 1;
    if value < max {
        return Some(value);
    }
    for shift in [0, 7, 14] {
        let byte = *block.get(*at)?;
        *at += 1;
        value += usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// RFC 7541, 5.2: whether it is in Huffman's code, and where it is.
fn string(block: &[u8], at: &mut usize) -> Option<(bool, usize, usize)> {
    let huffman = block.get(*at)? & 0x80 != 0;
    let length = integer(block, at, 7)?;
    let from = *at;
    *at = from.checked_add(length)?;
    (*at <= block.len()).then_some((huffman, from, *at))
}

const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// A plain byte whose code is as long as that of one that is not.
fn instead(byte: u8) -> Option<u8> {
    match code(byte)?.1 {
        5 => Some(b'0'),
        6 => Some(b'-'),
        7 => Some(b'B'),
        8 => Some(b'X'),
        13 => Some(b'~'),
        // Longer ones have letters that no path in a request has unescaped.
        _ => None,
    }
}

fn change_huffman(value: &mut [u8]) -> Option<()> {
    let text = decode(value)?;
    if !text.iter().any(|byte| matches!(byte, b'/' | b'%')) {
        return Some(());
    }
    let mut bits = Bits::default();
    for byte in text {
        let byte = if is_plain(byte) { byte } else { instead(byte)? };
        let (code, length) = code(byte)?;
        bits.push(code, length);
    }
    let coded = bits.finish();
    if coded.len() == value.len() {
        value.copy_from_slice(&coded);
    }
    Some(())
}

/// Bits one after the other, the first one the highest of its byte.
#[derive(Debug, Default)]
struct Bits {
    bytes: Vec<u8>,
    free: u32,
}

impl Bits {
    fn push(&mut self, code: u32, length: u32) {
        for at in (0..length).rev() {
            if self.free == 0 {
                self.bytes.push(0);
                self.free = 8;
            }
            self.free -= 1;
            if let Some(last) = self.bytes.last_mut()
                && (code >> at) & 1 == 1
            {
                *last |= 1 << self.free;
            }
        }
    }

    /// Filled up with ones, as the code wants it.
    fn finish(mut self) -> Vec<u8> {
        if let Some(last) = self.bytes.last_mut() {
            *last |= (1u8 << self.free) - 1;
        }
        self.bytes
    }
}

/// A text of printable ASCII; `None` for every other.
fn decode(coded: &[u8]) -> Option<Vec<u8>> {
    let (mut text, mut code, mut length) = (Vec::new(), 0u32, 0u32);
    for byte in coded {
        for at in (0..8).rev() {
            code = code << 1 | u32::from(byte >> at & 1);
            length += 1;
            if let Some(found) = PRINTABLE.iter().position(|known| *known == (code, length)) {
                text.push(u8::try_from(found).ok()? + FIRST);
                (code, length) = (0, 0);
            } else if length > LONGEST {
                return None;
            }
        }
    }
    // What is left are ones, and fewer than a byte.
    (length < 8 && code == (1 << length) - 1).then_some(text)
}

fn code(byte: u8) -> Option<(u32, u32)> {
    PRINTABLE
        .get(usize::from(byte.checked_sub(FIRST)?))
        .copied()
}

/// The first of [`PRINTABLE`], a space.
const FIRST: u8 = 32;
const LONGEST: u32 = 19;

/// Code and its length for the bytes 32 to 126 (RFC 7541, appendix B).
#[rustfmt::skip]
const PRINTABLE: [(u32, u32); 95] = [
    (0x14, 6), (0x3f8, 10), (0x3f9, 10), (0xffa, 12), (0x1ff9, 13), (0x15, 6), (0xf8, 8), (0x7fa, 11),
    (0x3fa, 10), (0x3fb, 10), (0xf9, 8), (0x7fb, 11), (0xfa, 8), (0x16, 6), (0x17, 6), (0x18, 6),
    (0x0, 5), (0x1, 5), (0x2, 5), (0x19, 6), (0x1a, 6), (0x1b, 6), (0x1c, 6), (0x1d, 6),
    (0x1e, 6), (0x1f, 6), (0x5c, 7), (0xfb, 8), (0x7ffc, 15), (0x20, 6), (0xffb, 12), (0x3fc, 10),
    (0x1ffa, 13), (0x21, 6), (0x5d, 7), (0x5e, 7), (0x5f, 7), (0x60, 7), (0x61, 7), (0x62, 7),
    (0x63, 7), (0x64, 7), (0x65, 7), (0x66, 7), (0x67, 7), (0x68, 7), (0x69, 7), (0x6a, 7),
    (0x6b, 7), (0x6c, 7), (0x6d, 7), (0x6e, 7), (0x6f, 7), (0x70, 7), (0x71, 7), (0x72, 7),
    (0xfc, 8), (0x73, 7), (0xfd, 8), (0x1ffb, 13), (0x7fff0, 19), (0x1ffc, 13), (0x3ffc, 14), (0x22, 6),
    (0x7ffd, 15), (0x3, 5), (0x23, 6), (0x4, 5), (0x24, 6), (0x5, 5), (0x25, 6), (0x26, 6),
    (0x27, 6), (0x6, 5), (0x74, 7), (0x75, 7), (0x28, 6), (0x29, 6), (0x2a, 6), (0x7, 5),
    (0x2b, 6), (0x76, 7), (0x2c, 6), (0x8, 5), (0x9, 5), (0x2d, 6), (0x77, 7), (0x78, 7),
    (0x79, 7), (0x7a, 7), (0x7b, 7), (0x7ffe, 15), (0x7fc, 11), (0x3ffd, 14), (0x1ffd, 13),
];

#[cfg(test)]
mod tests;
