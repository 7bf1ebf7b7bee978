//! What a plugin can see and ask of its own stub while that runs.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use longshore_nri_api::cost::{self, Limits};
use longshore_nri_api::service::RUNTIME;
use longshore_nri_api::{
    ConfigureRequest, ContainerUpdate, NRI_VERSION, PluginId, UpdateContainersRequest,
    UpdateContainersResponse, infer_nri_version,
};
use longshore_ttrpc::{CallError, CallOptions, Client};
use tokio::sync::watch;

use crate::error::StubError;

/// How long a runtime waits for a plugin to register, unless it says otherwise.
pub const DEFAULT_REGISTRATION_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a runtime waits for an answer, unless it says otherwise.
pub const DEFAULT_REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// What a level of NRI is when nobody knows it.
const UNKNOWN: &str = "unknown";
/// What builds without a version say.
const NO_VERSION: [&str; 4] = ["", "(devel)", "0.0.0-unknown", UNKNOWN];

/// Where a stub is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Not started, or stopped.
    Idle,
    /// Connecting, registering, waiting to be configured.
    Connecting,
    /// Configured: requests come.
    Active,
    /// The connection is lost; the next attempt is made after this time.
    Waiting(Duration),
}

/// What a stub knows at a moment.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StubStatus {
    /// Rises with every change.
    pub generation: u64,
    /// Where it is in its life.
    pub phase: Phase,
    /// How many times it has been configured.
    pub connections: u64,
    /// Name of the runtime that configured it last.
    pub runtime_name: Option<String>,
    /// Its version.
    pub runtime_version: Option<String>,
    /// Its level of NRI; `unknown` before the first configuration, and when it cannot be told.
    pub runtime_nri_version: String,
    /// How long that runtime waits for a registration.
    pub registration_timeout: Duration,
    /// How long it waits for an answer.
    pub request_timeout: Duration,
    /// Why the last connection, or the last attempt, ended.
    pub last_error: Option<String>,
}

/// Asks the runtime, and tells how the stub does. Clones speak of the same stub.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

/// What a stub, its connections and its handles share.
pub(crate) struct Shared {
    pub(crate) id: PluginId,
    /// How long to wait for each step of a registration, at least.
    patience: Duration,
    status: watch::Sender<StubStatus>,
    connection: Mutex<Connection>,
    started: AtomicBool,
    /// Rises with every wish to stop.
    stops: watch::Sender<u64>,
}

/// The way to the runtime.
#[derive(Default)]
struct Connection {
    client: Option<Client>,
    /// The runtime has accepted the plugin, and may be asked for more.
    accepted: bool,
}

/// A stub serves one runtime at a time; dropping this makes it ready for the next start.
pub(crate) struct Started(Arc<Shared>);

impl Drop for Started {
    fn drop(&mut self) {
        self.0.disconnected();
        self.0.phase(Phase::Idle);
        self.0.started.store(false, Ordering::Release);
    }
}

impl Shared {
    pub(crate) fn new(id: PluginId, patience: Duration) -> Arc<Self> {
        let status = StubStatus {
            generation: 0,
            phase: Phase::Idle,
            connections: 0,
            runtime_name: None,
            runtime_version: None,
            runtime_nri_version: UNKNOWN.to_owned(),
            registration_timeout: DEFAULT_REGISTRATION_TIMEOUT,
            request_timeout: DEFAULT_REQUEST_TIMEOUT,
            last_error: None,
        };
        Arc::new(Self {
            id,
            patience,
            status: watch::Sender::new(status),
            connection: Mutex::new(Connection::default()),
            started: AtomicBool::new(false),
            stops: watch::Sender::new(0),
        })
    }

