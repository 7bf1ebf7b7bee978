//! One request on one connection, and what its answer means.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, HOST};
use http::{HeaderName, HeaderValue, Method, Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::net::UnixStream;
use tokio::task::JoinSet;

use super::Deadlines;
use super::body::Body;
use crate::error::{EngineError, MAX_MESSAGE, Missing};
use crate::version::ApiVersion;

/// Longest head of an answer, and how much is read at once.
const MAX_HEAD: usize = 64 << 10;

/// Requests to one engine, and the version that is spoken with it.
#[derive(Debug)]
pub(crate) struct Http {
    socket: PathBuf,
    pub(crate) deadlines: Deadlines,
    api: Mutex<Option<ApiVersion>>,
}

/// A call: what is sent, and how its failure is told.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) subject: String,
    pub(crate) method: Method,
    /// Without the version, with a leading slash, percent-encoded, then the query.
    pub(crate) path: String,
    pub(crate) body: Option<Bytes>,
    pub(crate) header: Option<(HeaderName, HeaderValue)>,
    pub(crate) deadline: Duration,
    /// What a 404 is about when its text does not say.
    pub(crate) missing: Missing,
    /// Most bytes of an answer.
    pub(crate) limit: usize,
    has_query: bool,
}

/// Most bytes of an answer about one thing.
const ONE: usize = 4 << 20;

impl Call {
    pub(crate) fn new(
        name: &'static str,
        subject: impl Into<String>,
        method: Method,
        path: impl Into<String>,
        deadline: Duration,
    ) -> Self {
        Self {
            name,
            subject: subject.into(),
            method,
            path: path.into(),
            body: None,
            header: None,
            deadline,
            missing: Missing::Container,
            limit: ONE,
            has_query: false,
        }
    }

    /// Adds a parameter to the query.
    pub(crate) fn query(mut self, name: &str, value: &str) -> Self {
        self.path.push(if self.has_query { '&' } else { '?' });
        self.has_query = true;
        self.path.push_str(name);
        self.path.push('=');
        self.path.push_str(&encode(value, b""));
        self
    }

    pub(crate) fn json(mut self, body: &serde_json::Value) -> Self {
        self.body = Some(Bytes::from(body.to_string()));
        self
    }

    pub(crate) fn missing(mut self, missing: Missing) -> Self {
        self.missing = missing;
        self
    }

    pub(crate) fn timeout(&self) -> EngineError {
        EngineError::Timeout {
            call: self.name,
            subject: self.subject.clone(),
            deadline: self.deadline,
        }
    }

    pub(crate) fn gone(&self, source: Option<hyper::Error>) -> EngineError {
        EngineError::Gone {
            call: self.name,
            subject: self.subject.clone(),
            source: source.map(Arc::new),
        }
    }

    pub(crate) fn undecodable(&self, reason: impl Into<String>) -> EngineError {
        EngineError::Decode {
            call: self.name,
            subject: self.subject.clone(),
            reason: reason.into(),
        }
    }

    pub(crate) fn too_large(&self) -> EngineError {
        EngineError::TooLarge {
            call: self.name,
            subject: self.subject.clone(),
            limit: self.limit,
        }
    }

    /// Reads JSON; the reason of a failure holds nothing of the text, which may hold secrets.
    pub(crate) fn decode<T: DeserializeOwned>(&self, text: &[u8]) -> Result<T, EngineError> {
        serde_json::from_slice(text).map_err(|error| {
            let what = if error.is_eof() {
                "it ends too early"
            } else if error.is_data() {
                "unexpected type of a member"
            } else {
                "not JSON"
            };
            self.undecodable(format!(
                "{what} at line {}, column {}",
                error.line(),
                error.column()
            ))
        })
    }

    fn failure(&self, status: u16, text: &[u8]) -> EngineError {
        let (call, subject) = (self.name, self.subject.clone());
        let message = message(text);
        match status {
            304 => EngineError::NotModified { call, subject },
            404 => EngineError::NotFound {
                call,
                subject,
                what: missing(&message, self.missing),
                message,
            },
            409 => EngineError::Conflict {
                call,
                subject,
                message,
            },
            _ => EngineError::Status {
                call,
                subject,
                status,
                message,
            },
        }
    }
}

