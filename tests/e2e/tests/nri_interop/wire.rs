//! ttrpc and its multiplexer against Go's, without our adaptation or our stub.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use longshore_nri_api as nri;
use longshore_nri_api::service::{PLUGIN, PLUGIN_CONNECTION, RUNTIME, RUNTIME_CONNECTION};
use longshore_testkit::lines::LinePeer;
use longshore_ttrpc::{
    CallError, CallOptions, Client, CloseReason, Code, Layout, Options, Request, Service, Status,
    start,
};
use prost::Message;
use serde_json::{Value, json};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::peer;

const PATIENCE: Duration = Duration::from_secs(60);

/// A runtime in raw ttrpc; it answers everything with nothing.
struct Host {
    /// Requests of the plugin, by method.
    seen: mpsc::UnboundedSender<(String, Bytes)>,
    /// No answer to RegisterPlugin before this is true.
    answer: watch::Receiver<bool>,
}

impl Service for Host {
    async fn call(&self, request: Request) -> Result<Bytes, Status> {
        assert_eq!(request.service, RUNTIME);
        drop(self.seen.send((request.method.clone(), request.payload)));
        if request.method == "RegisterPlugin" {
            drop(self.answer.clone().wait_for(|answer| *answer).await);
        }
        Ok(Bytes::new())
    }
}

struct Hosted {
    client: Client,
    seen: mpsc::UnboundedReceiver<(String, Bytes)>,
    answer: watch::Sender<bool>,
    plugin: LinePeer,
    _driver: JoinHandle<CloseReason>,
    _dir: tempfile::TempDir,
}

impl Hosted {
    /// A Go plugin that has called RegisterPlugin, which is not answered yet.
    async fn registering(spec: &Value) -> Option<Self> {
        let program = peer::program("nri-plugin").await?;
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("nri.sock");
        let listener = UnixListener::bind(&socket).unwrap();
        let plugin = peer::plugin(&program, &socket, "10-go", spec);
        let (stream, _) = listener.accept().await.unwrap();
        let (sender, mut seen) = mpsc::unbounded_channel();
        let (answer, answered) = watch::channel(false);
        let host = Host {
            seen: sender,
            answer: answered,
        };
        let layout = Layout::Mux {
            client: PLUGIN_CONNECTION,
            server: RUNTIME_CONNECTION,
        };
        let (client, driver) = start(stream, layout, host, Options::default());
        let driver = tokio::spawn(driver);
        let (method, payload) = seen.recv().await.unwrap();
        assert_eq!(method, "RegisterPlugin");
        let request = nri::RegisterPluginRequest::decode(payload).unwrap();
        assert_eq!(
            (request.plugin_name, request.plugin_idx),
            ("go".into(), "10".into())
        );
        Some(Self {
            client,
            seen,
            answer,
            plugin,
            _driver: driver,
            _dir: dir,
        })
    }

    /// A Go plugin that is configured.
    async fn configured(spec: &Value) -> Option<Self> {
        let mut hosted = Self::registering(spec).await?;
        hosted.answer.send_replace(true);
        hosted.configure().await;
        hosted.plugin.event("started").await;
        Some(hosted)
    }

    async fn configure(&self) -> nri::ConfigureResponse {
        let request = nri::ConfigureRequest {
            config: String::new(),
            runtime_name: "by-hand".to_owned(),
            runtime_version: "v1.2.3".to_owned(),
            registration_timeout: 5_001,
            request_timeout: 2_002,
            nri_version: "v0.12.0".to_owned(),
        };
        self.call("Configure", &request).await.unwrap()
    }

    async fn call<R: Message + Default>(
        &self,
        method: &str,
        request: &impl Message,
    ) -> Result<R, CallError> {
        let options = CallOptions::timeout(PATIENCE);
        self.client.call(PLUGIN, method, request, &options).await
    }
}

fn pod() -> nri::PodSandbox {
    nri::PodSandbox {
        id: "pod0".to_owned(),
        ..nri::PodSandbox::default()
    }
}