    pub(crate) fn handle(self: &Arc<Self>) -> Handle {
        Handle {
            shared: Arc::clone(self),
        }
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut StubStatus)) {
        self.status.send_modify(|status| {
            status.generation += 1;
            change(status);
        });
    }

    pub(crate) fn phase(&self, phase: Phase) {
        self.change(|status| status.phase = phase);
    }

    pub(crate) fn status(&self) -> StubStatus {
        self.status.borrow().clone()
    }

    /// How long to wait for each step of a registration: as long as the runtime says, or longer.
    pub(crate) fn patience(&self) -> Duration {
        let told = self.status.borrow().registration_timeout;
        told.max(self.patience)
    }

    pub(crate) fn request_timeout(&self) -> Duration {
        self.status.borrow().request_timeout
    }

    /// A runtime introduces itself. Timeouts that are absent, as with old runtimes, change nothing.
    pub(crate) fn learn(&self, request: &ConfigureRequest) -> String {
        let nri_version = nri_version(request).to_owned();
        self.connection().accepted = true;
        self.change(|status| {
            status.runtime_name = Some(request.runtime_name.clone());
            status.runtime_version = Some(request.runtime_version.clone());
            status.runtime_nri_version.clone_from(&nri_version);
            if let Some(timeout) = millis(request.registration_timeout) {
                status.registration_timeout = timeout;
            }
            if let Some(timeout) = millis(request.request_timeout) {
                status.request_timeout = timeout;
            }
        });
        nri_version
    }

    fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn start(self: &Arc<Self>) -> Result<Started, StubError> {
        if self.started.swap(true, Ordering::AcqRel) {
            return Err(StubError::AlreadyStarted);
        }
        Ok(Started(Arc::clone(self)))
    }

    pub(crate) fn connected(&self, client: Client) {
        *self.connection() = Connection {
            client: Some(client),
            accepted: false,
        };
    }

    pub(crate) fn disconnected(&self) {
        *self.connection() = Connection::default();
    }

    fn accepted(&self) -> Result<Client, StubError> {
        let connection = self.connection();
        let client = connection.client.clone().filter(|_| connection.accepted);
        client.ok_or(StubError::NotConnected)
    }

    pub(crate) fn stops(&self) -> watch::Receiver<u64> {
        self.stops.subscribe()
    }
}

impl Handle {
    /// Ends the connection. [`Stub::run`](crate::Stub::run) returns, and does not connect again;
    /// handlers that are running are dropped. Nothing happens when the stub is not started.
    pub fn stop(&self) {
        self.shared.stops.send_modify(|stops| *stops += 1);
    }

    /// Changes the resources of containers without being asked. Answers with the updates that the
    /// runtime could not make.
    ///
    /// Waits for at most the runtime's request timeout. Cancelling it is safe; the runtime may
    /// have made the updates all the same. It can be called from inside a handler, but runtimes
    /// that use the Go adaptation may make it wait for the request that is being handled.
    ///
    /// # Errors
    /// [`StubError::NotConnected`] before the first and between two connections;
    /// [`StubError::UpdateContainers`] when the runtime refuses or does not answer.
    pub async fn update_containers(
        &self,
        updates: Vec<ContainerUpdate>,
    ) -> Result<Vec<ContainerUpdate>, StubError> {
        let request = UpdateContainersRequest {
            update: updates,
            ..UpdateContainersRequest::default()
        };
        let timeout = self.request_timeout();
        self.update_and_evict(request, timeout).await
    }

    /// As [`Self::update_containers`], with evictions, and within a time of its own.
    ///
    /// # Errors
    /// As there.
    pub async fn update_and_evict(
        &self,
        request: UpdateContainersRequest,
        timeout: Duration,
    ) -> Result<Vec<ContainerUpdate>, StubError> {
        let client = self.shared.accepted()?;
        let options = CallOptions::timeout(timeout);
        let answer = client
            .call_raw(RUNTIME, "UpdateContainers", &request, &options)
            .await
            .map_err(|source| match source {
                CallError::Closed(source) => StubError::Closed { source },
                source => StubError::UpdateContainers { source },
            })?;
        cost::decode::<UpdateContainersResponse>(&answer, &Limits::default())
            .map(|answer| answer.failed)
            .map_err(|source| StubError::Answer { source })
    }