/// An answer whose body is yet to be read.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) head: http::response::Parts,
    pub(crate) body: Body,
}

impl Http {
    pub(crate) fn new(socket: PathBuf, deadlines: Deadlines) -> Self {
        Self {
            socket,
            deadlines,
            api: Mutex::new(None),
        }
    }

    /// Sends `call` and reads the answer's JSON.
    pub(crate) async fn json<T: DeserializeOwned>(&self, call: &Call) -> Result<T, EngineError> {
        let text = self.whole(call).await?;
        call.decode(&text)
    }

    /// Sends `call` and reads the whole answer, within the call's deadline.
    pub(crate) async fn whole(&self, call: &Call) -> Result<Bytes, EngineError> {
        let exchange = async {
            let answer = self.send(call).await?;
            answer.body.whole(call).await
        };
        tokio::time::timeout(call.deadline, exchange)
            .await
            .unwrap_or_else(|_| Err(call.timeout()))
    }

    /// Sends `call` and reads the head of the answer, within the call's deadline. What follows has
    /// none.
    pub(crate) async fn open(&self, call: &Call) -> Result<Answer, EngineError> {
        tokio::time::timeout(call.deadline, self.send(call))
            .await
            .unwrap_or_else(|_| Err(call.timeout()))
    }

    /// The version that is spoken.
    pub(crate) async fn api(&self, call: &Call) -> Result<ApiVersion, EngineError> {
        if let Some(api) = self.cached() {
            return Ok(api);
        }
        let ping = Call {
            name: call.name,
            ..Call::new("ping", "", Method::GET, "/_ping", call.deadline)
        };
        let answer = self.exchange(&ping, "/_ping").await?;
        let newest = newest_api(&answer.head.headers).ok_or_else(|| {
            ping.undecodable("the engine's ping names no API version; is it a container engine?")
        })?;
        if newest < ApiVersion::OLDEST {
            return Err(EngineError::ApiTooOld {
                engine: newest.to_string(),
                needed: ApiVersion::OLDEST.to_string(),
            });
        }
        let api = newest.min(ApiVersion::NEWEST);
        self.remember(Some(api));
        Ok(api)
    }

    /// Forgets the version: the next call negotiates anew.
    pub(crate) fn forget(&self) {
        self.remember(None);
    }

    fn cached(&self) -> Option<ApiVersion> {
        *self.api.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, api: Option<ApiVersion>) {
        *self.api.lock().unwrap_or_else(PoisonError::into_inner) = api;
    }

    async fn send(&self, call: &Call) -> Result<Answer, EngineError> {
        match self.send_once(call).await {
            // Another engine was started on the socket meanwhile. It has done nothing.
            Err(EngineError::Status {
                status: 400,
                ref message,
                ..
            }) if message.starts_with("client version ") => {
                self.forget();
                self.send_once(call).await
            }
            other => other,
        }
    }

    async fn send_once(&self, call: &Call) -> Result<Answer, EngineError> {
        let api = self.api(call).await?;
        let path = format!("/v{api}{}", call.path);
        self.exchange(call, &path).await
    }

    /// One exchange; an answer that is an error becomes one.
    pub(crate) async fn exchange(&self, call: &Call, path: &str) -> Result<Answer, EngineError> {
        let (response, driver) = self.request(call, path).await?;
        let (head, incoming) = response.into_parts();
        let body = Body::new(incoming, driver);
        let status = head.status.as_u16();
        // A stream that was hijacked answers 101.
        if (200..300).contains(&status) || status == 101 {
            return Ok(Answer { head, body });
        }
        let text = body.start(call, MAX_MESSAGE).await?;
        Err(call.failure(status, &text))
    }

