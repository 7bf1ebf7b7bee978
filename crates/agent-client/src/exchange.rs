//! One request, one bounded answer.

use bytes::{Bytes, BytesMut};
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request, Version};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Incoming};

use crate::error::MAX_ERROR_BODY;
use crate::retry::Repeat;
use crate::transport::Connection;
use crate::{AgentError, Codec};

/// A call ready to be sent, as often as needed.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) call: &'static str,
    pub(crate) container: Option<String>,
    pub(crate) body: Bytes,
    pub(crate) repeat: Repeat,
    /// Sent on a connection of its own.
    pub(crate) own_connection: bool,
}

/// An answer, read whole. The body of an error is cut.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) content_type: Option<String>,
    pub(crate) body: Bytes,
}

/// What became of a request.
pub(crate) enum Exchanged {
    /// Answered; the connection can be used again if it is still open.
    Answered(Answer),
    /// Not sent, or (a call that may be repeated) sent into a reused connection that ended
    /// without a byte of an answer: the agent had closed it as idle.
    Stale,
}

impl Prepared {
    pub(crate) fn request(
        &self,
        path: &str,
        authority: &str,
        codec: Codec,
        authorization: Option<HeaderValue>,
    ) -> Result<Request<Full<Bytes>>, http::Error> {
        let mut request = Request::builder()
            .method(Method::POST)
            .version(Version::HTTP_11)
            .uri(path)
            .header(HOST, authority)
            .header(CONTENT_TYPE, codec.media_type())
            .header(ACCEPT, codec.media_type());
        if let Some(value) = authorization {
            request = request.header(AUTHORIZATION, value);
        }
        request.body(Full::new(self.body.clone()))
    }

    pub(crate) fn closed(&self, source: hyper::Error) -> AgentError {
        AgentError::Closed {
            call: self.call,
            container: self.container.clone(),
            source,
        }
    }

    /// Sends `request` and reads the answer, at most `limit` bytes of it. Dropping the future
    /// leaves the connection in the middle of an answer: drop it too.
    pub(crate) async fn exchange(
        &self,
        connection: &mut Connection,
        request: Request<Full<Bytes>>,
        limit: usize,
    ) -> Result<Exchanged, AgentError> {
        let response = match connection.send(request).await {
            Ok(response) => response,
            Err(mut failed) => {
                let unsent = failed.take_message().is_some();
                let error = failed.into_error();
                let harmless = unsent || self.repeat == Repeat::Harmless;
                return if connection.reused && harmless && !error.is_parse() {
                    Ok(Exchanged::Stale)
                } else {
                    Err(self.closed(error))
                };
            }
        };
        let status = response.status().as_u16();
        let content_type = response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned);
        connection.reused = false;
        let body = if (200..300).contains(&status) {
            let body = self.read_whole(response.into_body(), limit).await?;
            connection.reused = true;
            body
        } else {
            let (body, whole) = self.read_start(response.into_body()).await?;
            connection.reused = whole;
            body
        };
        Ok(Exchanged::Answered(Answer {
            status,
            content_type,
            body,
        }))
    }

    async fn read_whole(&self, mut body: Incoming, limit: usize) -> Result<Bytes, AgentError> {
        let too_large = |announced| AgentError::TooLarge {
            call: self.call,
            container: self.container.clone(),
            limit,
            announced,
        };
        let announced = body.size_hint().exact();
        if let Some(length) = announced
            && usize::try_from(length).map_or(true, |length| length > limit)
        {
            return Err(too_large(announced));
        }
        let mut whole = BytesMut::new();
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame.map_err(|error| self.closed(error))?.into_data() {
                if data.len() > limit - whole.len() {
                    return Err(too_large(None));
                }
                whole.extend_from_slice(&data);
            }
        }
        Ok(whole.freeze())
    }

    /// Reads what is kept of an error's text, and says whether that was all. Half a text says
    /// nothing (a 404 has two meanings), so a cut connection is a cut connection here too.
    pub(crate) async fn read_start(&self, mut body: Incoming) -> Result<(Bytes, bool), AgentError> {
        let mut start = BytesMut::new();
        while let Some(frame) = body.frame().await {
            if let Ok(data) = frame.map_err(|error| self.closed(error))?.into_data() {
                let room = MAX_ERROR_BODY - start.len();
                start.extend_from_slice(&data[..data.len().min(room)]);
                if data.len() > room {
                    return Ok((start.freeze(), false));
                }
            }
        }
        Ok((start.freeze(), true))
    }
}