    /// The plugin's index and name.
    #[must_use]
    pub fn id(&self) -> &PluginId {
        &self.shared.id
    }

    /// All that is known at this moment.
    #[must_use]
    pub fn status(&self) -> StubStatus {
        self.shared.status()
    }

    /// Tells every change of the status.
    #[must_use]
    pub fn watch(&self) -> watch::Receiver<StubStatus> {
        self.shared.status.subscribe()
    }

    /// How long the runtime waits for a registration: 5 s before it has said so.
    #[must_use]
    pub fn registration_timeout(&self) -> Duration {
        self.shared.status.borrow().registration_timeout
    }

    /// How long the runtime waits for an answer: 2 s before it has said so.
    #[must_use]
    pub fn request_timeout(&self) -> Duration {
        self.shared.request_timeout()
    }

    /// The level of NRI that the runtime speaks: `unknown` before it has said so.
    #[must_use]
    pub fn runtime_nri_version(&self) -> String {
        self.shared.status.borrow().runtime_nri_version.clone()
    }

    /// The level of NRI that this stub speaks.
    #[must_use]
    pub fn nri_version(&self) -> &'static str {
        NRI_VERSION
    }
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("id", &self.shared.id)
            .field("phase", &self.shared.status.borrow().phase)
            .finish_non_exhaustive()
    }
}

/// What the runtime says, or what its name and version tell.
fn nri_version(request: &ConfigureRequest) -> &str {
    let told = request.nri_version.as_str();
    if NO_VERSION.contains(&told) {
        infer_nri_version(&request.runtime_name, &request.runtime_version).unwrap_or(UNKNOWN)
    } else {
        told
    }
}

/// The longest timeout that is believed: whoever waits for ever has no deadline.
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// A timeout of the wire; absent (0) and senseless ones are none.
fn millis(millis: i64) -> Option<Duration> {
    u64::try_from(millis)
        .ok()
        .filter(|millis| *millis > 0)
        .map(|millis| Duration::from_millis(millis).min(LONGEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_of_old_runtimes_keep_the_defaults() {
        let id = PluginId::new("10", "test").unwrap();
        let shared = Shared::new(id, DEFAULT_REGISTRATION_TIMEOUT);
        for (registration, request, expected) in [
            (0, 0, (5000, 2000)),
            (-1, i64::MIN, (5000, 2000)),
            (5005, 2007, (5005, 2007)),
            (0, 3000, (5005, 3000)),
            (i64::MAX, i64::MAX, (3_600_000, 3_600_000)),
        ] {
            shared.learn(&ConfigureRequest {
                registration_timeout: registration,
                request_timeout: request,
                ..ConfigureRequest::default()
            });
            let status = shared.status();
            let (a, b) = expected;
            assert_eq!(status.registration_timeout, Duration::from_millis(a));
            assert_eq!(status.request_timeout, Duration::from_millis(b));
        }
    }

    #[test]
    fn the_level_of_nri_is_told_or_inferred_or_unknown() {
        for (told, name, version, expected) in [
            ("v9.8.7", "test-runtime", "1.2.3", "v9.8.7"),
            ("", "containerd", "v1.7.28", "v0.8.0"),
            ("(devel)", "cri-o", "1.32.4", "v0.9.0"),
            ("0.0.0-unknown", "containerd", "v2.2.1", "v0.11.0"),
            ("", "dockerd", "28.5.2", "unknown"),
        ] {
            let request = ConfigureRequest {
                nri_version: told.into(),
                runtime_name: name.into(),
                runtime_version: version.into(),
                ..ConfigureRequest::default()
            };
            assert_eq!(nri_version(&request), expected, "{request:?}");
        }
    }
}
