//! What a plugin may ask of the runtime.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use bytes::Bytes;
use longshore_nri_api::{
    Empty, PluginId, RegisterPluginRequest, UpdateContainersRequest, UpdateContainersResponse,
    cost, service,
};
use longshore_ttrpc::{Client, Code, MAX_DATA, Request, Service, Status};
use prost::Message;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio_util::sync::CancellationToken;

use super::session::{Refusal, Session};
use crate::core::Core;
use crate::fields::FieldSet;
use crate::merge::check_updates;
use crate::runtime::{ChangeCause, Changes};
use crate::status::CloseCause;

/// The largest request of a peer that has not registered, in bytes.
pub(crate) const UNREGISTERED_MAX: usize = 64 << 10;

/// What a RegisterPlugin may cost decoded.
const REGISTRATION_COST: cost::Limits = cost::Limits {
    max_cost: 256 << 10,
    max_depth: 4,
};

/// A peer that has said who it is.
pub(crate) struct Registered {
    pub(crate) id: PluginId,
    pub(crate) nri_version: String,
    /// Its place among the registered ones; a launched plugin needs none.
    pub(crate) place: Option<OwnedSemaphorePermit>,
}

/// What the task of a connection and the handlers of its requests share.
pub(crate) struct Connection {
    pub(crate) session: Mutex<Session>,
    registered: Mutex<Option<oneshot::Sender<Registered>>>,
    misbehaved: Mutex<Option<CloseCause>>,
    /// Cancelled when the connection is to end because of what the peer asked.
    broken: CancellationToken,
    id: OnceLock<PluginId>,
    /// One list of updates at a time, in order.
    updates: Semaphore,
    client: OnceLock<Client>,
}

impl Connection {
    pub(crate) fn new(fixed: Option<PluginId>) -> (Arc<Self>, oneshot::Receiver<Registered>) {
        let (sender, receiver) = oneshot::channel();
        let connection = Self {
            session: Mutex::new(Session::new(fixed)),
            registered: Mutex::new(Some(sender)),
            misbehaved: Mutex::new(None),
            broken: CancellationToken::new(),
            id: OnceLock::new(),
            updates: Semaphore::new(1),
            client: OnceLock::new(),
        };
        (Arc::new(connection), receiver)
    }

    /// Before the first request is read.
    pub(crate) fn set_client(&self, client: &Client) {
        self.client.get_or_init(|| client.clone());
    }

    pub(crate) fn session(&self) -> MutexGuard<'_, Session> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until the peer did something that ends the connection.
    pub(crate) async fn misbehaved(&self) -> CloseCause {
        self.broken.cancelled().await;
        let misbehaved = self
            .misbehaved
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        misbehaved.clone().unwrap_or(CloseCause::Shutdown)
    }

    pub(crate) fn is_broken(&self) -> bool {
        self.broken.is_cancelled()
    }

    fn refuse(&self, refusal: Refusal) -> Status {
        if let Some(cause) = refusal.close {
            self.session().close();
            let mut misbehaved = self
                .misbehaved
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            misbehaved.get_or_insert(cause);
            self.broken.cancel();
        }
        refusal.status
    }

    /// Bytes that are no message of the type, or a too costly one: the peer is broken.
    fn undecodable(&self, method: &str, error: &cost::CostError) -> Status {
        let code = match error {
            cost::CostError::TooCostly { .. } | cost::CostError::TooDeep { .. } => {
                Code::ResourceExhausted
            }
            _ => Code::Internal,
        };
        let name = self
            .id
            .get()
            .map_or_else(|| "?".to_owned(), ToString::to_string);
        let status = Status::new(code, format!("plugin {name:?}: {error}"));
        self.refuse(Refusal {
            status,
            close: Some(CloseCause::Undecodable {
                method: method.to_owned(),
                error: error.to_string(),
            }),
        })
    }
}

/// The service that a connection sees.
pub(crate) struct RuntimeService {
    pub(crate) core: Arc<Core>,
    pub(crate) connection: Arc<Connection>,
}