    async fn request(
        &self,
        call: &Call,
        path: &str,
    ) -> Result<(Response<Incoming>, JoinSet<()>), EngineError> {
        let stream = UnixStream::connect(&self.socket).await.map_err(|source| {
            self.forget();
            EngineError::Unreachable {
                call: call.name,
                socket: self.socket.clone(),
                source: Arc::new(source),
            }
        })?;
        let (mut sender, connection) = http1::Builder::new()
            .max_buf_size(MAX_HEAD)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| call.gone(Some(error)))?;
        let mut driver = JoinSet::new();
        driver.spawn(async move {
            // Its failure is seen by the request or the body too.
            drop(connection.await);
        });
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(path)
            .header(HOST, "docker");
        if call.body.is_some() && !call.header.as_ref().is_some_and(|it| it.0 == CONTENT_TYPE) {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        if let Some((name, value)) = &call.header {
            request = request.header(name, value);
        }
        let request = request
            .body(Full::new(call.body.clone().unwrap_or_default()))
            .map_err(|error| call.undecodable(format!("no request: {error}")))?;
        let response = sender
            .send_request(request)
            .await
            .map_err(|error| call.gone(Some(error)))?;
        Ok((response, driver))
    }
}

/// The newest version that the answer to a ping names.
pub(crate) fn newest_api(headers: &http::HeaderMap) -> Option<ApiVersion> {
    headers.get("api-version")?.to_str().ok()?.parse().ok()
}

/// Percent-encodes all but unreserved characters and those of `keep`.
pub(crate) fn encode(text: &str, keep: &[u8]) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || keep.contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            // Writing to a string does not fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// The engine's explanation: `{"message": ..}`, or the text as it is.
fn message(text: &[u8]) -> String {
    #[derive(serde::Deserialize)]
    struct Explanation {
        message: String,
    }
    match serde_json::from_slice::<Explanation>(text) {
        Ok(explanation) => explanation.message,
        Err(_) => String::from_utf8_lossy(text).trim().to_owned(),
    }
}

/// What a 404 is about: engines say it in words alone.
fn missing(message: &str, usual: Missing) -> Missing {
    let message = message.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|word| message.contains(word));
    if has(&["page not found", "not found\n"]) || message == "not found" {
        Missing::Other
    } else if has(&["no such exec", "exec instance", "exec session"]) {
        Missing::Exec
    } else if has(&["no such container", "no container with"]) {
        Missing::Container
    } else if has(&[
        "no such image",
        "image not known",
        "manifest",
        "pull access denied",
    ]) {
        Missing::Image
    } else if has(&["network"]) {
        Missing::Network
    } else if has(&["volume", "plugin"]) {
        Missing::Volume
    } else {
        usual
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_encoded() {
        let call = Call::new("list", "", Method::GET, "/a", Duration::ZERO)
            .query("filters", r#"{"label":["a=b&c"]}"#)
            .query("all", "1");
        assert_eq!(
            call.path,
            "/a?filters=%7B%22label%22%3A%5B%22a%3Db%26c%22%5D%7D&all=1"
        );
        assert_eq!(encode("a/b:c d", b"/:"), "a/b:c%20d");
    }

    #[test]
    fn a_404_is_told_apart_by_its_words() {
        for (text, what) in [
            ("No such container: c1", Missing::Container),
            (
                "no container with name or ID \"c1\" found: no such container",
                Missing::Container,
            ),
            ("No such image: x:latest", Missing::Image),
            (
                "pull access denied for x, repository does not exist",
                Missing::Image,
            ),
            ("network nowhere not found", Missing::Network),
            ("No such exec instance: e1", Missing::Exec),
            ("page not found", Missing::Other),
            ("", Missing::Container),
        ] {
            assert_eq!(missing(text, Missing::Container), what, "{text}");
        }
    }

    #[test]
    fn an_explanation_is_json_or_text() {
        assert_eq!(message(br#"{"message":"no"}"#), "no");
        assert_eq!(
            message(br#"{"cause":"x","message":"no","response":500}"#),
            "no"
        );
        assert_eq!(message(b"404 page\n"), "404 page");
        assert_eq!(message(br#"{"message":"cut"#), r#"{"message":"cut"#);
        assert_eq!(message(b"\xff"), "\u{fffd}");
    }
}
