//! The calls. Status comes from memory; whatever waits has a deadline; streams are counted.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use longshore_control_api::v1::{self, control_server::Control};
use longshore_csi_manager::{CsiManager, ManagerError, ManagerStatus};
use longshore_kubelet_registration::{Registrar, RegistrarStatus};
use longshore_mesos_api::json;
use longshore_paths::{InstanceId, RuntimeDir, Service, StateRoot};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio::time::Instant;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::{Request, Response, Status};

use super::convert::{self, millis};
use super::follow;
use super::tasks::Tasks;
use crate::board::{Board, DaemonState};
use crate::config::AgentChoice;
use crate::observe::Observer;
use crate::reload::{self, chain};

/// Watchers and log readers at a time, over all connections; fewer than there may be connections,
/// so that short calls get through.
const STREAMS: usize = 48;

/// The longest that a caller may wait for an endpoint.
const WAIT_MAX: Duration = Duration::from_secs(3600);

/// How long a plugin may take to stop, beyond its own grace.
const ACTION_DEADLINE: Duration = Duration::from_secs(120);

/// The end of a log that is sent when nothing is said, and the most that may be asked for.
const TAIL_DEFAULT: u64 = 64 * 1024;
const TAIL_MAX: u64 = 4 * 1024 * 1024;

/// What does not change while a daemon runs.
#[derive(Debug)]
pub(crate) struct Facts {
    pub(crate) version: &'static str,
    pub(crate) started_at: SystemTime,
    pub(crate) instance: InstanceId,
    pub(crate) state: StateRoot,
    pub(crate) runtime: RuntimeDir,
}

