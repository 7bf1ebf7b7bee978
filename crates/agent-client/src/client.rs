use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longshore_mesos_api::v1::agent::{Call, Response, call};
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::codec::decode_answer;
use crate::credentials::Authorizer;
use crate::error::MAX_ERROR_BODY;
use crate::exchange::{Answer, Exchanged, Prepared};
use crate::retry::{Repeat, random};
use crate::transport::{Connection, Connector};
use crate::{AgentClientConfig, AgentError, AnswerError};

/// A client of one agent's operator API. Cloning is cheap; the clones share the connection that
/// is kept open between short calls.
///
/// At most eight short calls run at once, further ones wait (their deadline runs). One idle
/// connection is kept. Each WAIT and each LAUNCH has a connection of its own.
///
/// Every method may be cancelled by dropping its future; what the agent was asked to do it may
/// do all the same. A cancelled LAUNCH is destroyed by a Mesos agent if it had not answered yet.
#[derive(Debug, Clone)]
pub struct AgentClient {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    config: AgentClientConfig,
    connector: Connector,
    authorizer: Arc<Authorizer>,
    authority: String,
    short_calls: Semaphore,
    idle: Mutex<Option<Connection>>,
}

const SHORT_CALLS_AT_ONCE: usize = 8;

/// A WAIT that lasted this long was accepted by a working agent; failures before it do not count
/// for the delay of the next attempt.
const WAIT_WAS_ACCEPTED: Duration = Duration::from_secs(5);

impl AgentClient {
    /// A client by `config`. Nothing is connected; the CA file is read.
    ///
    /// # Errors
    /// [`AgentError::NoTls`], [`AgentError::CaFile`] or [`AgentError::BadCredentials`].
    pub fn new(config: AgentClientConfig) -> Result<Self, AgentError> {
        Ok(Self {
            shared: Arc::new(Shared {
                connector: Connector::new(&config)?,
                authorizer: Arc::new(Authorizer::new(config.credentials.clone())?),
                authority: config.endpoint.authority(),
                short_calls: Semaphore::new(SHORT_CALLS_AT_ONCE),
                idle: Mutex::new(None),
                config,
            }),
        })
    }

    /// How the client was configured.
    #[must_use]
    pub fn config(&self) -> &AgentClientConfig {
        &self.shared.config
    }

    /// Encodes `call`, as one of type `kind`, for any number of attempts.
    ///
    /// Not async: a `Call` is large, and the future of a WAIT lives as long as its container.
    pub(crate) fn prepare(
        &self,
        kind: call::Type,
        container: Option<String>,
        repeat: Repeat,
        mut call: Call,
    ) -> Result<Prepared, AgentError> {
        call.r#type = Some(kind.into());
        let name = kind.as_str_name();
        match self.shared.config.codec.encode(&call) {
            Ok(body) => Ok(Prepared {
                call: name,
                container,
                body,
                repeat,
                own_connection: is_long(kind),
            }),
            Err(source) => Err(AgentError::Encode {
                call: name,
                container,
                source,
            }),
        }
    }

    /// Sends until there is an answer that is not to be tried again, or `deadline` is over.
    /// The answer is any status; errors are those of the connection.
    pub(crate) async fn send(
        &self,
        prepared: &Prepared,
        deadline: Duration,
    ) -> Result<Answer, AgentError> {
        let mut last = None;
        let sent = tokio::time::timeout(deadline, self.send_until(prepared, &mut last)).await;
        sent.unwrap_or_else(|_| {
            Err(AgentError::Timeout {
                call: prepared.call,
                container: prepared.container.clone(),
                deadline,
                source: last.map(Box::new),
            })
        })
    }

    /// As [`Self::send`] without a deadline, for WAIT.
    pub(crate) async fn send_for_ever(&self, prepared: &Prepared) -> Result<Answer, AgentError> {
        self.send_until(prepared, &mut None).await
    }

