//! A plugin made to order, at the other end of an in-memory stream, and the runtime of the tests.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use longshore_nri_adaptation::{
    Adaptation, ApplyUpdates, Builder, Changes, NodeState, PluginState, PluginStatus,
    RequestOptions, RuntimeError, Snapshot, Timeouts,
};
use longshore_nri_api::{
    ConfigureResponse, Container, ContainerUpdate, CreateContainerRequest, Event, EventMask,
    PodSandbox, RegisterPluginRequest, SynchronizeRequest, SynchronizeResponse,
    UpdateContainersRequest, UpdateContainersResponse, service,
};
use longshore_ttrpc::{
    CallError, CallOptions, Client, CloseReason, KeyValue, Layout, Options, Request, Service,
    Status, start,
};
use prost::Message;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Far longer than anything takes on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

type Reply = Pin<Box<dyn Future<Output = Result<Bytes, Status>> + Send>>;
type Handler = Arc<dyn Fn(Bytes) -> Reply + Send + Sync>;

/// One call of a method.
struct Called {
    method: String,
    request: Bytes,
    metadata: Vec<KeyValue>,
}

/// A plugin that is being made. Answers everything with an empty message, unless told otherwise.
pub(crate) struct Fake {
    index: String,
    name: String,
    handlers: HashMap<&'static str, Handler>,
}

/// A plugin that is connected.
pub(crate) struct Live {
    pub(crate) client: Client,
    index: String,
    name: String,
    calls: watch::Receiver<Vec<Called>>,
    tasks: JoinSet<CloseReason>,
}

pub(crate) fn mask(events: &[Event]) -> i32 {
    events.iter().copied().collect::<EventMask>().bits()
}

impl Fake {
    /// By its full name, `10-foo`.
    pub(crate) fn new(full: &str) -> Self {
        let (index, name) = full.split_once('-').unwrap_or(("", full));
        let fake = Self {
            index: index.to_owned(),
            name: name.to_owned(),
            handlers: HashMap::new(),
        };
        // Without validation, as a plugin that has no function for it.
        fake.bits(EventMask::ALL.bits() & !mask(&[Event::ValidateContainerAdjustment]))
    }

    pub(crate) fn bits(self, events: i32) -> Self {
        self.on("Configure", move |_: Bytes| async move {
            Ok(ConfigureResponse { events })
        })
    }

    pub(crate) fn events(self, events: &[Event]) -> Self {
        self.bits(mask(events))
    }

    /// Handles a method; the request is bytes, so that tests decode what they look at.
    pub(crate) fn on<R, F, Fut>(mut self, method: &'static str, handler: F) -> Self
    where
        R: Message,
        F: Fn(Bytes) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<R, Status>> + Send + 'static,
    {
        let handler: Handler = Arc::new(move |request| {
            let answer = handler(request);
            Box::pin(async move { answer.await.map(|reply| reply.encode_to_vec().into()) })
        });
        self.handlers.insert(method, handler);
        self
    }

    /// Answers a method with bytes as they are.
    pub(crate) fn raw(mut self, method: &'static str, bytes: Vec<u8>) -> Self {
        let bytes = Bytes::from(bytes);
        let handler: Handler = Arc::new(move |_| {
            let bytes = bytes.clone();
            Box::pin(async move { Ok(bytes) })
        });
        self.handlers.insert(method, handler);
        self
    }

    /// Answers a method with a failure.
    pub(crate) fn fails(mut self, method: &'static str, status: Status) -> Self {
        let handler: Handler = Arc::new(move |_| {
            let status = status.clone();
            Box::pin(async move { Err(status) })
        });
        self.handlers.insert(method, handler);
        self
    }

    /// Never answers a method.
    pub(crate) fn hangs(mut self, method: &'static str) -> Self {
        self.handlers
            .insert(method, Arc::new(|_| Box::pin(std::future::pending())));
        self
    }

    /// Connects without a word.
    pub(crate) fn attach(self, adaptation: &Adaptation) -> Live {
        let (near, far) = tokio::io::duplex(64 << 10);
        adaptation.attach(far);
        self.over(near)
    }

    pub(crate) fn over<T>(self, stream: T) -> Live
    where
        T: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (sender, calls) = watch::channel(Vec::new());
        let service = FakeService {
            handlers: self.handlers,
            calls: sender,
        };
        let layout = Layout::Mux {
            client: service::RUNTIME_CONNECTION,
            server: service::PLUGIN_CONNECTION,
        };
        let (client, driver) = start(stream, layout, service, Options::default());
        let mut tasks = JoinSet::new();
        tasks.spawn(driver);
        Live {
            client,
            index: self.index,
            name: self.name,
            calls,
            tasks,
        }
    }

