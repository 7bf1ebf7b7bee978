//! Our stub with real containerds: pods and containers made over CRI.

use std::collections::BTreeMap;
use std::time::Duration;

use longshore_nri_api::{ContainerAdjustment, ContainerUpdate};
use longshore_nri_stub::{HandlerError, Handlers, Stub};
use longshore_testkit::lines::LinePeer;
use longshore_testkit::peers::Engine;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::peer;
use crate::stub::{Running, Seen, builder, notes};

const PATIENCE: Duration = Duration::from_secs(120);

/// A containerd and who makes pods on it.
struct Node {
    cri: LinePeer,
    engine: Engine,
    _dir: tempfile::TempDir,
}

impl Node {
    async fn start(release: &str) -> Option<Self> {
        let drive = peer::program("cri-drive").await?;
        let pause = peer::program("pause").await?;
        let dir = tempfile::Builder::new()
            .prefix("ln-")
            .tempdir_in("/tmp")
            .unwrap();
        let engine = Engine::start(dir.path(), release, "containerd").await?;
        let (socket, pause) = (engine.socket().to_owned(), pause);
        let arguments = [
            "-socket",
            socket.to_str().unwrap(),
            "-pause",
            pause.to_str().unwrap(),
        ];
        let mut cri = LinePeer::start(&drive, arguments);
        cri.event("ready").await;
        Some(Self {
            cri,
            engine,
            _dir: dir,
        })
    }

    async fn id(&mut self, command: Value) -> String {
        let answer = self.cri.done(&command).await;
        answer["id"].as_str().unwrap().to_owned()
    }

    async fn on(&mut self, op: &str, container: &str) -> Value {
        self.cri
            .done(&json!({"op": op, "container": container}))
            .await
    }

    /// The environment that a program within the container has.
    async fn environment(&mut self, container: &str) -> BTreeMap<String, String> {
        let exec = json!({"op": "exec", "container": container, "args": ["env"]});
        let answer = self.cri.done(&exec).await;
        let lines = answer["output"].as_str().unwrap().lines();
        lines
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect()
    }
}

async fn active(running: &Running, connections: u64) {
    let mut status = running.handle.watch();
    let active = status.wait_for(|status| status.connections >= connections);
    let active = timeout(PATIENCE, active).await;
    assert!(active.is_ok(), "{:?}", running.handle.status());
}

fn adjusts() -> Handlers {
    Handlers::new()
        .on_create_container(|_, container| async move {
            let mut adjustment = ContainerAdjustment::default();
            adjustment
                .remove_env("REPLACED")
                .add_env("REPLACED", "by the plugin")
                .add_env("ADDED", "to the container")
                .add_annotation("longshore.dev/seen", container.name)
                .add_rlimit("RLIMIT_NOFILE", 512, 256);
            adjustment.resources_mut().set_memory_limit(64 << 20);
            adjustment
        })
        .on_update_container(|_, container, resources| async move {
            let mut update = ContainerUpdate::new(container.id);
            let asked = resources
                .cpu
                .and_then(|cpu| cpu.shares)
                .map_or(0, |shares| shares.value);
            update.resources_mut().set_cpu_shares(asked + 1);
            Ok::<_, HandlerError>(vec![update])
        })
}

