//! The service that a plugin serves: requests to handlers, answers to replies.

use std::error::Error;
use std::future::{self, Future};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use longshore_nri_api::cost::{self, CostError, Limits};
use longshore_nri_api::service::PLUGIN;
use longshore_nri_api::{
    ConfigureRequest, ConfigureResponse, Container, CreateContainerRequest,
    CreateContainerResponse, Empty, Event, EventMask, PodSandbox, PostCreateContainerRequest,
    PostStartContainerRequest, PostUpdateContainerRequest, PostUpdatePodSandboxRequest,
    RemoveContainerRequest, RemovePodSandboxRequest, RunPodSandboxRequest, StartContainerRequest,
    StateChangeEvent, StopContainerRequest, StopContainerResponse, StopPodSandboxRequest,
    SynchronizeRequest, SynchronizeResponse, UpdateContainerRequest, UpdateContainerResponse,
    UpdatePodSandboxRequest, ValidateContainerAdjustmentRequest,
    ValidateContainerAdjustmentResponse,
};
use longshore_ttrpc::{Code, Request, Service, Status};
use prost::Message;
use tokio::sync::watch;

use crate::answer::{HandlerError, HandlerResult};
use crate::gather::{Gather, Step, SyncLimits};
use crate::handle::Shared;
use crate::negotiate;
use crate::plugin::{Configuration, Plugin};

/// What has happened on one connection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Progress {
    /// How the configuration ended, once it did.
    pub(crate) configured: Option<Result<(), String>>,
    /// The runtime has announced its end.
    pub(crate) shutdown: bool,
}

type Answer<'a> = Pin<Box<dyn Future<Output = Result<Bytes, Status>> + Send + 'a>>;

/// The plugin, as one connection sees it.
pub(crate) struct PluginService<P> {
    pub(crate) plugin: Arc<P>,
    pub(crate) shared: Arc<Shared>,
    pub(crate) limits: SyncLimits,
    pub(crate) progress: watch::Sender<Progress>,
    gather: Mutex<Gather>,
}

impl<P: Plugin> PluginService<P> {
    pub(crate) fn new(plugin: Arc<P>, shared: Arc<Shared>, limits: SyncLimits) -> Self {
        Self {
            plugin,
            shared,
            limits,
            progress: watch::Sender::new(Progress::default()),
            gather: Mutex::new(Gather::default()),
        }
    }

    /// The answer to one request. Each method's future is of its own size, and stays where it is made.
    fn dispatch<'a>(&'a self, method: &str, payload: &'a Bytes) -> Answer<'a> {
        let plugin = &self.plugin;
        match method {
            "Configure" => self.with(payload, |request| self.configure(request)),
            "Synchronize" => Box::pin(self.synchronize(payload)),
            "Shutdown" => Box::pin(self.shutdown()),
            "StateChange" => self.with(payload, |request| self.state_change(request)),
            "RunPodSandbox" => self.with(payload, |request: RunPodSandboxRequest| {
                done(plugin.run_pod_sandbox(pod(request.pod)))
            }),
            "UpdatePodSandbox" => self.with(payload, |request: UpdatePodSandboxRequest| {
                let overhead = request.overhead_linux_resources.unwrap_or_default();
                let resources = request.linux_resources.unwrap_or_default();
                done(plugin.update_pod_sandbox(pod(request.pod), overhead, resources))
            }),
            "PostUpdatePodSandbox" => self.with(payload, |request: PostUpdatePodSandboxRequest| {
                done(plugin.post_update_pod_sandbox(pod(request.pod)))
            }),
            "StopPodSandbox" => self.with(payload, |request: StopPodSandboxRequest| {
                done(plugin.stop_pod_sandbox(pod(request.pod)))
            }),
            "RemovePodSandbox" => self.with(payload, |request: RemovePodSandboxRequest| {
                done(plugin.remove_pod_sandbox(pod(request.pod)))
            }),
            "CreateContainer" => self.with(payload, |request| self.create_container(request)),
            "PostCreateContainer" => self.with(payload, |request: PostCreateContainerRequest| {
                let container = container(request.container);
                done(plugin.post_create_container(pod(request.pod), container))
            }),
            "StartContainer" => self.with(payload, |request: StartContainerRequest| {
                let container = container(request.container);
                done(plugin.start_container(pod(request.pod), container))
            }),
            "PostStartContainer" => self.with(payload, |request: PostStartContainerRequest| {
                let container = container(request.container);
                done(plugin.post_start_container(pod(request.pod), container))
            }),
            "UpdateContainer" => self.with(payload, |request| self.update_container(request)),
            "PostUpdateContainer" => self.with(payload, |request: PostUpdateContainerRequest| {
                let container = container(request.container);
                done(plugin.post_update_container(pod(request.pod), container))
            }),
            "StopContainer" => self.with(payload, |request| self.stop_container(request)),
            "RemoveContainer" => self.with(payload, |request: RemoveContainerRequest| {
                let container = container(request.container);
                done(plugin.remove_container(pod(request.pod), container))
            }),
            "ValidateContainerAdjustment" => self.with(payload, |request| self.validate(request)),
            _ => ready(Err(Status::unimplemented(PLUGIN, method))),
        }
    }

