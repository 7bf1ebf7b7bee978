//! One request from its head to its answer.
//!
//! ```text
//!  path -> token -> form -> body -> type -> validation -> form suits call -> order -> containers -> answer
//!  404     401      4xx     4xx     400     400           415, 406           501     200 202 400 404 500
//! ```
//!
//! A request is a future that its connection drops when the client goes away. A pending WAIT ends with that, and only
//! that one waiter. LAUNCH, KILL and REMOVE run in a task of their own, so that a client that goes away while its
//! launch is under way changes nothing: the container is started, once, and is there for the next call about its id.
//! (A Mesos agent destroys it instead: MESOS-8039.)

use std::future::Future;
use std::sync::Arc;
use std::time::SystemTime;

use http::{Request, StatusCode};
use hyper::body::{Body, Bytes};
use longshore_mesos_api::v1::agent::call::Type as CallType;
use longshore_paths::ContainerId;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::answer::{self, Answer};
use super::auth::BearerToken;
use super::decode;
use super::negotiate::{self, Codec};
use super::options::HttpLimits;
use super::refusal::Refusal;
use super::validate::{self, Order};
use crate::service::{
    ContainerService, KillError, LaunchErrorKind, LaunchRequest, Launched, Output, ReadError,
};

/// The connection is to be closed without an answer: the agent is stopping while the call is pending.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the agent is stopping")]
pub(crate) struct Stopping;

/// What every connection shares.
#[derive(Debug)]
pub(crate) struct Front<S> {
    pub(crate) service: Arc<S>,
    pub(crate) limits: HttpLimits,
    pub(crate) hostname: String,
    pub(crate) agent_id: String,
    pub(crate) port: Option<u16>,
    /// Permits of pending WAITs.
    waits: Semaphore,
    /// Permits of launches, kills, removals and reads of output.
    operations: Arc<Semaphore>,
    /// The tasks of those.
    pub(crate) running: TaskTracker,
    pub(crate) stop: CancellationToken,
}

impl<S: ContainerService> Front<S> {
    pub(crate) fn new(
        service: Arc<S>,
        limits: HttpLimits,
        hostname: String,
        agent_id: String,
        port: Option<u16>,
        stop: CancellationToken,
    ) -> Self {
        Self {
            service,
            limits,
            hostname,
            agent_id,
            port,
            waits: Semaphore::new(limits.waits),
            operations: Arc::new(Semaphore::new(limits.operations)),
            running: TaskTracker::new(),
            stop,
        }
    }

    /// Answers one request. `token`: what the listener asks of its clients.
    ///
    /// # Errors
    /// [`Stopping`] when the connection is to be closed without an answer.
    pub(crate) async fn respond<B>(
        &self,
        token: Option<&BearerToken>,
        request: Request<B>,
    ) -> Result<Answer, Stopping>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: std::error::Error,
    {
        match self.read(token, request).await {
            Ok((codec, order, kind)) => self.perform(codec, order, kind).await,
            Err(refusal) => Ok(answer::refused(refusal)),
        }
    }

    /// Everything before the containers are asked.
    async fn read<B>(
        &self,
        token: Option<&BearerToken>,
        request: Request<B>,
    ) -> Result<(Codec, Order, CallType), Refusal>
    where
        B: Body<Data = Bytes> + Unpin,
        B::Error: std::error::Error,
    {
        let (head, body) = request.into_parts();
        if !negotiate::is_api_path(head.uri.path()) {
            return Err(Refusal::not_found());
        }
        if token.is_some_and(|token| !token.admits(&head.headers)) {
            return Err(Refusal::unauthorized());
        }
        let form = negotiate::negotiate(&head.method, &head.headers)?;
        let call = decode::read_call(form, body, &self.limits).await?;
        let kind = validate::call_type(&call)?;
        let order = validate::order(kind, call)?;
        form.admit(kind)?;
        Ok((form.answer, order, kind))
    }

    async fn perform(
        &self,
        codec: Codec,
        order: Order,
        kind: CallType,
    ) -> Result<Answer, Stopping> {
        let max = self.limits.max_answer;
        let answered = match order {
            Order::GetHealth => answer::message(codec, &answer::health(), max),
            Order::GetVersion => answer::message(codec, &answer::version(), max),
            Order::GetAgent => {
                let agent = answer::agent(&self.hostname, &self.agent_id, self.port);
                answer::message(codec, &agent, max)
            }
            Order::GetContainers { nested, standalone } => {
                let views = self.service.list();
                let list = answer::containers(views, nested, standalone, SystemTime::now());
                answer::message(codec, &list, max)
            }
            Order::Read {
                path,
                offset,
                length,
            } => self.read_file(codec, path, offset, length).await,
            Order::Wait { id, twin } => tokio::select! {
                () = self.stop.cancelled() => return Err(Stopping),
                waited = self.wait(codec, &id, twin) => waited,
            },
            Order::Launch(request) => self.launch(*request).await,
            Order::Kill { id, signal } => self.kill(id, signal).await,
            Order::Remove { id } => self.remove(id).await,
            Order::NotServed => Err(not_served(kind)),
        };
        Ok(answered.unwrap_or_else(answer::refused))
    }

