//! What goes over the two connections: one held by SUBSCRIBE, one for every other call.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use longshore_mesos_api::v1::executor::{Call, Event, call};
use longshore_mesos_api::{DecodeLimits, decode, json, record_io};

use super::ExecutorConfig;
use super::core::{Outcome, Refusal};
use crate::codec::form_of;
use crate::error::{AnswerError, is_agent_starting};
use crate::exchange::{Answer, Exchanged, Prepared};
use crate::retry::Repeat;
use crate::transport::{Connection, Connector};
use crate::{AgentClientConfig, AgentError, Codec};

/// One attempt to connect.
const CONNECT: Duration = Duration::from_secs(5);
/// A call with its answer.
const CALL: Duration = Duration::from_secs(10);
/// An answer to a call has no body, or a short text.
const MAX_ANSWER: usize = 64 << 10;

#[cfg(test)]
mod tests;

/// How to reach the agent.
#[derive(Debug)]
pub(super) struct Wire {
    connector: Connector,
    config: ExecutorConfig,
}

/// The events of one subscription.
#[derive(Debug)]
pub(super) struct EventStream {
    body: Incoming,
    decoder: record_io::Decoder,
    /// What has arrived and is not taken apart yet.
    chunk: Bytes,
    codec: Codec,
    limits: DecodeLimits,
    /// The stream ends with it.
    _connection: Connection,
}

impl Wire {
    pub(super) fn new(config: ExecutorConfig) -> Result<Arc<Self>, AgentError> {
        let mut transport = AgentClientConfig::new(config.environment.endpoint.clone());
        transport.tls = config.environment.tls.clone();
        transport.keep_alive = config.keep_alive;
        Ok(Arc::new(Self {
            connector: Connector::new(&transport)?,
            config,
        }))
    }

    /// Opens the stream.
    pub(super) async fn subscribe(
        self: Arc<Self>,
        call: Box<Call>,
    ) -> Result<EventStream, (Refusal, AgentError)> {
        let attempt = async {
            let prepared = self.prepare(&call)?;
            drop(call);
            let request = self.request(&prepared)?;
            let mut connection = self.connector.connect(CONNECT).await?;
            let sent = connection.send(request).await;
            let response = sent.map_err(|failed| prepared.closed(failed.into_error()))?;
            let content_type = response.headers().get(CONTENT_TYPE).cloned();
            let status = response.status().as_u16();
            if status != 200 {
                let (body, _) = prepared.read_start(response.into_body()).await?;
                return Err(prepared.status_error(&Answer {
                    status,
                    content_type: None,
                    body,
                }));
            }
            let named = content_type.as_ref().and_then(|value| value.to_str().ok());
            let codec = form_of(self.config.codec, named)
                .map_err(|source| prepared.decode_error(source))?;
            Ok(EventStream {
                body: response.into_body(),
                decoder: record_io::Decoder::new(self.config.event.max_bytes),
                chunk: Bytes::new(),
                codec,
                limits: self.config.event,
                _connection: connection,
            })
        };
        attempt.await.map_err(|error| (refusal(&error), error))
    }

    /// Sends a call on `connection`, or on a new one, which is given back while it is usable.
    pub(super) async fn send(
        self: Arc<Self>,
        connection: Option<Connection>,
        call: Box<Call>,
    ) -> (Outcome, Option<Connection>) {
        match tokio::time::timeout(CALL, self.exchange(connection, &call)).await {
            Ok(Ok((answer, connection))) => (outcome(&call, &answer), connection),
            Ok(Err(error)) => (Outcome::Failed(text(&error)), None),
            Err(_) => {
                let why = format!("{} not answered within {CALL:?}", name(&call));
                (Outcome::Failed(why), None)
            }
        }
    }

    async fn exchange(
        &self,
        connection: Option<Connection>,
        call: &Call,
    ) -> Result<(Answer, Option<Connection>), AgentError> {
        let prepared = self.prepare(call)?;
        let kept = |connection: Connection| connection.may_be_kept().then_some(connection);
        if let Some(mut connection) = connection
            && connection.is_open().await
        {
            let request = self.request(&prepared)?;
            let exchanged = prepared.exchange(&mut connection, request, MAX_ANSWER);
            if let Exchanged::Answered(answer) = exchanged.await? {
                return Ok((answer, kept(connection)));
            }
        }
        let mut connection = self.connector.connect(CONNECT).await?;
        let request = self.request(&prepared)?;
        match prepared
            .exchange(&mut connection, request, MAX_ANSWER)
            .await?
        {
            Exchanged::Answered(answer) => Ok((answer, kept(connection))),
            Exchanged::Stale => Err(prepared.never_answered(&self.config.environment.endpoint)),
        }
    }