    fn with<'a, M, F>(&self, payload: &Bytes, handler: impl FnOnce(M) -> F) -> Answer<'a>
    where
        M: cost::Message,
        F: Future<Output = Result<Bytes, Status>> + Send + 'a,
    {
        match self.decode(payload) {
            Ok(request) => Box::pin(handler(request)),
            Err(status) => ready(Err(status)),
        }
    }

    async fn configure(&self, request: ConfigureRequest) -> Result<Bytes, Status> {
        let outcome = ConfigureOutcome(&self.progress);
        let nri_version = self.shared.learn(&request);
        let configuration = Configuration {
            config: request.config,
            runtime_name: request.runtime_name,
            runtime_version: request.runtime_version,
            nri_version: nri_version.clone(),
            handle: self.shared.handle(),
        };
        let subscribed = self.subscribe(configuration, &nri_version).await;
        outcome.set(match &subscribed {
            Ok(_) => Ok(()),
            Err(status) => Err(status.message.clone()),
        });
        let events = subscribed?.bits();
        reply(&ConfigureResponse { events })
    }

    async fn subscribe(
        &self,
        configuration: Configuration,
        nri_version: &str,
    ) -> Result<EventMask, Status> {
        let chosen = self.plugin.configure(configuration).await;
        let chosen = chosen.map_err(|error| status(&error))?;
        let wanted = if chosen.is_empty() {
            self.plugin.events()
        } else {
            chosen
        };
        negotiate::subscription(wanted, self.plugin.handlers(), nri_version)
            .map_err(|error| Status::new(Code::Unknown, error.to_string()))
    }

    async fn synchronize(&self, payload: &Bytes) -> Result<Bytes, Status> {
        let memory = cost::measure::<SynchronizeRequest>(payload, &Limits::default());
        let memory = memory.map_err(|error| self.refusal(&error))?;
        // Already measured: decoding it does not have to be.
        let request = SynchronizeRequest::decode(payload.as_ref())
            .map_err(|error| Status::new(Code::Internal, error.to_string()))?;
        let step = {
            let mut gather = self.gather.lock().unwrap_or_else(PoisonError::into_inner);
            gather.take(request, memory, &self.limits)
        };
        match step {
            Step::More => reply(&SynchronizeResponse {
                more: true,
                ..SynchronizeResponse::default()
            }),
            Step::TooMuch => {
                let SyncLimits { memory, objects } = self.limits;
                let text = format!(
                    "plugin {} takes a synchronization of at most {objects} objects and {memory} bytes",
                    self.shared.id
                );
                Err(Status::new(Code::ResourceExhausted, text))
            }
            Step::Complete(pods, containers) => {
                let update = self.plugin.synchronize(pods, containers).await;
                let update = update.map_err(|error| status(&error))?;
                reply(&SynchronizeResponse {
                    update,
                    more: false,
                })
            }
        }
    }

    async fn shutdown(&self) -> Result<Bytes, Status> {
        let result = self.plugin.shutdown().await;
        self.progress
            .send_modify(|progress| progress.shutdown = true);
        result.map_err(|error| status(&error))?;
        reply(&Empty {})
    }

    /// What runtimes from before the single methods send for nine events.
    async fn state_change(&self, change: StateChangeEvent) -> Result<Bytes, Status> {
        let (pod, container) = (pod(change.pod), container(change.container));
        let plugin = &self.plugin;
        match Event::try_from(change.event).unwrap_or(Event::Unknown) {
            Event::RunPodSandbox => done(plugin.run_pod_sandbox(pod)).await,
            Event::PostUpdatePodSandbox => done(plugin.post_update_pod_sandbox(pod)).await,
            Event::StopPodSandbox => done(plugin.stop_pod_sandbox(pod)).await,
            Event::RemovePodSandbox => done(plugin.remove_pod_sandbox(pod)).await,
            Event::PostCreateContainer => done(plugin.post_create_container(pod, container)).await,
            Event::StartContainer => done(plugin.start_container(pod, container)).await,
            Event::PostStartContainer => done(plugin.post_start_container(pod, container)).await,
            Event::PostUpdateContainer => done(plugin.post_update_container(pod, container)).await,
            Event::RemoveContainer => done(plugin.remove_container(pod, container)).await,
            Event::CreateContainer
            | Event::UpdateContainer
            | Event::StopContainer
            | Event::UpdatePodSandbox
            | Event::ValidateContainerAdjustment
            | Event::Unknown
            | Event::Last => reply(&Empty {}),
        }
    }