impl Service for RuntimeService {
    async fn call(&self, request: Request) -> Result<Bytes, Status> {
        if request.service != service::RUNTIME {
            return Err(Status::unimplemented(&request.service, &request.method));
        }
        match request.method.as_str() {
            "RegisterPlugin" => self.register(&request.payload),
            "UpdateContainers" => self.update(&request.payload).await,
            method => Err(Status::unimplemented(&request.service, method)),
        }
    }
}

impl RuntimeService {
    fn register(&self, payload: &[u8]) -> Result<Bytes, Status> {
        let connection = &self.connection;
        let request: RegisterPluginRequest = cost::decode(payload, &REGISTRATION_COST)
            .map_err(|error| connection.undecodable("RegisterPlugin", &error))?;
        let mut place = None;
        let places = &self.core.registered;
        let room = || {
            place = Arc::clone(places).try_acquire_owned().ok();
            let registered = self.core.settings.limits.registered;
            place.as_ref().map(|_| ()).ok_or(registered)
        };
        let registered =
            connection
                .session()
                .register(&request.plugin_idx, &request.plugin_name, room);
        let id = registered.map_err(|refusal| connection.refuse(refusal))?;
        connection.id.get_or_init(|| id.clone());
        if let Some(client) = connection.client.get() {
            client.set_request_limit(MAX_DATA);
        }
        let sender = connection
            .registered
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let registered = Registered {
            id,
            nri_version: request.nri_version.chars().take(64).collect(),
            place,
        };
        // When the task is gone, so is the connection.
        if let Some(sender) = sender {
            drop(sender.send(registered));
        }
        Ok(encode(&Empty {}))
    }

    async fn update(&self, payload: &[u8]) -> Result<Bytes, Status> {
        let connection = &self.connection;
        let allowed = connection.session().update();
        allowed.map_err(|refusal| connection.refuse(refusal))?;
        let id =
            connection.id.get().cloned().ok_or_else(|| {
                Status::new(Code::FailedPrecondition, "the plugin is not registered")
            })?;
        let Ok(_turn) = connection.updates.acquire().await else {
            return Err(Status::new(Code::Unavailable, "the connection is closed"));
        };
        let request: UpdateContainersRequest = cost::decode(payload, &cost::Limits::default())
            .map_err(|error| connection.undecodable("UpdateContainers", &error))?;
        let failed = self
            .core
            .apply(id, ChangeCause::Unsolicited, request.update, request.evict);
        let failed = failed.await?;
        Ok(encode(&UpdateContainersResponse { failed }))
    }
}

impl Core {
    /// Has the runtime apply what a plugin wants changed, in a task of its own.
    ///
    /// # Errors
    /// What the plugin is told: values that no container can have, fields that its policy does
    /// not allow, or what the runtime says.
    pub(crate) async fn apply(
        self: &Arc<Self>,
        plugin: PluginId,
        cause: ChangeCause,
        updates: Vec<longshore_nri_api::ContainerUpdate>,
        evictions: Vec<longshore_nri_api::ContainerEviction>,
    ) -> Result<Vec<longshore_nri_api::ContainerUpdate>, Status> {
        let name = plugin.to_string();
        check_updates(&name, &updates, &evictions)
            .map_err(|error| Status::new(Code::InvalidArgument, error.to_string()))?;
        let policy = self.settings.policies.get(&name, plugin.base());
        let denied = FieldSet::of_updates(&updates).without(policy.allow_fields);
        if !denied.is_empty() {
            let text = format!("plugin {name:?} may not set {denied}");
            return Err(Status::new(Code::PermissionDenied, text));
        }
        let changes = Changes {
            plugin,
            cause,
            updates,
            evictions,
        };
        let runtime = Arc::clone(&self.runtime);
        let applying = self
            .tasks
            .spawn(async move { runtime.apply(changes).await });
        match applying.await {
            Ok(Ok(failed)) => Ok(failed),
            Ok(Err(error)) => Err(Status::new(Code::Unknown, error.to_string())),
            Err(_) => Err(Status::new(Code::Internal, "the runtime panicked")),
        }
    }
}

fn encode(message: &impl Message) -> Bytes {
    message.encode_to_vec().into()
}
