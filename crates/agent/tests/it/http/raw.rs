//! HTTP by hand, so that a test can send what no client library would.

use std::path::Path;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;

/// An answer, as it came.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .iter()
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// A connection that requests are sent on, one after the other.
pub(crate) struct Connection<I = UnixStream> {
    io: BufReader<I>,
}

impl Connection {
    pub(crate) async fn open(socket: &Path) -> Self {
        Self::over(UnixStream::connect(socket).await.unwrap())
    }
}

impl<I: AsyncRead + AsyncWrite + Unpin> Connection<I> {
    pub(crate) fn over(io: I) -> Self {
        Self {
            io: BufReader::new(io),
        }
    }

    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.io.get_mut().write_all(bytes).await.unwrap();
    }

    pub(crate) async fn post(&mut self, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        self.send(&request("POST /api/v1", headers, body)).await;
        self.reply().await
    }

    /// The next answer; fails when the connection ends before it or nothing comes for ten seconds.
    pub(crate) async fn reply(&mut self) -> Reply {
        tokio::time::timeout(Duration::from_secs(10), self.read())
            .await
            .unwrap()
            .unwrap()
    }

    /// Whether the server closes the connection, without a byte, within ten seconds.
    pub(crate) async fn is_closed_in_silence(&mut self) -> bool {
        let mut byte = [0];
        let read = self.io.read(&mut byte);
        matches!(
            tokio::time::timeout(Duration::from_secs(10), read)
                .await
                .unwrap(),
            Ok(0) | Err(_)
        )
    }

    /// Whether the server has sent nothing so far and the connection stands.
    pub(crate) async fn is_silent(&mut self) -> bool {
        let mut byte = [0];
        let read = self.io.read(&mut byte);
        tokio::time::timeout(Duration::from_millis(20), read)
            .await
            .is_err()
    }

    /// The head of the next answer, for one that has no body.
    pub(crate) async fn head(&mut self) -> String {
        tokio::time::timeout(Duration::from_secs(10), self.read_head())
            .await
            .unwrap()
            .unwrap()
    }

    async fn read_head(&mut self) -> Option<String> {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(self.io.read_u8().await.ok()?);
        }
        String::from_utf8(head).ok()
    }

    async fn read(&mut self) -> Option<Reply> {
        let head = self.read_head().await?;
        let mut lines = head.split("\r\n");
        let status = lines.next()?.split(' ').nth(1)?.parse().unwrap();
        let headers: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(": "))
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect();
        let length = headers.iter().find(|(name, _)| name == "content-length");
        let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().unwrap())];
        self.io.read_exact(&mut body).await.ok()?;
        Some(Reply {
            status,
            headers,
            body,
        })
    }
}

/// The bytes of a request. `headers` must not have Host and Content-Length.
pub(crate) fn request(line: &str, headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!(
        "{line} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n",
        body.len()
    );
    for (name, value) in headers {
        head.extend([name, ": ", value, "\r\n"]);
    }
    head.push_str("\r\n");
    [head.as_bytes(), body].concat()
}

pub(crate) const JSON: (&str, &str) = ("Content-Type", "application/json");

/// One call in JSON on a connection of its own.
pub(crate) async fn call(socket: &Path, json: &str) -> Reply {
    Connection::open(socket)
        .await
        .post(&[JSON], json.as_bytes())
        .await
}

/// A call about one container: `call_about(socket, "KILL_CONTAINER", "c", r#","signal":15"#)`.
/// An id with dots is nested: `root.child`.
pub(crate) async fn call_about(socket: &Path, kind: &str, id: &str, rest: &str) -> Reply {
    call(socket, &call_json(kind, id, rest)).await
}

pub(crate) fn call_json(kind: &str, id: &str, rest: &str) -> String {
    let member = kind.to_lowercase();
    let id = id.split('.').fold(String::new(), |parent, value| {
        if parent.is_empty() {
            format!(r#"{{"value":"{value}"}}"#)
        } else {
            format!(r#"{{"value":"{value}","parent":{parent}}}"#)
        }
    });
    format!(r#"{{"type":"{kind}","{member}":{{"container_id":{id}{rest}}}}}"#)
}
