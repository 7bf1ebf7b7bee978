//! Just enough of HTTP/1.1, by hand, so that an answer can go wrong at any byte.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

/// A request, read whole.
#[derive(Debug, Default)]
pub(super) struct Request {
    pub(super) path: String,
    pub(super) content_type: String,
    pub(super) accept: String,
    pub(super) authorization: Option<String>,
    pub(super) body: Vec<u8>,
}

/// Longest head and body; a test that sends more has a fault.
const MAX_REQUEST: usize = 16 << 20;

/// The next request; `None` when the client has closed.
pub(super) async fn read_request(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
) -> io::Result<Option<Request>> {
    let head_end = loop {
        if let Some(at) = buffer.windows(4).position(|four| four == b"\r\n\r\n") {
            break at + 4;
        }
        if !read_some(stream, buffer).await? {
            return Ok(None);
        }
    };
    let mut request = Request::default();
    let mut length = 0usize;
    let head = String::from_utf8_lossy(&buffer[..head_end]).into_owned();
    let mut lines = head.lines();
    let first = lines.next().unwrap_or_default();
    request.path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    for line in lines {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-type" => request.content_type = value.to_owned(),
            "accept" => request.accept = value.to_owned(),
            "authorization" => request.authorization = Some(value.to_owned()),
            "content-length" => length = value.parse().unwrap_or(0),
            _ => {}
        }
    }
    while buffer.len() < head_end + length {
        if !read_some(stream, buffer).await? {
            return Ok(None);
        }
    }
    request.body = buffer[head_end..head_end + length].to_vec();
    buffer.drain(..head_end + length);
    Ok(Some(request))
}

async fn read_some(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
) -> io::Result<bool> {
    if buffer.len() > MAX_REQUEST {
        return Err(io::Error::other("the request is too long"));
    }
    Ok(stream.read_buf(buffer).await? > 0)
}

/// A whole answer.
pub(super) fn answer(status: u16, content_type: Option<&str>, body: &[u8]) -> Vec<u8> {
    let content_type = content_type
        .map(|value| format!("Content-Type: {value}\r\n"))
        .unwrap_or_default();
    let mut bytes = format!(
        "HTTP/1.1 {status} Whatever\r\n{content_type}Content-Length: {}\r\n\r\n",
        body.len()
    )
    .into_bytes();
    bytes.extend_from_slice(body);
    bytes
}