fn create(id: &str) -> nri::CreateContainerRequest {
    let container = nri::Container {
        id: id.to_owned(),
        ..nri::Container::default()
    };
    nri::CreateContainerRequest {
        pod: Some(pod()),
        container: Some(container),
    }
}

/// A container of about so many bytes.
fn large(id: &str, bytes: usize) -> nri::Container {
    nri::Container {
        id: id.to_owned(),
        annotations: [("filler".to_owned(), "x".repeat(bytes))].into(),
        ..nri::Container::default()
    }
}

#[tokio::test]
async fn row_250_a_go_stub_takes_configure_before_the_answer_to_register() {
    let Some(mut hosted) = Hosted::registering(&json!({"events": "CreateContainer"})).await else {
        return;
    };
    let configured = hosted.configure().await;
    assert_eq!(configured.events, 0x0008);
    hosted.answer.send_replace(true);
    let seen = hosted.plugin.event("Configure").await;
    assert_eq!(seen["runtime"], "by-hand");
    assert_eq!(seen["registration_ms"], 5_001);
    assert_eq!(seen["request_ms"], 2_002);
    hosted.plugin.event("started").await;
}

#[tokio::test]
async fn row_246_messages_of_every_size_reach_a_go_stub_whole() {
    let Some(mut hosted) = Hosted::configured(&json!({})).await else {
        return;
    };
    // Around the 4,096 bytes of Go's reader, and up to the largest message.
    for bytes in [
        1,
        3_900,
        4_000,
        4_086,
        4_096,
        5_000,
        10_000,
        65_536,
        1 << 20,
        3_900_000,
        4_194_000,
    ] {
        let container = large("big", bytes);
        let size = container.encoded_len();
        let request = nri::SynchronizeRequest {
            containers: vec![container],
            ..nri::SynchronizeRequest::default()
        };
        let reply: nri::SynchronizeResponse = hosted.call("Synchronize", &request).await.unwrap();
        assert!(!reply.more);
        let seen = hosted.plugin.event("Synchronize").await;
        assert_eq!(seen["size"], size, "of {bytes}");
    }
}

#[tokio::test]
async fn more_than_4_mib_is_refused_here_with_both_lengths_and_goes_in_pieces() {
    let Some(mut hosted) = Hosted::configured(&json!({})).await else {
        return;
    };
    let containers: Vec<_> = (0..22).map(|n| large(&format!("c{n}"), 600_000)).collect();
    let whole = nri::SynchronizeRequest {
        containers: containers.clone(),
        ..nri::SynchronizeRequest::default()
    };
    let refused = hosted.call::<nri::SynchronizeResponse>("Synchronize", &whole);
    match refused.await {
        Err(CallError::Oversized { length, max }) => {
            assert!(length > 22 * 600_000);
            assert_eq!(max, 4 << 20);
        }
        other => panic!("{other:?}"),
    }
    let pieces: Vec<_> = containers.chunks(6).collect();
    for (nth, piece) in pieces.iter().enumerate() {
        let more = nth + 1 < pieces.len();
        let request = nri::SynchronizeRequest {
            pods: Vec::new(),
            containers: piece.to_vec(),
            more,
        };
        let reply: nri::SynchronizeResponse = hosted.call("Synchronize", &request).await.unwrap();
        assert_eq!(reply.more, more);
    }
    let seen = hosted.plugin.event("Synchronize").await;
    assert_eq!(seen["containers"].as_array().unwrap().len(), 22);
}

#[tokio::test]
async fn row_248_six_hundred_requests_at_once_are_all_answered_by_a_go_stub() {
    let Some(hosted) = Hosted::configured(&json!({"quiet": true})).await else {
        return;
    };
    let hosted = Arc::new(hosted);
    let mut calls = JoinSet::new();
    for nth in 0..600 {
        let hosted = Arc::clone(&hosted);
        calls.spawn(async move {
            let request = create(&format!("c{nth}"));
            hosted
                .call::<nri::CreateContainerResponse>("CreateContainer", &request)
                .await
        });
    }
    let answers = calls.join_all().await;
    for answer in answers {
        assert!(answer.is_ok(), "{answer:?}");
    }
    assert!(hosted.client.close_reason().is_none());
}