    async fn wait(&self, codec: Codec, id: &ContainerId, twin: bool) -> Result<Answer, Refusal> {
        let Ok(_permit) = self.waits.try_acquire() else {
            return Err(Refusal::unavailable(format!(
                "{} calls are waiting already; try again later",
                self.limits.waits
            )));
        };
        let exit = self.service.wait(id).await.map_err(|_| {
            Refusal::new(
                StatusCode::NOT_FOUND,
                format!("Container {id} cannot be found"),
            )
        })?;
        answer::message(codec, &answer::waited(exit, twin), self.limits.max_answer)
    }

    async fn read_file(
        &self,
        codec: Codec,
        path: String,
        offset: u64,
        length: u64,
    ) -> Result<Answer, Refusal> {
        let not_found = || {
            let text = format!("No such file: {}", cut(&path));
            Refusal::new(StatusCode::NOT_FOUND, text)
        };
        let output = Output::parse(&path).ok_or_else(not_found)?;
        let read = self
            .own_task(|service| async move { service.read(&output, offset, length).await })
            .await?;
        match read {
            Ok(slice) => answer::message(codec, &answer::slice(slice), self.limits.max_answer),
            Err(ReadError::NotFound) => Err(not_found()),
            Err(ReadError::Failed(text)) => Err(Refusal::internal(text)),
        }
    }

    async fn launch(&self, request: LaunchRequest) -> Result<Answer, Refusal> {
        let launched = self
            .own_task(|service| async move { service.launch(request).await })
            .await?;
        match launched {
            Ok(Launched::New) => Ok(answer::empty(StatusCode::OK)),
            Ok(Launched::AlreadyPresent) => Ok(answer::empty(StatusCode::ACCEPTED)),
            Err(error) => Err(match error.kind {
                LaunchErrorKind::BadRequest => Refusal::bad_request(error.message),
                LaunchErrorKind::Internal => Refusal::internal(error.message),
            }),
        }
    }

    async fn kill(&self, id: ContainerId, signal: i32) -> Result<Answer, Refusal> {
        let shown = id.clone();
        match self
            .own_task(|service| async move { service.kill(&id, signal).await })
            .await?
        {
            Ok(()) => Ok(answer::empty(StatusCode::OK)),
            Err(KillError::NotFound) => Err(Refusal::new(
                StatusCode::NOT_FOUND,
                format!("Container '{shown}' cannot be found (or is already killed)"),
            )),
            Err(KillError::Failed(text)) => Err(Refusal::internal(text)),
        }
    }

    async fn remove(&self, id: ContainerId) -> Result<Answer, Refusal> {
        match self
            .own_task(|service| async move { service.remove(&id).await })
            .await?
        {
            Ok(()) => Ok(answer::empty(StatusCode::OK)),
            Err(error) => Err(Refusal::internal(error.message)),
        }
    }

    /// Runs an operation to its end whatever becomes of the caller, and waits for it.
    async fn own_task<T, F>(&self, operation: impl FnOnce(Arc<S>) -> F) -> Result<T, Refusal>
    where
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        let Ok(permit) = Arc::clone(&self.operations).acquire_owned().await else {
            return Err(Refusal::unavailable("the agent is stopping"));
        };
        let operation = operation(Arc::clone(&self.service));
        let task = self.running.spawn(async move {
            let done = operation.await;
            drop(permit);
            done
        });
        task.await.map_err(|error| {
            tracing::error!(%error, "a call failed unexpectedly");
            Refusal::internal("the call failed unexpectedly; see the agent's log")
        })
    }
}

/// As much of a path as an answer repeats, on one line.
fn cut(path: &str) -> String {
    const LONGEST: usize = 512;
    let shown = path.chars().take(LONGEST);
    shown
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

fn not_served(kind: CallType) -> Refusal {
    let text = match kind {
        CallType::Unknown => "501 Not Implemented.".to_owned(),
        kind => format!(
            "{} is a call of a Mesos agent that this agent does not serve",
            kind.as_str_name()
        ),
    };
    Refusal::new(StatusCode::NOT_IMPLEMENTED, text)
}