/// Everything that one release shows, on one engine: each start of one takes seconds.
async fn our_stub_on(release: &str) {
    let Some(mut node) = Node::start(release).await else {
        return;
    };
    let version = node.cri.done(&json!({"op": "version"})).await;
    assert_eq!(version["runtime"], "containerd");
    let socket = node.engine.nri_socket();
    let seen = Seen::default();
    let watches = Running::start(builder(&socket), notes(&seen));
    active(&watches, 1).await;
    let adjusts = Running::start(builder(&socket).name("adjusts").index("50"), adjusts());
    active(&adjusts, 1).await;
    let status = watches.handle.status();
    assert_eq!(status.runtime_name.as_deref(), Some("containerd"));
    assert_ne!(status.runtime_nri_version, "unknown");
    seen.until("Synchronize 0 0").await;

    let pod = node.id(json!({"op": "run_pod", "name": "pod"})).await;
    let environment = json!({"REPLACED": "original", "KEPT": "as it was"});
    let create = json!({"op": "create", "pod": pod, "name": "one", "env": environment});
    let container = node.id(create).await;
    node.on("start", &container).await;
    let environment = node.environment(&container).await;
    assert_eq!(environment["REPLACED"], "by the plugin");
    assert_eq!(environment["ADDED"], "to the container");
    assert_eq!(environment["KEPT"], "as it was");
    let spec = node.on("inspect", &container).await["info"]["runtimeSpec"].clone();
    assert_eq!(spec["annotations"]["longshore.dev/seen"], "one");
    assert_eq!(spec["linux"]["resources"]["memory"]["limit"], 64 << 20);
    let limits = spec["process"]["rlimits"].as_array().unwrap();
    let files = limits.iter().find(|limit| limit["type"] == "RLIMIT_NOFILE");
    assert_eq!(files.unwrap()["soft"], 256, "{limits:?}");
    let update = json!({"op": "update", "container": container, "cpu_shares": 300});
    node.cri.done(&update).await;

    // One that comes later is told what is there; a plugin may ask for changes by itself.
    let later = Seen::default();
    let late = Running::start(builder(&socket).name("late").index("60"), notes(&later));
    active(&late, 1).await;
    later.until("Synchronize 1 1").await;
    let mut change = ContainerUpdate::new(container.clone());
    change.resources_mut().set_cpu_shares(123_u64);
    let failed = late.handle.update_containers(vec![change]).await.unwrap();
    assert_eq!(failed, []);
    late.stop().await;

    node.on("stop", &container).await;
    node.on("remove", &container).await;
    node.cri.done(&json!({"op": "stop_pod", "pod": pod})).await;
    node.cri
        .done(&json!({"op": "remove_pod", "pod": pod}))
        .await;
    seen.until("RemovePodSandbox").await;
    let all = seen.all();
    let of_the_age: Vec<_> = [
        "Synchronize 0 0",
        "RunPodSandbox",
        "CreateContainer",
        "PostCreateContainer",
        "StartContainer",
        "PostStartContainer",
        "UpdateContainer",
        "PostUpdateContainer",
        "StopContainer",
        "RemoveContainer",
        "StopPodSandbox",
        "RemovePodSandbox",
    ]
    .map(str::to_owned)
    .to_vec();
    assert_eq!(all, of_the_age);
    let status = watches.handle.status();
    assert_eq!(status.connections, 1, "{status:?}\n{}", node.engine.log());
    watches.stop().await;
    adjusts.stop().await;

    // A second pod, and a plugin that refuses: the kubelet is told why.
    let refuses = Handlers::new().on_create_container(|_, _| async {
        Err::<ContainerAdjustment, _>("refused by the plugin")
    });
    let stub = Stub::builder().name("refuses").index("10").socket(&socket);
    let refuses = Running::start(stub, refuses);
    active(&refuses, 1).await;
    let pod = node.id(json!({"op": "run_pod", "name": "second"})).await;
    let create = json!({"op": "create", "pod": pod, "name": "two"});
    let refused = until_refused(&mut node.cri, &create).await;
    assert!(refused.contains("refused by the plugin"), "{refused}");
    refuses.stop().await;
    assert!(node.cri.end().await.success(), "{}", node.cri.story());
}

/// An engine takes a plugin into its chain a moment after it has configured it.
async fn until_refused(cri: &mut LinePeer, create: &Value) -> String {
    for _ in 0..20 {
        let answer = cri.ask(create).await;
        let error = answer["error"].as_str().unwrap();
        if !error.is_empty() {
            return error.to_owned();
        }
        let remove = json!({"op": "remove", "container": answer["id"]});
        cri.done(&remove).await;
    }
    panic!("not refused: {}", cri.story());
}

#[tokio::test]
async fn our_stub_serves_containerd_1_7() {
    our_stub_on("trixie").await;
}

#[tokio::test]
async fn our_stub_serves_containerd_2_1() {
    our_stub_on("sid").await;
}