    /// Connects, registers, and waits until the adaptation counts it as active.
    pub(crate) async fn join(self, adaptation: &Adaptation) -> Live {
        let full = format!("{}-{}", self.index, self.name);
        let live = self.attach(adaptation);
        live.register().await.unwrap();
        soon(adaptation.active(&full)).await;
        live
    }
}

impl Live {
    pub(crate) async fn register(&self) -> Result<(), CallError> {
        self.register_as(&self.index, &self.name).await
    }

    pub(crate) async fn register_as(&self, index: &str, name: &str) -> Result<(), CallError> {
        let request = RegisterPluginRequest {
            plugin_name: name.to_owned(),
            plugin_idx: index.to_owned(),
            nri_version: "v0.12.0".to_owned(),
        };
        self.ask("RegisterPlugin", &request).await.map(drop)
    }

    pub(crate) async fn update(
        &self,
        request: &UpdateContainersRequest,
    ) -> Result<UpdateContainersResponse, CallError> {
        let answer = self.ask("UpdateContainers", request).await?;
        Ok(UpdateContainersResponse::decode(answer).unwrap())
    }

    pub(crate) async fn ask(
        &self,
        method: &str,
        request: &impl Message,
    ) -> Result<Bytes, CallError> {
        let options = CallOptions::timeout(PATIENCE);
        self.client
            .call_raw(service::RUNTIME, method, request, &options)
            .await
    }

    /// The methods that were called, in order.
    pub(crate) fn methods(&self) -> Vec<String> {
        let calls = self.calls.borrow();
        calls.iter().map(|call| call.method.clone()).collect()
    }

    /// The requests of one method.
    pub(crate) fn requests<M: Message + Default>(&self, method: &str) -> Vec<M> {
        let calls = self.calls.borrow();
        let of_method = calls.iter().filter(|call| call.method == method);
        of_method
            .map(|call| M::decode(call.request.clone()).unwrap())
            .collect()
    }

    /// What went along with the last call of a method.
    pub(crate) fn metadata(&self, method: &str) -> Vec<KeyValue> {
        let calls = self.calls.borrow();
        let last = calls.iter().rfind(|call| call.method == method);
        last.map(|call| call.metadata.clone()).unwrap_or_default()
    }

    /// Waits until a method was called.
    pub(crate) async fn called(&self, method: &str) {
        let mut calls = self.calls.clone();
        let is_called = |calls: &Vec<Called>| calls.iter().any(|call| call.method == method);
        soon(calls.wait_for(is_called)).await.unwrap();
    }

    /// Waits until the connection is closed.
    pub(crate) async fn closed(&self) -> CloseReason {
        soon(self.client.closed()).await
    }

    pub(crate) fn is_open(&self) -> bool {
        self.client.close_reason().is_none()
    }

    /// Goes away without a word.
    pub(crate) fn vanish(mut self) {
        self.tasks.abort_all();
    }
}

struct FakeService {
    handlers: HashMap<&'static str, Handler>,
    calls: watch::Sender<Vec<Called>>,
}

impl Service for FakeService {
    async fn call(&self, request: Request) -> Result<Bytes, Status> {
        assert_eq!(request.service, service::PLUGIN);
        let call = Called {
            method: request.method.clone(),
            request: request.payload.clone(),
            metadata: request.metadata.clone(),
        };
        self.calls.send_modify(|calls| calls.push(call));
        match self.handlers.get(request.method.as_str()) {
            Some(handler) => handler(request.payload).await,
            None if request.method == "Synchronize" => {
                let more = SynchronizeRequest::decode(request.payload).unwrap().more;
                let reply = SynchronizeResponse {
                    more,
                    ..Default::default()
                };
                Ok(reply.encode_to_vec().into())
            }
            None => Ok(Bytes::new()),
        }
    }
}

/// Waits no longer than [`PATIENCE`].
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(PATIENCE, future)
        .await
        .expect("it takes too long")
}

/// A runtime that remembers.
#[derive(Clone, Default)]
pub(crate) struct Node(Arc<NodeInner>);

#[derive(Default)]
struct NodeInner {
    state: Mutex<NodeState>,
    applied: Mutex<Vec<Changes>>,
    broken: Mutex<Option<String>>,
    hold: Mutex<Option<Gate>>,
}

