//! Our stub against the Go adaptation.

use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longshore_backoff::Backoff;
use longshore_nri_api::{
    ContainerAdjustment, ContainerUpdate, LinuxContainerUpdate, LinuxResources,
};
use longshore_nri_stub::{Ended, Handle, Handlers, Stub, StubBuilder, StubError};
use longshore_testkit::lines::LinePeer;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::peer;

const PATIENCE: Duration = Duration::from_secs(90);

/// What handlers saw, in order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<String>>>);

impl Seen {
    pub(crate) fn note(&self, what: impl Into<String>) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(what.into());
    }

    pub(crate) async fn until(&self, what: &str) {
        let told = async {
            while !self.all().iter().any(|seen| seen == what) {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        assert!(timeout(PATIENCE, told).await.is_ok(), "no {what}: {self:?}");
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

/// A plugin that notes every event.
pub(crate) fn notes(seen: &Seen) -> Handlers {
    macro_rules! note {
        ($plugin:ident; $($on:ident($($argument:ident),*) $name:literal;)*) => {$(
            let noted = seen.clone();
            let $plugin = $plugin.$on(move |$($argument),*| {
                noted.note($name);
                $(drop($argument);)*
                async {}
            });
        )*};
    }
    let noted = seen.clone();
    let plugin = Handlers::new().on_synchronize(move |pods, containers| {
        noted.note(format!("Synchronize {} {}", pods.len(), containers.len()));
        async {}
    });
    note! { plugin;
        on_run_pod_sandbox(a) "RunPodSandbox";
        on_update_pod_sandbox(a, b, c) "UpdatePodSandbox";
        on_post_update_pod_sandbox(a) "PostUpdatePodSandbox";
        on_stop_pod_sandbox(a) "StopPodSandbox";
        on_remove_pod_sandbox(a) "RemovePodSandbox";
        on_create_container(a, b) "CreateContainer";
        on_post_create_container(a, b) "PostCreateContainer";
        on_start_container(a, b) "StartContainer";
        on_post_start_container(a, b) "PostStartContainer";
        on_update_container(a, b, c) "UpdateContainer";
        on_post_update_container(a, b) "PostUpdateContainer";
        on_stop_container(a, b) "StopContainer";
        on_remove_container(a, b) "RemoveContainer";
        on_validate_container_adjustment(a) "ValidateContainerAdjustment";
    }
    plugin
}

/// A stub that runs in this process until it is dropped.
pub(crate) struct Running {
    pub(crate) handle: Handle,
    task: JoinHandle<Result<Ended, StubError>>,
}

impl Running {
    pub(crate) fn start(builder: StubBuilder, plugin: Handlers) -> Self {
        let stub = builder.build(plugin).unwrap();
        let handle = stub.handle();
        let task = tokio::spawn(async move { stub.run().await });
        Self { handle, task }
    }

    pub(crate) async fn stop(mut self) {
        self.handle.stop();
        let ended = timeout(PATIENCE, &mut self.task).await.unwrap().unwrap();
        assert_eq!(ended.unwrap(), Ended::Stopped);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(crate) fn builder(socket: &Path) -> StubBuilder {
    let backoff = Backoff::new(Duration::from_millis(20), Duration::from_millis(200), 0.5);
    Stub::builder()
        .name("ours")
        .index("30")
        .socket(socket)
        .registration_timeout(PATIENCE)
        .reconnect(backoff.unwrap())
}

/// A Go runtime with a directory of its own.
struct Go {
    runtime: LinePeer,
    dir: tempfile::TempDir,
}

impl Go {
    async fn start(more: &[&str]) -> Option<Self> {
        let program = peer::program("nri-runtime").await?;
        let dir = tempfile::tempdir().unwrap();
        let runtime = peer::runtime(&program, &dir.path().join("nri.sock"), more).await;
        Some(Self { runtime, dir })
    }

    async fn with(plugin: Handlers) -> Option<(Self, Running)> {
        let mut go = Self::start(&[]).await?;
        let running = Running::start(builder(&go.dir.path().join("nri.sock")), plugin);
        peer::until_plugins(&mut go.runtime, 1).await;
        Some((go, running))
    }

    async fn create(&mut self) -> Value {
        self.runtime.ask(&request("CreateContainer")).await
    }
}

/// A request about `c0` in `pod0`, whose environment is `A=1`.
pub(crate) fn request(op: &str) -> Value {
    json!({
        "op": op,
        "pod": {"id": "pod0", "name": "pod0", "namespace": "default"},
        "container": {"id": "c0", "podSandboxId": "pod0", "name": "c0", "env": ["A=1"]},
    })
}

const LIFE: [&str; 13] = [
    "RunPodSandbox",
    "UpdatePodSandbox",
    "PostUpdatePodSandbox",
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
];

#[tokio::test]
async fn every_event_of_the_go_adaptation_reaches_our_stub_in_order() {
    let seen = Seen::default();
    let Some((mut go, running)) = Go::with(notes(&seen)).await else {
        return;
    };
    for op in LIFE {
        go.runtime.done(&request(op)).await;
    }
    let mut expected = vec!["Synchronize 0 0"];
    for op in LIFE {
        expected.push(op);
        if op == "CreateContainer" {
            expected.push("ValidateContainerAdjustment");
        }
    }
    assert_eq!(seen.all(), expected);
    let status = running.handle.status();
    assert_eq!(status.runtime_name.as_deref(), Some("interop"));
    assert_eq!(status.request_timeout, Duration::from_secs(2));
    running.stop().await;
    peer::until_plugins_after(&mut go.runtime, 0).await;
}

#[tokio::test]
async fn a_variable_that_is_removed_and_set_is_set() {
    let plugin = Handlers::new().on_create_container(|_, container| async move {
        assert_eq!(container.env, ["A=1"]);
        let mut adjustment = ContainerAdjustment::default();
        adjustment.remove_env("A").add_env("A", "2");
        adjustment
    });
    let Some((mut go, _running)) = Go::with(plugin).await else {
        return;
    };
    let created = go.create().await;
    assert_eq!(created["error"], "");
    assert_eq!(
        created["adjust"]["env"],
        json!([{"key": "A", "value": "2"}])
    );
}

#[tokio::test]
async fn our_validator_rejects_what_a_go_plugin_wants() {
    let plugin = Handlers::new().on_validate_container_adjustment(|request| async move {
        let wanted = request.adjust.unwrap_or_default();
        let names: Vec<_> = request.plugins.iter().map(|it| it.name.clone()).collect();
        match wanted.annotations.get("no-no") {
            Some(_) => Err(format!("no-no, says {}", names.join("+"))),
            None => Ok(()),
        }
    });
    let Some((mut go, _running)) = Go::with(plugin).await else {
        return;
    };
    let Some(program) = peer::program("nri-plugin").await else {
        return;
    };
    let spec = json!({"events": "CreateContainer", "adjust": {"annotations": {"no-no": "1"}}});
    let socket = go.dir.path().join("nri.sock");
    let _plugin = peer::plugin(&program, &socket, "10-go", &spec);
    peer::until_plugins(&mut go.runtime, 2).await;
    let created = go.create().await;
    let error = created["error"].as_str().unwrap();
    assert!(error.contains("no-no, says go+ours"), "{error}");
}

#[tokio::test]
async fn a_synchronization_in_many_pieces_is_handed_over_whole() {
    let seen = Seen::default();
    let Some(mut go) = Go::start(&[]).await else {
        return;
    };
    let fill = json!({"op": "snapshot", "fill": 30, "bytes": 300_000});
    go.runtime.done(&fill).await;
    let _running = Running::start(builder(&go.dir.path().join("nri.sock")), notes(&seen));
    peer::until_plugins(&mut go.runtime, 1).await;
    assert_eq!(seen.all(), ["Synchronize 0 30"]);
}

#[tokio::test]
async fn a_handler_that_takes_too_long_is_dropped_and_the_plugin_comes_back() {
    let seen = Seen::default();
    let noted = seen.clone();
    let plugin = Handlers::new().on_create_container(move |_, _| {
        let noted = noted.clone();
        async move {
            let dropped = OnDrop(noted);
            std::future::pending::<()>().await;
            drop(dropped);
        }
    });
    let Some((mut go, running)) = Go::with(plugin).await else {
        return;
    };
    let created = go.create().await;
    // Go's adaptation goes on without the plugin, or is told status 4 by our stub just before.
    if created["error"] == "" {
        assert_eq!(created["adjust"]["env"], Value::Null);
    } else {
        let error = created["error"].as_str().unwrap();
        assert!(error.contains("deadline"), "{error}");
    }
    // The runtime's patience ends a moment before the stub's deadline, or after it.
    seen.until("dropped").await;
    peer::until_plugins_after(&mut go.runtime, 1).await;
    running.stop().await;
}

struct OnDrop(Seen);

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.note("dropped");
    }
}

#[tokio::test]
async fn row_280_our_stub_comes_back_to_a_go_runtime_that_was_killed() {
    let seen = Seen::default();
    let Some((mut go, running)) = Go::with(notes(&seen)).await else {
        return;
    };
    go.runtime.kill().await;
    let Some(program) = peer::program("nri-runtime").await else {
        return;
    };
    let socket = go.dir.path().join("nri.sock");
    let mut next = peer::runtime(&program, &socket, &["-version", "v2.0.0"]).await;
    peer::until_plugins(&mut next, 1).await;
    assert_eq!(seen.all(), ["Synchronize 0 0", "Synchronize 0 0"]);
    let status = running.handle.status();
    assert_eq!(status.connections, 2);
    assert_eq!(status.runtime_version.as_deref(), Some("v2.0.0"));
    running.stop().await;
}

#[tokio::test]
async fn an_unsolicited_update_is_applied_and_what_failed_is_told() {
    let Some((mut go, running)) = Go::with(notes(&Seen::default())).await else {
        return;
    };
    go.runtime
        .done(&json!({"op": "fail", "failed": ["c1"]}))
        .await;
    let update = |id: &str| {
        let mut resources = LinuxResources::default();
        resources.set_cpu_shares(77_u64);
        ContainerUpdate {
            container_id: id.to_owned(),
            linux: Some(LinuxContainerUpdate {
                resources: Some(resources),
            }),
            ignore_failure: false,
        }
    };
    let failed = running
        .handle
        .update_containers(vec![update("c0"), update("c1")])
        .await
        .unwrap();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0].container_id, "c1");
    let told = go.runtime.event("unsolicited").await;
    assert_eq!(told["update"].as_array().unwrap().len(), 2);
    running.stop().await;
}

/// A directory of plugins with ours in it, and its configuration text.
fn launched(dir: &Path, config: &str) -> [String; 4] {
    let (plugins, configs) = (dir.join("plugins"), dir.join("configs"));
    fs::create_dir(&plugins).unwrap();
    fs::create_dir(&configs).unwrap();
    fs::copy(
        env!("CARGO_BIN_EXE_e2e-nri-plugin"),
        plugins.join("20-rust"),
    )
    .unwrap();
    fs::write(configs.join("rust.conf"), config).unwrap();
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    [
        "-plugins".to_owned(),
        path(&plugins),
        "-configs".to_owned(),
        path(&configs),
    ]
}

#[tokio::test]
async fn row_255_a_go_runtime_launches_our_stub_with_its_configuration_and_three_variables() {
    let dir = tempfile::tempdir().unwrap();
    let more = launched(dir.path(), "shares: 7");
    let Some(mut go) = Go::start(&more.each_ref().map(String::as_str)).await else {
        return;
    };
    let created = go.create().await;
    assert_eq!(created["error"], "");
    let annotations = &created["adjust"]["annotations"];
    assert_eq!(annotations["config"], "shares: 7");
    assert_eq!(
        annotations["environment"],
        "NRI_PLUGIN_IDX NRI_PLUGIN_NAME NRI_PLUGIN_SOCKET"
    );
    assert!(go.runtime.end().await.success());
}

#[tokio::test]
async fn a_go_runtime_goes_on_when_our_plugin_is_killed_within_its_handler() {
    let dir = tempfile::tempdir().unwrap();
    let more = launched(dir.path(), "die");
    let Some(mut go) = Go::start(&more.each_ref().map(String::as_str)).await else {
        return;
    };
    for _ in 0..2 {
        let created = go.create().await;
        assert_eq!(created["error"], "");
        assert_eq!(created["adjust"]["annotations"], Value::Null);
    }
    peer::until_plugins(&mut go.runtime, 0).await;
}
