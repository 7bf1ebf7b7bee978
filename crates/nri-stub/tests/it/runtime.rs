//! A runtime that does what a test wants.

use std::future::Future;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use longshore_nri_stub::api::service::{PLUGIN, PLUGIN_CONNECTION, RUNTIME_CONNECTION};
use longshore_nri_stub::api::{
    ConfigureRequest, ConfigureResponse, RegisterPluginRequest, SynchronizeRequest,
    SynchronizeResponse, UpdateContainersRequest, UpdateContainersResponse,
};
use longshore_nri_stub::{
    CallError, CloseReason, Environment, Plugin, Session, Status, Stub, StubBuilder, StubError,
};
use longshore_ttrpc::{CallOptions, Client, Layout, Options, Request, Service, start};
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::net::UnixListener;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

/// Nothing in these tests takes this long, however busy the machine is.
pub(crate) const LONG: Duration = Duration::from_secs(30);

/// What the runtime serves to its plugin.
#[derive(Clone)]
pub(crate) struct RuntimeService {
    registrations: mpsc::Sender<RegisterPluginRequest>,
    updates: mpsc::Sender<UpdateContainersRequest>,
    /// Answers to registrations wait for it.
    pub(crate) answer: Arc<Notify>,
    pub(crate) silent: Arc<AtomicBool>,
    refusal: Option<Status>,
}

impl Service for RuntimeService {
    async fn call(&self, request: Request) -> Result<Bytes, Status> {
        match request.method.as_str() {
            "RegisterPlugin" => {
                let registration = RegisterPluginRequest::decode(request.payload).unwrap();
                self.registrations.send(registration).await.unwrap();
                if self.silent.load(Ordering::SeqCst) {
                    self.answer.notified().await;
                }
                self.refusal.clone().map_or_else(|| Ok(Bytes::new()), Err)
            }
            "UpdateContainers" => {
                let request = UpdateContainersRequest::decode(request.payload).unwrap();
                if request.update.is_empty() {
                    return Err(Status::new(longshore_nri_stub::Code::Unknown, "no updates"));
                }
                // The last one always fails.
                let failed = request.update.last().cloned().into_iter().collect();
                self.updates.send(request).await.unwrap();
                let response = UpdateContainersResponse { failed };
                Ok(Bytes::from(response.encode_to_vec()))
            }
            method => Err(Status::unimplemented(&request.service, method)),
        }
    }
}

/// The runtime's end of one connection.
pub(crate) struct FakeRuntime {
    pub(crate) client: Client,
    pub(crate) service: RuntimeService,
    registrations: mpsc::Receiver<RegisterPluginRequest>,
    pub(crate) updates: mpsc::Receiver<UpdateContainersRequest>,
    driver: JoinHandle<CloseReason>,
}

impl Drop for FakeRuntime {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl FakeRuntime {
    pub(crate) fn on<T>(stream: T) -> Self
    where
        T: AsyncRead + AsyncWrite + Send + 'static,
    {
        Self::refusing(stream, None)
    }

    pub(crate) fn refusing<T>(stream: T, refusal: Option<Status>) -> Self
    where
        T: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (registered, registrations) = mpsc::channel(8);
        let (updated, updates) = mpsc::channel(8);
        let service = RuntimeService {
            registrations: registered,
            updates: updated,
            answer: Arc::new(Notify::new()),
            silent: Arc::new(AtomicBool::new(false)),
            refusal,
        };
        let layout = Layout::Mux {
            client: PLUGIN_CONNECTION,
            server: RUNTIME_CONNECTION,
        };
        let (client, driver) = start(stream, layout, service.clone(), Options::default());
        Self {
            client,
            service,
            registrations,
            updates,
            driver: tokio::spawn(driver),
        }
    }

    /// Leaves the registration without an answer, until told.
    pub(crate) fn hold_registration(self) -> Self {
        self.service.silent.store(true, Ordering::SeqCst);
        self
    }

    pub(crate) fn answer_registration(&self) {
        self.service.answer.notify_one();
    }

    pub(crate) async fn registration(&mut self) -> RegisterPluginRequest {
        self.registrations.recv().await.unwrap()
    }

    pub(crate) async fn call<R: Message + Default>(
        &self,
        method: &str,
        request: &impl Message,
    ) -> Result<R, CallError> {
        let options = CallOptions::timeout(LONG);
        self.client.call(PLUGIN, method, request, &options).await
    }

    pub(crate) async fn configure(&self, request: &ConfigureRequest) -> Result<i32, CallError> {
        let reply: ConfigureResponse = self.call("Configure", request).await?;
        Ok(reply.events)
    }

    pub(crate) async fn synchronize(
        &self,
        request: &SynchronizeRequest,
    ) -> Result<SynchronizeResponse, CallError> {
        self.call("Synchronize", request).await
    }

    /// Registers and configures whoever is at the other end.
    pub(crate) async fn accept(&mut self) -> (RegisterPluginRequest, i32) {
        let registration = self.registration().await;
        let events = self.configure(&today()).await.unwrap();
        (registration, events)
    }
}

/// What a runtime of today says of itself.
pub(crate) fn today() -> ConfigureRequest {
    ConfigureRequest {
        config: "text".into(),
        runtime_name: "test-runtime".into(),
        runtime_version: "1.2.3".into(),
        registration_timeout: 5005,
        request_timeout: 2007,
        nri_version: "v9.8.7".into(),
    }
}

/// What containerd 1.7 says of itself.
pub(crate) fn containerd_1_7() -> ConfigureRequest {
    ConfigureRequest {
        runtime_name: "containerd".into(),
        runtime_version: "v1.7.24".into(),
        ..ConfigureRequest::default()
    }
}

/// A builder that sees nothing of the test's own environment.
pub(crate) fn builder() -> StubBuilder {
    Stub::builder()
        .environment(Environment::default())
        .name("test")
        .index("00")
}

/// A stub and the runtime's end of its connection.
pub(crate) fn pair<P: Plugin>(plugin: P) -> (Stub<P>, FakeRuntime) {
    let (near, far) = stream_pair();
    let stub = builder().connection(near).build(plugin).unwrap();
    (stub, FakeRuntime::on(far))
}

pub(crate) fn stream_pair() -> (DuplexStream, DuplexStream) {
    tokio::io::duplex(64 << 10)
}

/// A stub that is active, and its runtime.
pub(crate) async fn active<P: Plugin>(plugin: P) -> (Stub<P>, Session, FakeRuntime) {
    let (stub, mut runtime) = pair(plugin);
    let (session, _) = tokio::join!(stub.start(), runtime.accept());
    (stub, session.unwrap(), runtime)
}

/// The next plugin that connects.
pub(crate) async fn next(listener: &UnixListener) -> FakeRuntime {
    let (stream, _) = within(listener.accept()).await.unwrap();
    FakeRuntime::on(stream)
}

pub(crate) fn listen(path: &Path) -> UnixListener {
    UnixListener::bind(path).unwrap()
}

/// Fails a test that would hang.
pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(LONG, future).await.expect("in time")
}

pub(crate) fn code(result: Result<impl std::fmt::Debug, CallError>) -> i32 {
    match result {
        Err(CallError::Remote(status)) => status.code.number(),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn text(error: &StubError) -> String {
    error.to_string()
}