impl Node {
    pub(crate) fn with(pods: usize, containers: usize) -> Self {
        let node = Self::default();
        *node.0.state.lock().unwrap() = NodeState {
            pods: (0..pods).map(pod).collect(),
            containers: (0..containers).map(container).collect(),
        };
        node
    }

    pub(crate) fn applied(&self) -> Vec<Changes> {
        self.0.applied.lock().unwrap().clone()
    }

    pub(crate) fn set(&self, state: NodeState) {
        *self.0.state.lock().unwrap() = state;
    }

    pub(crate) fn break_snapshots(&self, why: &str) {
        *self.0.broken.lock().unwrap() = Some(why.to_owned());
    }

    /// Snapshots wait at the gate, and show what there is afterwards.
    pub(crate) fn hold_snapshots(&self) -> Gate {
        let gate = Gate::default();
        *self.0.hold.lock().unwrap() = Some(gate.clone());
        gate
    }
}

impl Snapshot for Node {
    async fn snapshot(&self) -> Result<NodeState, RuntimeError> {
        let hold = self.0.hold.lock().unwrap().clone();
        if let Some(gate) = hold {
            gate.pass().await;
        }
        if let Some(why) = self.0.broken.lock().unwrap().clone() {
            return Err(why.into());
        }
        Ok(self.0.state.lock().unwrap().clone())
    }
}

impl ApplyUpdates for Node {
    /// Fails updates of containers that are not there.
    async fn apply(&self, changes: Changes) -> Result<Vec<ContainerUpdate>, RuntimeError> {
        let state = self.0.state.lock().unwrap();
        let known = |id: &str| state.containers.iter().any(|container| container.id == id);
        let failed = changes
            .updates
            .iter()
            .filter(|update| !known(&update.container_id));
        let failed = failed.cloned().collect();
        drop(state);
        self.0.applied.lock().unwrap().push(changes);
        Ok(failed)
    }
}

pub(crate) fn pod(number: usize) -> PodSandbox {
    PodSandbox {
        id: format!("pod{number}"),
        name: format!("pod{number}"),
        uid: format!("uid{number}"),
        namespace: "default".to_owned(),
        ..Default::default()
    }
}

/// Container `number` of pod `number`.
pub(crate) fn container(number: usize) -> Container {
    Container {
        id: format!("ctr{number}"),
        pod_sandbox_id: format!("pod{number}"),
        name: format!("ctr{number}"),
        ..Default::default()
    }
}

pub(crate) fn creation(number: usize) -> CreateContainerRequest {
    CreateContainerRequest {
        pod: Some(pod(number)),
        container: Some(container(number)),
    }
}

/// With timeouts that no plugin runs into because the machine is busy.
pub(crate) fn builder() -> Builder {
    let patient = Duration::from_secs(20);
    defaults().timeouts(Timeouts {
        registration: patient,
        request: patient,
    })
}

/// With the default timeouts: for tests in virtual time.
pub(crate) fn defaults() -> Builder {
    Adaptation::builder("test-runtime", "1.2.3")
}

pub(crate) async fn adaptation() -> Adaptation {
    builder().start(Node::with(2, 2)).await.unwrap()
}

/// The plugins that are there.
pub(crate) fn present(adaptation: &Adaptation) -> Vec<PluginStatus> {
    let plugins = adaptation.plugins().into_iter();
    plugins
        .filter(|plugin| plugin.state != PluginState::Closed)
        .collect()
}

pub(crate) fn options() -> RequestOptions {
    RequestOptions::default()
}

/// Where handlers wait until a test lets them go on.
#[derive(Clone, Default)]
pub(crate) struct Gate(Arc<GateInner>);

#[derive(Default)]
struct GateInner {
    open: watch::Sender<bool>,
    arrived: watch::Sender<usize>,
}

impl Gate {
    pub(crate) fn open(&self) {
        self.0.open.send_replace(true);
    }

    pub(crate) async fn pass(&self) {
        self.0.arrived.send_modify(|arrived| *arrived += 1);
        let mut open = self.0.open.subscribe();
        open.wait_for(|open| *open).await.unwrap();
    }

    /// Waits until so many have come.
    pub(crate) async fn arrived(&self, count: usize) {
        let mut arrived = self.0.arrived.subscribe();
        soon(arrived.wait_for(|arrived| *arrived >= count))
            .await
            .unwrap();
    }
}