#[tokio::test]
async fn row_251_an_answer_without_a_byte_is_an_empty_message() {
    let Some(hosted) = Hosted::configured(&json!({"quiet": true})).await else {
        return;
    };
    let request = nri::RunPodSandboxRequest { pod: Some(pod()) };
    let options = CallOptions::timeout(PATIENCE);
    let raw = hosted
        .client
        .call_raw(PLUGIN, "RunPodSandbox", &request, &options)
        .await;
    assert_eq!(raw.unwrap(), Bytes::new());
}

#[tokio::test]
async fn what_a_go_stub_does_not_know_is_status_12_and_a_handlers_error_is_status_2() {
    let spec = json!({"fail": {"CreateContainer": "not today"}});
    let Some(hosted) = Hosted::configured(&spec).await else {
        return;
    };
    let request = create("c0");
    let unknown = hosted.call::<nri::Empty>("NoSuchMethod", &request);
    match unknown.await {
        Err(CallError::Remote(status)) => assert_eq!(status.code, Code::Unimplemented),
        other => panic!("{other:?}"),
    }
    let failed = hosted.call::<nri::CreateContainerResponse>("CreateContainer", &request);
    match failed.await {
        Err(CallError::Remote(status)) => {
            assert_eq!(
                (status.code, status.message),
                (Code::Unknown, "not today".into())
            );
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_late_answer_of_a_go_stub_harms_nobody() {
    let spec = json!({"sleep": {"CreateContainer": "1s"}});
    let Some(mut hosted) = Hosted::configured(&spec).await else {
        return;
    };
    let options = CallOptions::timeout(Duration::from_millis(50));
    let late = hosted
        .client
        .call::<nri::CreateContainerResponse>(PLUGIN, "CreateContainer", &create("c0"), &options)
        .await;
    assert!(matches!(late, Err(CallError::Timeout(_))), "{late:?}");
    // The handler saw the deadline of its caller.
    let slept = hosted.plugin.event("slept").await;
    assert_eq!(slept["context"], "context deadline exceeded");
    let request = nri::RunPodSandboxRequest { pod: Some(pod()) };
    let next: Result<nri::RunPodSandboxResponse, _> = hosted.call("RunPodSandbox", &request).await;
    assert!(next.is_ok(), "{next:?}");
}

#[tokio::test]
async fn a_go_plugin_killed_within_its_handler_ends_the_call_at_once() {
    let Some(hosted) = Hosted::configured(&json!({"die": "CreateContainer"})).await else {
        return;
    };
    let answer = hosted
        .call::<nri::CreateContainerResponse>("CreateContainer", &create("c0"))
        .await;
    assert!(matches!(answer, Err(CallError::Closed(_))), "{answer:?}");
}

#[tokio::test]
async fn an_unsolicited_update_from_within_a_handler_is_answered() {
    let update =
        json!({"containerId": "c9", "linux": {"resources": {"cpu": {"shares": {"value": "5"}}}}});
    let Some(mut hosted) = Hosted::configured(&json!({"ask": [update]})).await else {
        return;
    };
    let answer: nri::CreateContainerResponse =
        hosted.call("CreateContainer", &create("c0")).await.unwrap();
    assert_eq!(answer, nri::CreateContainerResponse::default());
    let (method, payload) = hosted.seen.recv().await.unwrap();
    assert_eq!(method, "UpdateContainers");
    let request = nri::UpdateContainersRequest::decode(payload).unwrap();
    assert_eq!(request.update[0].container_id, "c9");
    let asked = hosted.plugin.event("asked").await;
    assert_eq!(
        (&asked["error"], &asked["failed"]),
        (&json!(""), &json!([]))
    );
}

/// A plugin in raw ttrpc, of the time before there was one method for each event.
struct OldPlugin {
    seen: mpsc::UnboundedSender<(String, Bytes)>,
    /// Length of the value that CreateContainer adds.
    adds: usize,
}

impl Service for OldPlugin {
    async fn call(&self, request: Request) -> Result<Bytes, Status> {
        assert_eq!(request.service, PLUGIN);
        let known = [
            "Configure",
            "Synchronize",
            "CreateContainer",
            "UpdateContainer",
            "StopContainer",
            "StateChange",
        ];
        if !known.contains(&request.method.as_str()) {
            return Err(Status::unimplemented(&request.service, &request.method));
        }
        let reply = match request.method.as_str() {
            "Configure" => nri::ConfigureResponse { events: 0x07ff }.encode_to_vec(),
            "Synchronize" => {
                let asked = nri::SynchronizeRequest::decode(request.payload.clone());
                let more = asked.is_ok_and(|asked| asked.more);
                let update = Vec::new();
                nri::SynchronizeResponse { update, more }.encode_to_vec()
            }
            "CreateContainer" => {
                let adjust = nri::ContainerAdjustment {
                    annotations: [("added".to_owned(), "y".repeat(self.adds))].into(),
                    ..nri::ContainerAdjustment::default()
                };
                nri::CreateContainerResponse {
                    adjust: Some(adjust),
                    ..nri::CreateContainerResponse::default()
                }
                .encode_to_vec()
            }
            _ => Vec::new(),
        };
        drop(self.seen.send((request.method, request.payload)));
        Ok(reply.into())
    }
}

#[tokio::test]
async fn row_252_a_plugin_by_hand_is_synchronized_in_pieces_and_told_of_state_changes_by_go() {
    let Some(program) = peer::program("nri-runtime").await else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("nri.sock");
    let mut runtime = peer::runtime(&program, &socket, &[]).await;
    // Without a pod: Go's adaptation sends one pod and many large containers in pieces without end.
    let fill = json!({"op": "snapshot", "fill": 40, "bytes": 300_000});
    runtime.done(&fill).await;

    let (sender, mut seen) = mpsc::unbounded_channel();
    let adds = 100_000;
    let layout = Layout::Mux {
        client: RUNTIME_CONNECTION,
        server: PLUGIN_CONNECTION,
    };
    let stream = UnixStream::connect(&socket).await.unwrap();
    let plugin = OldPlugin { seen: sender, adds };
    let (client, driver) = start(stream, layout, plugin, Options::default());
    let driver = tokio::spawn(driver);
    let register = nri::RegisterPluginRequest {
        plugin_name: "old".to_owned(),
        plugin_idx: "05".to_owned(),
        ..nri::RegisterPluginRequest::default()
    };
    let options = CallOptions::timeout(PATIENCE);
    let registered = client.call::<nri::Empty>(RUNTIME, "RegisterPlugin", &register, &options);
    registered.await.unwrap();
    peer::until_plugins(&mut runtime, 1).await;

    let pod = json!({"id": "pod0"});
    let container = json!({"id": "c0", "name": "c0"});
    let event = |op: &str| json!({"op": op, "pod": pod, "container": container});
    let created = runtime.done(&event("CreateContainer")).await;
    let added = created["adjust"]["annotations"]["added"].as_str().unwrap();
    assert_eq!(added.len(), adds);
    for op in ["RunPodSandbox", "StartContainer", "RemoveContainer"] {
        runtime.done(&event(op)).await;
    }
    drop(client);
    driver.abort();
    let mut methods = Vec::new();
    let (mut pieces, mut containers, mut changes) = (0, 0, Vec::new());
    while let Some((method, payload)) = seen.recv().await {
        match method.as_str() {
            "Synchronize" => {
                let piece = nri::SynchronizeRequest::decode(payload).unwrap();
                pieces += 1;
                containers += piece.containers.len();
            }
            "StateChange" => {
                changes.push(nri::StateChangeEvent::decode(payload).unwrap().event());
            }
            _ => methods.push(method),
        }
    }
    assert_eq!(methods, ["Configure", "CreateContainer"]);
    assert!(pieces > 2, "{pieces} pieces");
    assert_eq!(containers, 40);
    assert_eq!(
        changes,
        [
            nri::Event::RunPodSandbox,
            nri::Event::StartContainer,
            nri::Event::RemoveContainer
        ]
    );
}
