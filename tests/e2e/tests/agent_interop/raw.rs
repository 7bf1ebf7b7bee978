//! HTTP by hand: what no client sends, and what answers look like on the wire.

use std::path::PathBuf;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};

/// Where an agent listens.
#[derive(Debug, Clone)]
pub(crate) enum Raw {
    Tcp(u16),
    Unix(PathBuf),
}

/// An answer, taken apart.
#[derive(Debug, Clone)]
pub(crate) struct RawAnswer {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: Vec<u8>,
}

impl RawAnswer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<String> {
        self.head.lines().find_map(|line| {
            let (found, value) = line.split_once(':')?;
            found
                .eq_ignore_ascii_case(name)
                .then(|| value.trim().to_owned())
        })
    }
}

pub(crate) trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send> Stream for S {}

/// A connection on which requests are written byte by byte.
pub(crate) struct Connection {
    stream: Box<dyn Stream>,
    buffer: Vec<u8>,
}

/// A request as text, with its length.
pub(crate) fn request(method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let headers: String = headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\r\n"))
        .collect();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {}\r\n\r\n",
        body.len()
    );
    let mut bytes = head.into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

impl Raw {
    pub(crate) async fn open(&self) -> std::io::Result<Box<dyn Stream>> {
        Ok(match self {
            Self::Tcp(port) => Box::new(TcpStream::connect(("127.0.0.1", *port)).await?),
            Self::Unix(path) => Box::new(UnixStream::connect(path).await?),
        })
    }

    pub(crate) async fn connect(&self) -> Connection {
        Connection {
            stream: self.open().await.unwrap(),
            buffer: Vec::new(),
        }
    }

    /// Sends one request on a connection of its own.
    pub(crate) async fn send(&self, request: &[u8]) -> RawAnswer {
        let mut connection = self.connect().await;
        connection.write(request).await;
        connection.read_answer().await
    }

    pub(crate) async fn post_json(&self, json: &str) -> RawAnswer {
        let headers = [("Content-Type", "application/json")];
        self.send(&request("POST", "/api/v1", &headers, json.as_bytes()))
            .await
    }
}

impl Connection {
    pub(crate) async fn write(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.unwrap();
    }

    /// Bytes that have come without being waited for.
    pub(crate) fn came_already(&mut self) -> usize {
        let mut bytes = [0; 1024];
        let mut read = tokio::io::ReadBuf::new(&mut bytes);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let stream = std::pin::Pin::new(&mut self.stream);
        drop(stream.poll_read(&mut context, &mut read));
        self.buffer.extend_from_slice(read.filled());
        self.buffer.len()
    }

    /// The next answer: its head, and a body of the announced length or in chunks.
    pub(crate) async fn read_answer(&mut self) -> RawAnswer {
        tokio::time::timeout(Duration::from_secs(30), self.read_whole())
            .await
            .expect("an answer within 30 s")
    }

    async fn read_whole(&mut self) -> RawAnswer {
        let head_end = loop {
            if let Some(at) = self.buffer.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            self.read_more().await;
        };
        let head = String::from_utf8_lossy(&self.buffer[..head_end]).into_owned();
        self.buffer.drain(..head_end);
        let status = head.split(' ').nth(1).and_then(|s| s.parse().ok());
        let mut answer = RawAnswer {
            status: status.unwrap_or_else(|| panic!("no status in {head}")),
            head,
            body: Vec::new(),
        };
        let length = answer.header("Content-Length").unwrap_or_default();
        let length: usize = length.parse().unwrap_or(0);
        while self.buffer.len() < length {
            self.read_more().await;
        }
        answer.body = self.buffer.drain(..length).collect();
        answer
    }

    /// What still comes until the agent closes the connection.
    pub(crate) async fn read_to_end(&mut self) -> Vec<u8> {
        let mut rest = std::mem::take(&mut self.buffer);
        let read = self.stream.read_to_end(&mut rest);
        let ended = tokio::time::timeout(Duration::from_secs(30), read).await;
        // A reset closes it too.
        drop(ended.expect("the connection is closed within 30 s"));
        rest
    }

    async fn read_more(&mut self) {
        let read = self.stream.read_buf(&mut self.buffer).await.unwrap();
        assert!(read > 0, "the connection was closed: {:?}", self.buffer);
    }
}