/// The service; cheap to share.
#[derive(Debug)]
pub(crate) struct ControlService {
    facts: Arc<Facts>,
    board: Board,
    manager: CsiManager,
    docker: Tasks,
    registrar: Registrar,
    reloads: mpsc::Sender<reload::Request>,
    streams: Arc<Semaphore>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl ControlService {
    /// Tells what `of` knows.
    pub(crate) fn new(
        of: &Observer,
        reloads: mpsc::Sender<reload::Request>,
        tasks: TaskTracker,
        stop: CancellationToken,
    ) -> Self {
        Self {
            facts: Arc::clone(&of.facts),
            board: of.board.clone(),
            manager: of.manager.clone(),
            docker: of.tasks.clone(),
            registrar: of.registrar.clone(),
            reloads,
            streams: Arc::new(Semaphore::new(STREAMS)),
            tasks,
            stop,
        }
    }

    fn stream_slot(&self) -> Result<OwnedSemaphorePermit, Status> {
        Arc::clone(&self.streams)
            .try_acquire_owned()
            .map_err(|_| Status::resource_exhausted(format!("{STREAMS} streams are open already")))
    }

    fn registered(&self) -> Arc<RegistrarStatus> {
        Arc::clone(&self.registrar.status().borrow())
    }

    fn known(&self, status: &ManagerStatus, name: &str) -> Result<(), Status> {
        if name.is_empty() || status.plugins.contains_key(name) {
            return Ok(());
        }
        Err(Status::not_found(unknown(name, status)))
    }

    /// The service that is meant: the one named, or the first that the plugin offers.
    fn service(&self, name: &str, service: &str) -> Result<Service, Status> {
        let status = self.manager.status().borrow().clone();
        self.known(&status, name)?;
        let plugin = status.plugins.get(name);
        let plugin = plugin.ok_or_else(|| Status::invalid_argument("no plugin is named"))?;
        let mut offered = plugin.endpoints.keys();
        if service.is_empty() {
            let first = offered.next().copied();
            return first
                .ok_or_else(|| Status::not_found(format!("plugin {name} offers no service")));
        }
        offered
            .find(|known| known.short() == service)
            .copied()
            .ok_or_else(|| {
                Status::not_found(format!(
                    "plugin {name} does not offer the service {service:?}"
                ))
            })
    }
}

fn unknown(name: &str, status: &ManagerStatus) -> String {
    let names: Vec<_> = status.plugins.keys().map(String::as_str).collect();
    if names.is_empty() {
        format!("no plugin is named {name:?}; none is configured")
    } else {
        format!(
            "no plugin is named {name:?}; there are: {}",
            names.join(", ")
        )
    }
}

/// Everything, as one message.
fn status(
    facts: &Facts,
    daemon: &DaemonState,
    manager: &ManagerStatus,
    docker: &Tasks,
    registered: &RegistrarStatus,
    request: &v1::GetStatusRequest,
) -> v1::Status {
    let config = &daemon.config;
    let (url, embedded) = match &config.agent {
        AgentChoice::Embedded(_) => ("embedded".to_owned(), true),
        AgentChoice::External { url, .. } => (url.clone(), false),
    };
    let silent = daemon.silent.clone().or_else(|| {
        manager
            .waiting
            .as_ref()
            .map(|waiting| (waiting.since, waiting.reason.clone()))
    });
    let errors: Vec<_> = daemon.broken.iter().chain(&daemon.refused).collect();
    let sandbox = |id: &longshore_paths::ContainerId| {
        if embedded {
            facts.state.sandbox(id).to_string_lossy().into_owned()
        } else {
            String::new()
        }
    };
    v1::Status {
        version: facts.version.to_owned(),
        generation: daemon.generation
            + manager.generation
            + registered.generation
            + *docker.changes().borrow(),
        pid: std::process::id(),
        started_at_ms: millis(facts.started_at),
        instance_id: facts.instance.to_string(),
        state_dir: facts.state.path().to_string_lossy().into_owned(),
        runtime_dir: facts.runtime.path().to_string_lossy().into_owned(),
        config: Some(v1::ConfigStatus {
            path: config
                .path
                .as_ref()
                .map_or_else(String::new, |p| p.to_string_lossy().into_owned()),
            loaded_at_ms: millis(daemon.loaded_at),
            error: errors
                .iter()
                .map(|(_, error)| error.as_str())
                .collect::<Vec<_>>()
                .join("; "),
            error_at_ms: errors
                .iter()
                .map(|(since, _)| millis(*since))
                .min()
                .unwrap_or(0),
            warnings: config.warnings.clone(),
        }),
        agent: Some(v1::AgentStatus {
            url,
            embedded,
            silent_since_ms: silent.as_ref().map_or(0, |(since, _)| millis(*since)),
            error: silent.map_or_else(String::new, |(_, reason)| reason),
        }),
        plugins: convert::plugins(manager, registered, request, &sandbox),
        strays: manager.strays.iter().map(|s| s.id.clone()).collect(),
        foreign: manager.foreign.iter().map(convert::foreign).collect(),
        quarantined: daemon.quarantined.iter().map(convert::aside).collect(),
        tasks: Some(docker.status()),
    }
}

/// What an error of the manager is on the wire.
fn refused(error: &ManagerError) -> Status {
    let text = chain(error);
    match error {
        ManagerError::UnknownPlugin { .. } | ManagerError::ServiceNotOffered { .. } => {
            Status::not_found(text)
        }
        _ => Status::failed_precondition(text),
    }
}

async fn within<T>(
    what: &str,
    action: impl Future<Output = Result<T, ManagerError>>,
) -> Result<T, Status> {
    match tokio::time::timeout(ACTION_DEADLINE, action).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(refused(&error)),
        Err(_) => Err(Status::deadline_exceeded(format!(
            "{what} has not ended within {}s; it goes on",
            ACTION_DEADLINE.as_secs()
        ))),
    }
}