    fn prepare(&self, call: &Call) -> Result<Prepared, AgentError> {
        let name = name(call);
        let body = self
            .config
            .codec
            .encode(call)
            .map_err(|source| AgentError::Encode {
                call: name,
                container: None,
                source,
            })?;
        Ok(Prepared {
            call: name,
            container: None,
            body,
            // An agent knows an update by its uuid; a message would be there twice.
            repeat: match call.r#type() {
                call::Type::Message => Repeat::Harmful,
                _ => Repeat::Harmless,
            },
            own_connection: false,
        })
    }

    fn request(
        &self,
        prepared: &Prepared,
    ) -> Result<http::Request<http_body_util::Full<Bytes>>, AgentError> {
        let environment = &self.config.environment;
        let endpoint = &environment.endpoint;
        let token = environment.token.as_ref().map(|token| token.header());
        prepared
            .request(
                endpoint.path(),
                &endpoint.authority(),
                self.config.codec,
                token,
            )
            .map_err(|source| AgentError::Connect {
                endpoint: endpoint.to_string(),
                source: source.into(),
            })
    }
}

impl EventStream {
    /// The next event. Dropping the future loses nothing; after an error the stream is of no use.
    pub(super) async fn next(&mut self) -> Result<Event, AgentError> {
        loop {
            let mut rest = &self.chunk[..];
            let record = self.decoder.next(&mut rest).map_err(unreadable)?;
            let used = self.chunk.len() - rest.len();
            drop(self.chunk.split_to(used));
            if let Some(record) = record {
                return match self.codec {
                    Codec::Protobuf => decode(&record, &self.limits).map_err(unreadable),
                    Codec::Json => json::from_slice(&record, &self.limits).map_err(unreadable),
                };
            }
            match self.body.frame().await {
                Some(Ok(frame)) => self.chunk = frame.into_data().unwrap_or_default(),
                Some(Err(source)) => {
                    return Err(AgentError::Closed {
                        call: SUBSCRIBE,
                        container: None,
                        source,
                    });
                }
                None => {
                    self.decoder.finish().map_err(unreadable)?;
                    return Err(AgentError::StreamEnded);
                }
            }
        }
    }
}

const SUBSCRIBE: &str = "SUBSCRIBE";

fn unreadable(source: impl Into<AnswerError>) -> AgentError {
    AgentError::Decode {
        call: SUBSCRIBE,
        container: None,
        source: source.into(),
    }
}

fn name(call: &Call) -> &'static str {
    call.r#type().as_str_name()
}

fn refusal(error: &AgentError) -> Refusal {
    match error {
        AgentError::Status { status, body, .. } if is_not_ready(*status, body) => Refusal::NotReady,
        AgentError::Status { .. } | AgentError::Decode { .. } | AgentError::Encode { .. } => {
            Refusal::Refused
        }
        _ => Refusal::Unreachable,
    }
}

fn is_not_ready(status: u16, body: &str) -> bool {
    status == 503 || is_agent_starting(status, body)
}

/// What an answer to a call means. Only what is wrong in the call itself is final: everything else is mended by
/// subscribing anew.
fn outcome(call: &Call, answer: &Answer) -> Outcome {
    let body = String::from_utf8_lossy(&answer.body).into_owned();
    let unknown_to_agent = body.contains("cannot be found");
    match answer.status {
        200..300 => Outcome::Accepted,
        400 | 413 | 415 if !unknown_to_agent => {
            Outcome::Invalid(answered(call, answer.status, body))
        }
        501 => Outcome::Unknown,
        status => Outcome::Failed(answered(call, status, body)),
    }
}

fn answered(call: &Call, status: u16, body: String) -> String {
    let error = AgentError::Status {
        call: name(call),
        container: None,
        status,
        body,
    };
    error.to_string()
}

/// An error with its causes, on one line.
pub(super) fn text(error: &AgentError) -> String {
    let mut text = error.to_string();
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}