    async fn send_until(
        &self,
        prepared: &Prepared,
        last: &mut Option<AgentError>,
    ) -> Result<Answer, AgentError> {
        let policy = &self.shared.config.retry;
        let (mut failures, mut first_failure) = (0u32, None);
        loop {
            let started = Instant::now();
            let error = match self.attempt(prepared).await {
                Ok(answer) if answer.is_error() => prepared.status_error(&answer),
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if started.elapsed() >= WAIT_WAS_ACCEPTED {
                (failures, first_failure) = (0, None);
            }
            let since_first = first_failure.get_or_insert(started).elapsed();
            if !policy.repeats(&error, prepared.repeat, since_first) {
                return match error {
                    AgentError::Status { status, body, .. } => Ok(Answer {
                        status,
                        content_type: None,
                        body: body.into(),
                    }),
                    other => Err(other),
                };
            }
            failures = failures.saturating_add(1);
            let delay = policy.backoff.delay(failures, random());
            tracing::debug!(
                call = prepared.call,
                container = prepared.container.as_deref(),
                %error,
                failures,
                ?delay,
                "trying again"
            );
            *last = Some(error);
            tokio::time::sleep(delay).await;
        }
    }

    /// One attempt, on the idle connection if the call may use it.
    async fn attempt(&self, prepared: &Prepared) -> Result<Answer, AgentError> {
        let shared = &*self.shared;
        let authorization = shared.authorizer.header().await?;
        let request = || {
            prepared
                .request(
                    shared.config.endpoint.path(),
                    &shared.authority,
                    shared.config.codec,
                    authorization.clone(),
                )
                .map_err(|source| AgentError::Connect {
                    endpoint: shared.config.endpoint.to_string(),
                    source: source.into(),
                })
        };
        let limit = shared.config.answer.max_bytes;
        let connect = || shared.connector.connect(shared.config.deadlines.connect);

        if prepared.own_connection {
            let mut connection = connect().await?;
            return match prepared
                .exchange(&mut connection, request()?, limit)
                .await?
            {
                Exchanged::Answered(answer) => Ok(answer),
                Exchanged::Stale => Err(prepared.never_answered(&shared.config.endpoint)),
            };
        }

        // Closing a semaphore is the only failure, and nobody closes this one.
        let _permit = shared.short_calls.acquire().await.ok();
        let idle = shared.take_idle();
        if let Some(mut connection) = idle
            && connection.is_open().await
        {
            let exchanged = prepared
                .exchange(&mut connection, request()?, limit)
                .await?;
            if let Exchanged::Answered(answer) = exchanged {
                shared.keep_idle(connection);
                return Ok(answer);
            }
        }
        let mut connection = connect().await?;
        match prepared
            .exchange(&mut connection, request()?, limit)
            .await?
        {
            Exchanged::Answered(answer) => {
                shared.keep_idle(connection);
                Ok(answer)
            }
            Exchanged::Stale => Err(prepared.never_answered(&shared.config.endpoint)),
        }
    }

    /// Reads the answer of a call that has one.
    pub(crate) fn read(
        &self,
        prepared: &Prepared,
        answer: &Answer,
    ) -> Result<Response, AgentError> {
        let config = &self.shared.config;
        decode_answer(
            config.codec,
            answer.content_type.as_deref(),
            &answer.body,
            &config.answer,
        )
        .map_err(|source| prepared.decode_error(source))
    }
}

/// WAIT may take for ever; LAUNCH may take long, and must not meet a connection that the agent
/// is just closing.
#[expect(
    deprecated,
    reason = "the nested twins are deprecated; agents still serve them"
)]
fn is_long(kind: call::Type) -> bool {
    matches!(
        kind,
        call::Type::WaitContainer
            | call::Type::WaitNestedContainer
            | call::Type::LaunchContainer
            | call::Type::LaunchNestedContainer
    )
}

impl Shared {
    fn take_idle(&self) -> Option<Connection> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.take()
    }

    /// Keeps `connection` for the next call unless the answer closed it.
    fn keep_idle(&self, connection: Connection) {
        if connection.may_be_kept() {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            *idle = Some(connection);
        }
    }
}

impl Answer {
    fn is_error(&self) -> bool {
        !(200..300).contains(&self.status)
    }
}

impl Prepared {
    /// The error that `answer` stands for.
    pub(crate) fn status_error(&self, answer: &Answer) -> AgentError {
        let kept = answer.body.len().min(MAX_ERROR_BODY);
        AgentError::Status {
            call: self.call,
            container: self.container.clone(),
            status: answer.status,
            body: String::from_utf8_lossy(&answer.body[..kept]).into_owned(),
        }
    }

    pub(crate) fn decode_error(&self, source: AnswerError) -> AgentError {
        AgentError::Decode {
            call: self.call,
            container: self.container.clone(),
            source,
        }
    }

    /// A fresh connection ended before it took the request.
    pub(crate) fn never_answered(&self, endpoint: &crate::AgentEndpoint) -> AgentError {
        AgentError::Connect {
            endpoint: endpoint.to_string(),
            source: "the connection ended before the request was sent".into(),
        }
    }
}
