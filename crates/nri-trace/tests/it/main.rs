//! The proxy between real sockets.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on says where")]

use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use longshore_nri_adaptation::socket::{Listener, SocketOptions};
use longshore_nri_api::service::{PLUGIN, PLUGIN_CONNECTION, RUNTIME, RUNTIME_CONNECTION};
use longshore_nri_api::{
    Container, CreateContainerRequest, CreateContainerResponse, Empty, RegisterPluginRequest,
};
use longshore_nri_trace::{Entry, Event, Proxy, Side, line};
use longshore_ttrpc::{CallOptions, Client, Layout, Options, Request, Service, Status, start};
use prost::Message;
use tempfile::TempDir;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;

const PATIENCE: Duration = Duration::from_secs(30);

/// Answers CreateContainer and RegisterPlugin, nothing else.
struct Peer;

impl Service for Peer {
    async fn call(&self, request: Request) -> Result<Bytes, Status> {
        match request.method.as_str() {
            "CreateContainer" => Ok(CreateContainerResponse::default().encode_to_vec().into()),
            "RegisterPlugin" => Ok(Bytes::new()),
            method => Err(Status::unimplemented(&request.service, method)),
        }
    }
}

struct Place {
    _dir: TempDir,
    runtime: PathBuf,
    listen: PathBuf,
    entries: mpsc::Receiver<Entry>,
    tasks: JoinSet<()>,
}

fn place() -> Place {
    let dir = tempfile::tempdir().unwrap();
    let runtime = dir.path().join("runtime.sock");
    let listen = dir.path().join("proxy.sock");
    let listener = Listener::bind(&SocketOptions::new(&listen)).unwrap();
    let (sender, entries) = mpsc::channel(16);
    let mut tasks = JoinSet::new();
    let proxy = Proxy::new(listener, runtime.clone(), sender);
    tasks.spawn(async move { proxy.run().await.unwrap() });
    Place {
        _dir: dir,
        runtime,
        listen,
        entries,
        tasks,
    }
}

impl Place {
    fn join(&mut self, stream: UnixStream, client: u32, server: u32) -> Client {
        let layout = Layout::Mux { client, server };
        let (client, driver) = start(stream, layout, Peer, Options::default());
        self.tasks.spawn(async move {
            driver.await;
        });
        client
    }

    async fn next(&mut self) -> Entry {
        timeout(PATIENCE, self.entries.recv())
            .await
            .unwrap()
            .unwrap()
    }
}

#[tokio::test]
async fn both_sides_speak_through_the_proxy_and_everything_is_on_record() {
    let mut place = place();
    let listener = UnixListener::bind(&place.runtime).unwrap();
    let plugin = UnixStream::connect(&place.listen).await.unwrap();
    let (runtime, _) = timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    let plugin = place.join(plugin, RUNTIME_CONNECTION, PLUGIN_CONNECTION);
    let runtime = place.join(runtime, PLUGIN_CONNECTION, RUNTIME_CONNECTION);

    let options = CallOptions::timeout(PATIENCE);
    let register = RegisterPluginRequest {
        plugin_name: "x".into(),
        plugin_idx: "10".into(),
        ..Default::default()
    };
    plugin
        .call::<Empty>(RUNTIME, "RegisterPlugin", &register, &options)
        .await
        .unwrap();
    // Larger than what is read at once, so that it comes in pieces.
    let request = CreateContainerRequest {
        container: Some(Container {
            id: "c0".into(),
            args: vec!["é".repeat(100_000)],
            ..Default::default()
        }),
        pod: None,
    };
    runtime
        .call::<CreateContainerResponse>(PLUGIN, "CreateContainer", &request, &options)
        .await
        .unwrap();
    let refused = runtime
        .call::<Empty>(PLUGIN, "Nothing", &Empty {}, &options)
        .await;
    assert!(refused.is_err());
    drop(plugin);
    runtime.close("the test is over");

    let mut lines = Vec::new();
    let mut sizes = Vec::new();
    loop {
        let entry = place.next().await;
        if let Event::Request { message, .. } = &entry.event {
            sizes.push(message.bytes);
        }
        lines.push(line(&entry, false));
        if matches!(entry.event, Event::Closed { .. }) {
            assert_eq!(entry.from, Side::Runtime);
            break;
        }
    }
    let expected = [
        ("?  ->", "opened by pid "),
        ("10-x  ->", "RegisterPlugin 1, waits "),
        ("10-x  <-", "RegisterPlugin 1, ok after "),
        ("10-x  <-", "CreateContainer 1, waits "),
        ("10-x  ->", "CreateContainer 1, ok after "),
        ("10-x  <-", "Nothing 3, waits "),
        ("10-x  ->", "Nothing 3, failed after "),
        ("10-x  <-", "closed by the runtime: it hung up"),
    ];
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for (line, (who, what)) in lines.iter().zip(expected) {
        assert!(line.contains(&format!("{who}  {what}")), "{line}");
    }
    assert_eq!(sizes[1], request.encoded_len());
}

#[tokio::test]
async fn a_runtime_that_is_not_there_closes_the_plugin_and_is_named() {
    let mut place = place();
    let plugin = UnixStream::connect(&place.listen).await.unwrap();
    assert!(matches!(place.next().await.event, Event::Opened(_)));
    let closed = place.next().await;
    let text = line(&closed, false);
    assert!(
        text.contains("closed by the runtime: it cannot be reached"),
        "{text}"
    );
    timeout(PATIENCE, plugin.readable()).await.unwrap().unwrap();
    assert_eq!(plugin.try_read(&mut [0]).unwrap(), 0);

    // The next one is served, once the runtime is there.
    let listener = UnixListener::bind(&place.runtime).unwrap();
    let _plugin = UnixStream::connect(&place.listen).await.unwrap();
    timeout(PATIENCE, listener.accept()).await.unwrap().unwrap();
    assert_eq!(place.next().await.connection, 2);
}