type Streamed<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Control for ControlService {
    type WatchStatusStream = Streamed<v1::Status>;
    type CsiLogsStream = Streamed<v1::CsiLogsResponse>;

    async fn get_status(
        &self,
        request: Request<v1::GetStatusRequest>,
    ) -> Result<Response<v1::Status>, Status> {
        let request = request.into_inner();
        self.manager.look_again();
        let manager = self.manager.status().borrow().clone();
        self.known(&manager, &request.name)?;
        Ok(Response::new(status(
            &self.facts,
            &self.board.now(),
            &manager,
            &self.docker,
            &self.registered(),
            &request,
        )))
    }

    async fn watch_status(
        &self,
        request: Request<v1::GetStatusRequest>,
    ) -> Result<Response<Self::WatchStatusStream>, Status> {
        let request = request.into_inner();
        let mut manager = self.manager.status();
        self.known(&manager.borrow().clone(), &request.name)?;
        let slot = self.stream_slot()?;
        let mut daemon: watch::Receiver<_> = self.board.subscribe();
        let (facts, stop) = (Arc::clone(&self.facts), self.stop.clone());
        let docker = self.docker.clone();
        let mut tasks = docker.changes();
        let mut registered = self.registrar.status();
        let (sender, receiver) = mpsc::channel(1);
        self.tasks.spawn(async move {
            let _slot = slot;
            loop {
                tasks.mark_unchanged();
                let (one, other) = (
                    Arc::clone(&daemon.borrow_and_update()),
                    manager.borrow_and_update().clone(),
                );
                let registrations = Arc::clone(&registered.borrow_and_update());
                let message = status(&facts, &one, &other, &docker, &registrations, &request);
                if sender.send(Ok(message)).await.is_err() {
                    return;
                }
                tokio::select! {
                    changed = daemon.changed() => if changed.is_err() { return },
                    changed = manager.changed() => if changed.is_err() { return },
                    changed = tasks.changed() => if changed.is_err() { return },
                    changed = registered.changed() => if changed.is_err() { return },
                    () = sender.closed() => return,
                    () = stop.cancelled() => return,
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn reload(
        &self,
        _request: Request<v1::ReloadRequest>,
    ) -> Result<Response<v1::ReloadResponse>, Status> {
        let (sender, receiver) = oneshot::channel();
        let busy = || Status::unavailable("the daemon is stopping");
        self.reloads.send(sender).await.map_err(|_| busy())?;
        match receiver.await.map_err(|_| busy())? {
            Ok(reloaded) => Ok(Response::new(v1::ReloadResponse {
                changes: reloaded.changes,
                warnings: reloaded.warnings,
                errors: reloaded.errors,
            })),
            Err(reason) => Err(Status::invalid_argument(reason)),
        }
    }

    async fn csi_inspect(
        &self,
        request: Request<v1::CsiInspectRequest>,
    ) -> Result<Response<v1::CsiInspectResponse>, Status> {
        let name = request.into_inner().name;
        let manager = self.manager.status().borrow().clone();
        let daemon = self.board.now();
        let request = v1::GetStatusRequest {
            name: name.clone(),
            history: true,
        };
        let registered = self.registered();
        let told = status(
            &self.facts,
            &daemon,
            &manager,
            &self.docker,
            &registered,
            &request,
        );
        let plugin = told.plugins.into_iter().next_back();
        let plugin = plugin.ok_or_else(|| Status::not_found(unknown(&name, &manager)))?;
        let spec = daemon
            .config
            .plugins
            .iter()
            .find(|plugin| plugin.name() == name);
        let (config_json, origin) = match spec {
            // Kept for its mounts: no longer in the configuration.
            None => (String::new(), String::new()),
            Some(spec) => {
                let json = json::to_vec_pretty(&spec.config.info)
                    .map_err(|error| Status::internal(error.to_string()))?;
                (
                    String::from_utf8_lossy(&json).into_owned(),
                    spec.origin.to_string(),
                )
            }
        };
        Ok(Response::new(v1::CsiInspectResponse {
            plugin: Some(plugin),
            config_json,
            origin,
        }))
    }

    async fn csi_endpoint(
        &self,
        request: Request<v1::CsiEndpointRequest>,
    ) -> Result<Response<v1::CsiEndpointResponse>, Status> {
        let request = request.into_inner();
        let service = self.service(&request.name, &request.service)?;
        let mut endpoint = self
            .manager
            .endpoint(&request.name, service)
            .map_err(|error| refused(&error))?;
        let deadline = Instant::now() + Duration::from_millis(request.wait_ms).min(WAIT_MAX);
        loop {
            let state = endpoint.borrow_and_update().clone();
            if let Some(ready) = state.ready {
                return Ok(Response::new(v1::CsiEndpointResponse {
                    service: service.short().to_owned(),
                    uri: ready.uri,
                    api_version: ready.version.to_string(),
                }));
            }
            let (name, reason) = (&request.name, &state.reason);
            let not_ready = || {
                let text = format!(
                    "plugin {name} has no endpoint for {}: {reason}",
                    service.short()
                );
                Status::failed_precondition(text)
            };
            tokio::select! {
                changed = tokio::time::timeout_at(deadline, endpoint.changed()) => match changed {
                    Ok(Ok(())) => {}
                    Ok(Err(_)) => return Err(Status::not_found(format!("plugin {name} is gone"))),
                    Err(_) => return Err(not_ready()),
                },
                () = self.stop.cancelled() => return Err(not_ready()),
            }
        }
    }

    async fn csi_restart(
        &self,
        request: Request<v1::CsiRestartRequest>,
    ) -> Result<Response<v1::CsiActionResponse>, Status> {
        let v1::CsiRestartRequest { name, reset, force } = request.into_inner();
        within("the restart", self.manager.restart(&name, reset, force)).await?;
        Ok(Response::new(v1::CsiActionResponse {}))
    }

    async fn csi_stop(
        &self,
        request: Request<v1::CsiStopRequest>,
    ) -> Result<Response<v1::CsiActionResponse>, Status> {
        let v1::CsiStopRequest { name, force } = request.into_inner();
        within("the stop", self.manager.stop(&name, force)).await?;
        Ok(Response::new(v1::CsiActionResponse {}))
    }

    async fn csi_start(
        &self,
        request: Request<v1::CsiStartRequest>,
    ) -> Result<Response<v1::CsiActionResponse>, Status> {
        let name = request.into_inner().name;
        within("the start", self.manager.start(&name)).await?;
        Ok(Response::new(v1::CsiActionResponse {}))
    }

    async fn csi_logs(
        &self,
        request: Request<v1::CsiLogsRequest>,
    ) -> Result<Response<Self::CsiLogsStream>, Status> {
        let request = request.into_inner();
        let status = self.manager.status().borrow().clone();
        self.known(&status, &request.name)?;
        let plugin = status.plugins.get(&request.name);
        let plugin = plugin.ok_or_else(|| Status::invalid_argument("no plugin is named"))?;
        if let AgentChoice::External { url, .. } = &self.board.now().config.agent {
            return Err(Status::failed_precondition(format!(
                "the output of plugin {} is with the agent at {url}",
                request.name
            )));
        }
        if !plugin.managed {
            return Err(Status::failed_precondition(format!(
                "plugin {} is not run by Longshore; its output is where it was started",
                request.name
            )));
        }
        let mut sources = Vec::new();
        for container in &plugin.containers {
            let offers = |service: &Service| service.short() == request.service;
            if request.service.is_empty() || container.services.iter().any(offers) {
                let sandbox = self.facts.state.sandbox(&container.id);
                sources.extend(["stdout", "stderr"].map(|stream| follow::Source {
                    container: container.id.to_string(),
                    stream,
                    path: sandbox.join(stream),
                }));
            }
        }
        let tail = if request.tail_bytes == 0 {
            TAIL_DEFAULT
        } else {
            request.tail_bytes.min(TAIL_MAX)
        };
        let slot = self.stream_slot()?;
        let stop = self.stop.clone();
        let (sender, receiver) = mpsc::channel(4);
        self.tasks.spawn(async move {
            let _slot = slot;
            tokio::select! {
                () = follow::send(sources, tail, request.follow, sender) => {}
                () = stop.cancelled() => {}
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}