    async fn create_container(&self, request: CreateContainerRequest) -> Result<Bytes, Status> {
        let container = container(request.container);
        let answer = self.plugin.create_container(pod(request.pod), container);
        let answer = answer.await.map_err(|error| status(&error))?;
        reply(&CreateContainerResponse {
            adjust: Some(answer.adjustment),
            update: answer.updates,
            evict: answer.evictions,
        })
    }

    async fn update_container(&self, request: UpdateContainerRequest) -> Result<Bytes, Status> {
        let container = container(request.container);
        let resources = request.linux_resources.unwrap_or_default();
        let answer = self
            .plugin
            .update_container(pod(request.pod), container, resources);
        let answer = answer.await.map_err(|error| status(&error))?;
        reply(&UpdateContainerResponse {
            update: answer.updates,
            evict: answer.evictions,
        })
    }

    async fn stop_container(&self, request: StopContainerRequest) -> Result<Bytes, Status> {
        let container = container(request.container);
        let update = self.plugin.stop_container(pod(request.pod), container);
        let update = update.await.map_err(|error| status(&error))?;
        reply(&StopContainerResponse { update })
    }

    /// A validator's error is its verdict.
    async fn validate(&self, request: ValidateContainerAdjustmentRequest) -> Result<Bytes, Status> {
        let verdict = self.plugin.validate_container_adjustment(request).await;
        let reason = verdict.err().map(|error| chain(error.as_ref()));
        reply(&ValidateContainerAdjustmentResponse {
            reject: reason.is_some(),
            reason: reason.unwrap_or_default(),
        })
    }

    fn decode<M: cost::Message>(&self, payload: &[u8]) -> Result<M, Status> {
        cost::decode(payload, &Limits::default()).map_err(|error| self.refusal(&error))
    }

    fn refusal(&self, error: &CostError) -> Status {
        let code = match error {
            CostError::TooCostly { .. } | CostError::TooDeep { .. } => Code::ResourceExhausted,
            _ => Code::Internal,
        };
        Status::new(code, format!("plugin {}: {error}", self.shared.id))
    }
}

impl<P: Plugin> Service for PluginService<P> {
    async fn call(&self, request: Request) -> Result<Bytes, Status> {
        if request.service != PLUGIN {
            return Err(Status::unimplemented(&request.service, &request.method));
        }
        let answer = self.dispatch(&request.method, &request.payload);
        if request.deadline.is_some() {
            // The transport drops the handler then.
            return answer.await;
        }
        let timeout = self.shared.request_timeout();
        tokio::time::timeout(timeout, answer)
            .await
            .unwrap_or_else(|_| {
                let text = format!("no answer within {timeout:?}");
                Err(Status::new(Code::DeadlineExceeded, text))
            })
    }
}

/// Tells how a configuration ended, also when its handler panics or is cut off.
struct ConfigureOutcome<'a>(&'a watch::Sender<Progress>);

impl ConfigureOutcome<'_> {
    fn set(&self, outcome: Result<(), String>) {
        self.0
            .send_modify(|progress| progress.configured = Some(outcome));
    }
}

impl Drop for ConfigureOutcome<'_> {
    fn drop(&mut self) {
        if self.0.borrow().configured.is_none() {
            self.set(Err("its handler did not come to an end".to_owned()));
        }
    }
}

fn ready<'a>(answer: Result<Bytes, Status>) -> Answer<'a> {
    Box::pin(future::ready(answer))
}

fn pod(pod: Option<PodSandbox>) -> PodSandbox {
    pod.unwrap_or_default()
}

fn container(container: Option<Container>) -> Container {
    container.unwrap_or_default()
}

/// For the events that are answered with nothing: their replies are all empty messages.
async fn done(handler: impl Future<Output = HandlerResult<()>>) -> Result<Bytes, Status> {
    handler.await.map_err(|error| status(&error))?;
    reply(&Empty {})
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "every method of the service ends with it"
)]
fn reply(message: &impl Message) -> Result<Bytes, Status> {
    Ok(Bytes::from(message.encode_to_vec()))
}

/// The status of a handler's error: its own, or 2 with the texts of the error and its sources.
fn status(error: &HandlerError) -> Status {
    error
        .downcast_ref::<Status>()
        .cloned()
        .unwrap_or_else(|| Status::new(Code::Unknown, chain(error.as_ref())))
}

fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    // As many as an error has when it was made with reason.
    for _ in 0..32 {
        let Some(cause) = source else { break };
        let cause_text = cause.to_string();
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests;
