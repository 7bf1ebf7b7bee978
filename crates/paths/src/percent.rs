//! Mesos' percent encoding of volume ids (libprocess `http::encode` and `http::decode`).

use crate::PathsError;
use crate::error::Shown;

const HEX: &[u8; 16] = b"0123456789ABCDEF";

/// Whether Mesos escapes `byte`; and 0x7F, which Mesos forgot.
fn escaped(byte: u8) -> bool {
    matches!(byte, 0..=0x20 | 0x7F..=0xFF) || br#"$&+,/:;=?@"<>#%{}|\^~[]`"#.contains(&byte)
}

/// Appends `byte` as `%XX`.
pub(crate) fn push_escape(out: &mut String, byte: u8) {
    out.push('%');
    out.push(char::from(HEX[usize::from(byte >> 4)]));
    out.push(char::from(HEX[usize::from(byte & 15)]));
}

/// Encodes as Mesos does.
pub(crate) fn encode(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for byte in value.bytes() {
        if escaped(byte) {
            push_escape(&mut out, byte);
        } else {
            out.push(char::from(byte));
        }
    }
    out
}

/// Decodes as Mesos does: `%XX` to the byte, `+` to a space, everything else as is.
pub(crate) fn decode(value: &str) -> Result<String, PathsError> {
    let bytes = value.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let (decoded, width) = match byte {
            b'+' => (b' ', 1),
            b'%' => {
                let digits = (bytes.get(at + 1), bytes.get(at + 2));
                let digits = match digits {
                    (Some(high), Some(low)) => hex(*high).zip(hex(*low)),
                    _ => None,
                };
                let Some((high, low)) = digits else {
                    return Err(PathsError::Escape {
                        value: Shown::new(value),
                        offset: at,
                    });
                };
                (high << 4 | low, 3)
            }
            other => (other, 1),
        };
        out.push(decoded);
        at += width;
    }
    String::from_utf8(out).map_err(|_| PathsError::NotUtf8 {
        value: Shown::new(value),
    })
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}
