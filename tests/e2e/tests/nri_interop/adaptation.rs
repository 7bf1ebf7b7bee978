//! Our adaptation with plugins on the Go stub.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use longshore_nri_adaptation::launch::LaunchOptions;
use longshore_nri_adaptation::merge::Creation;
use longshore_nri_adaptation::socket::SocketOptions;
use longshore_nri_adaptation::{
    Adaptation, ApplyUpdates, Builder, Changes, NodeState, RequestError, RequestOptions,
    RuntimeError, Snapshot, Timeouts,
};
use longshore_nri_api as nri;
use longshore_testkit::lines::LinePeer;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::peer;

const PATIENCE: Duration = Duration::from_secs(60);

/// The two traits of an embedder.
#[derive(Clone, Default)]
struct Node {
    state: Arc<NodeState>,
    applied: Arc<Mutex<Vec<Changes>>>,
}

impl Node {
    fn applied(&self) -> Vec<Changes> {
        let applied = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
        applied.clone()
    }
}

impl Snapshot for Node {
    async fn snapshot(&self) -> Result<NodeState, RuntimeError> {
        Ok(NodeState::clone(&self.state))
    }
}

impl ApplyUpdates for Node {
    async fn apply(&self, changes: Changes) -> Result<Vec<nri::ContainerUpdate>, RuntimeError> {
        let unknown = |update: &&nri::ContainerUpdate| update.container_id == "unknown";
        let failed = changes.updates.iter().filter(unknown).cloned().collect();
        let mut applied = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
        applied.push(changes);
        Ok(failed)
    }
}

struct Ours {
    adaptation: Adaptation,
    node: Node,
    socket: PathBuf,
    program: PathBuf,
    _dir: tempfile::TempDir,
}

impl Ours {
    async fn start() -> Option<Self> {
        Self::with(NodeState::default(), |builder, _| builder).await
    }

    async fn with(state: NodeState, more: impl FnOnce(Builder, &Path) -> Builder) -> Option<Self> {
        let program = peer::program("nri-plugin").await?;
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("nri.sock");
        let node = Node {
            state: Arc::new(state),
            ..Node::default()
        };
        let patient = Timeouts {
            registration: PATIENCE,
            request: PATIENCE,
        };
        let builder = Adaptation::builder("longshore", "v1.2.3")
            .socket(SocketOptions::new(&socket))
            .timeouts(patient);
        let started = more(builder, dir.path()).start(node.clone()).await;
        Some(Self {
            adaptation: started.unwrap(),
            node,
            socket,
            program,
            _dir: dir,
        })
    }

    /// A Go plugin that is active.
    async fn plugin(&self, id: &str, spec: &Value) -> LinePeer {
        let mut plugin = peer::plugin(&self.program, &self.socket, id, spec);
        plugin.event("started").await;
        let active = timeout(PATIENCE, self.adaptation.active(id)).await;
        assert!(active.is_ok(), "{:?}", self.adaptation.plugins());
        plugin
    }

    async fn create(&self, id: &str) -> Result<Creation, RequestError> {
        let request = nri::CreateContainerRequest {
            pod: Some(pod("pod0")),
            container: Some(container(id)),
        };
        let options = RequestOptions::default();
        self.adaptation.create_container(request, &options).await
    }
}

fn pod(id: &str) -> nri::PodSandbox {
    nri::PodSandbox {
        id: id.to_owned(),
        name: id.to_owned(),
        ..nri::PodSandbox::default()
    }
}

fn container(id: &str) -> nri::Container {
    nri::Container {
        id: id.to_owned(),
        pod_sandbox_id: "pod0".to_owned(),
        name: id.to_owned(),
        env: vec!["A=1".to_owned()],
        ..nri::Container::default()
    }
}

fn shares(id: &str, shares: u64) -> Value {
    let cpu = json!({"shares": {"value": shares.to_string()}});
    json!({"containerId": id, "linux": {"resources": {"cpu": cpu}}})
}

#[tokio::test]
async fn every_event_reaches_a_go_plugin_in_order() {
    let Some(ours) = Ours::start().await else {
        return;
    };
    let mut plugin = ours.plugin("10-go", &json!({})).await;
    let (nri, options) = (&ours.adaptation, RequestOptions::default());
    let (pod, ctr) = (pod("pod0"), container("c0"));
    nri.run_pod_sandbox(&pod, &options).await.unwrap();
    let update = nri::UpdatePodSandboxRequest {
        pod: Some(pod.clone()),
        ..nri::UpdatePodSandboxRequest::default()
    };
    nri.update_pod_sandbox(update, &options).await.unwrap();
    nri.post_update_pod_sandbox(&pod, &options).await.unwrap();
    ours.create("c0").await.unwrap();
    nri.post_create_container(&pod, &ctr, &options)
        .await
        .unwrap();
    nri.start_container(&pod, &ctr, &options).await.unwrap();
    nri.post_start_container(&pod, &ctr, &options)
        .await
        .unwrap();
    let update = nri::UpdateContainerRequest {
        pod: Some(pod.clone()),
        container: Some(ctr.clone()),
        linux_resources: Some(nri::LinuxResources::default()),
    };
    nri.update_container(update, &options).await.unwrap();
    nri.post_update_container(&pod, &ctr, &options)
        .await
        .unwrap();
    let stop = nri::StopContainerRequest {
        pod: Some(pod.clone()),
        container: Some(ctr.clone()),
    };
    nri.stop_container(stop, &options).await.unwrap();
    nri.remove_container(&pod, &ctr, &options).await.unwrap();
    nri.stop_pod_sandbox(&pod, &options).await.unwrap();
    nri.remove_pod_sandbox(&pod, &options).await.unwrap();
    plugin.event("RemovePodSandbox").await;
    let seen: Vec<_> = plugin
        .seen()
        .iter()
        .map(|line| line["event"].as_str().unwrap())
        .filter(|event| *event != "started")
        .collect();
    assert_eq!(
        seen,
        [
            "Configure",
            "Synchronize",
            "RunPodSandbox",
            "UpdatePodSandbox",
            "PostUpdatePodSandbox",
            "CreateContainer",
            "ValidateContainerAdjustment",
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
    );
    let configured = &plugin.seen()[0];
    assert_eq!(configured["runtime"], "longshore");
    assert_eq!(configured["version"], "v1.2.3");
    assert_eq!(configured["request_ms"], 60_000);
    // It ends when the runtime does.
    ours.adaptation.shutdown().await;
    assert!(plugin.wait().await.success());
}

#[tokio::test]
async fn adjustments_of_two_go_plugins_are_merged_and_owned() {
    let Some(ours) = Ours::start().await else {
        return;
    };
    let first = json!({
        "events": "CreateContainer",
        "adjust": {"env": [{"key": "-A"}, {"key": "A", "value": "2"}], "annotations": {"by": "first"}},
        "updates": {"CreateContainer": [shares("other", 9)]},
    });
    let second = json!({
        "full": true,
        "adjust": {"rlimits": [{"type": "RLIMIT_NOFILE", "hard": "20", "soft": "10"}]},
    });
    let _first = ours.plugin("10-first", &first).await;
    let mut second = ours.plugin("20-second", &second).await;
    let created = ours.create("c0").await.unwrap();
    // The second was shown what the first had done.
    let seen = second.event("CreateContainer").await;
    assert_eq!(seen["container_message"]["env"], json!(["A=2"]));
    let validated = second.event("ValidateContainerAdjustment").await;
    assert_eq!(validated["plugins"], json!(["10-first", "20-second"]));
    let owners = &validated["owners"]["owners"]["c0"]["compound"]["6"]["owners"];
    assert_eq!(owners["A"], "10-first");
    let adjusted = &created.adjustment;
    assert_eq!(adjusted.annotations["by"], "first");
    assert_eq!(adjusted.rlimits[0].soft, 10);
    assert_eq!(adjusted.env.last().unwrap().value, "2");
    assert_eq!(created.updates[0].container_id, "other");
}

#[tokio::test]
async fn go_plugins_that_want_the_same_conflict_and_their_errors_are_told() {
    let Some(ours) = Ours::start().await else {
        return;
    };
    let adjust = json!({"events": "CreateContainer", "adjust": {"annotations": {"k": "v"}}});
    let _first = ours.plugin("10-first", &adjust).await;
    let mut second = ours.plugin("20-second", &adjust).await;
    let error = ours.create("c0").await.unwrap_err().to_string();
    for part in ["10-first", "20-second", "k"] {
        assert!(error.contains(part), "{error}");
    }
    let fails = json!({"spec": {"fail": {"CreateContainer": "out of luck"}}});
    second.send(&fails).await;
    second.event("spec").await;
    let error = ours.create("c1").await.unwrap_err().to_string();
    assert!(error.contains("out of luck"), "{error}");
}

#[tokio::test]
async fn a_go_validator_rejects() {
    let Some(ours) = Ours::start().await else {
        return;
    };
    let spec = json!({"events": "ValidateContainerAdjustment", "reject": "not with me"});
    let _plugin = ours.plugin("10-judge", &spec).await;
    let error = ours.create("c0").await.unwrap_err();
    assert!(
        matches!(&error, RequestError::Rejected { reason, .. } if reason.contains("not with me")),
        "{error}"
    );
}

#[tokio::test]
async fn a_go_plugin_is_synchronized_with_more_than_fits_one_message() {
    let large = |nth: usize| nri::Container {
        annotations: [("filler".to_owned(), "x".repeat(300_000))].into(),
        ..container(&format!("c{nth}"))
    };
    let state = NodeState {
        pods: vec![pod("pod0"), pod("pod1")],
        containers: (0..40).map(large).collect(),
    };
    let spec = json!({"updates": {"Synchronize": [shares("c3", 7)]}});
    let Some(ours) = Ours::with(state, |builder, _| builder).await else {
        return;
    };
    let mut plugin = ours.plugin("10-go", &spec).await;
    let seen = plugin.event("Synchronize").await;
    assert_eq!(seen["pods"], json!(["pod0", "pod1"]));
    assert_eq!(seen["containers"].as_array().unwrap().len(), 40);
    assert_eq!(ours.node.applied()[0].updates[0].container_id, "c3");
}

#[tokio::test]
async fn a_go_plugin_killed_within_its_handler_is_passed_over_and_may_come_back() {
    let Some(ours) = Ours::start().await else {
        return;
    };
    let _other = ours
        .plugin(
            "20-other",
            &json!({"adjust": {"annotations": {"other": "1"}}}),
        )
        .await;
    let mut dies = ours
        .plugin(
            "10-dies",
            &json!({"events": "CreateContainer", "die": "CreateContainer"}),
        )
        .await;
    let created = ours.create("c0").await.unwrap();
    assert_eq!(created.adjustment.annotations["other"], "1");
    assert!(!dies.wait().await.success());
    let spec = json!({"events": "CreateContainer", "adjust": {"annotations": {"back": "1"}}});
    let _back = ours.plugin("10-dies", &spec).await;
    let created = ours.create("c1").await.unwrap();
    assert_eq!(created.adjustment.annotations["back"], "1");
}

#[tokio::test]
async fn a_go_plugin_that_sleeps_for_three_seconds_is_closed_after_two() {
    let shorter = |builder: Builder, _: &Path| {
        builder.timeouts(Timeouts {
            registration: PATIENCE,
            request: Duration::from_secs(2),
        })
    };
    let Some(ours) = Ours::with(NodeState::default(), shorter).await else {
        return;
    };
    let spec = json!({
        "events": "CreateContainer",
        "sleep": {"CreateContainer": "3s"},
        "adjust": {"annotations": {"k": "v"}},
    });
    let mut plugin = ours.plugin("10-sleeps", &spec).await;
    let created = ours.create("c0").await.unwrap();
    assert!(created.adjustment.annotations.is_empty());
    // Its connection is closed: it ends.
    assert!(plugin.wait().await.success());
}

#[tokio::test]
async fn sixty_four_creations_at_once_pass_three_go_plugins() {
    let Some(ours) = Ours::start().await else {
        return;
    };
    let mut plugins = Vec::new();
    for id in ["10-a", "20-b", "30-c"] {
        let adjust = json!({"annotations": {id: "1"}});
        let spec = json!({"events": "CreateContainer", "quiet": true, "adjust": adjust});
        plugins.push(ours.plugin(id, &spec).await);
    }
    let mut creations = JoinSet::new();
    for nth in 0..64 {
        let adaptation = ours.adaptation.clone();
        creations.spawn(async move {
            let request = nri::CreateContainerRequest {
                pod: Some(pod(&format!("pod{nth}"))),
                container: Some(nri::Container {
                    pod_sandbox_id: format!("pod{nth}"),
                    ..container(&format!("c{nth}"))
                }),
            };
            let options = RequestOptions::default();
            adaptation.create_container(request, &options).await
        });
    }
    for created in creations.join_all().await {
        assert_eq!(created.unwrap().adjustment.annotations.len(), 3);
    }
}

#[tokio::test]
async fn a_go_plugin_may_ask_for_updates_at_any_time_also_from_a_handler() {
    let Some(ours) = Ours::start().await else {
        return;
    };
    let spec = json!({"ask": [shares("c1", 3), shares("unknown", 4)]});
    let mut plugin = ours.plugin("10-go", &spec).await;
    ours.create("c0").await.unwrap();
    let asked = plugin.event("asked").await;
    assert_eq!(
        (&asked["error"], &asked["failed"]),
        (&json!(""), &json!(["unknown"]))
    );
    plugin.send(&json!({"update": [shares("c2", 5)]})).await;
    let updated = plugin.event("updated").await;
    assert_eq!(
        (&updated["error"], &updated["failed"]),
        (&json!(""), &json!([]))
    );
    let applied = ours.node.applied();
    assert_eq!(applied.len(), 2);
    assert_eq!(applied[1].updates[0].container_id, "c2");
}

#[tokio::test]
async fn row_254_and_255_a_launched_go_plugin_has_three_variables_and_its_configuration() {
    let Some(program) = peer::program("nri-plugin").await else {
        return;
    };
    let report = tempfile::tempdir().unwrap();
    let out = report.path().join("out");
    let config = json!({"out": out, "adjust": {"env": [{"key": "FOO", "value": "bar"}]}});
    let launch = |builder: Builder, dir: &Path| {
        let (plugins, configs) = (dir.join("plugins"), dir.join("conf.d"));
        fs::create_dir(&plugins).unwrap();
        fs::create_dir(&configs).unwrap();
        fs::copy(&program, plugins.join("40-go")).unwrap();
        fs::write(configs.join("go.conf"), config.to_string()).unwrap();
        for path in [&plugins.join("40-go"), &plugins, &configs] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        let mut options = LaunchOptions::new(plugins, configs);
        // The directory of the test lies below one that all may write to.
        options.trust_any_owner = true;
        builder.launch(options)
    };
    let Some(ours) = Ours::with(NodeState::default(), launch).await else {
        return;
    };
    let created = ours.create("c0").await.unwrap();
    assert_eq!(created.adjustment.env[0].key, "FOO");
    ours.adaptation.shutdown().await;
    let lines = fs::read_to_string(&out).unwrap();
    let configured: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    assert_eq!(configured["config"], config.to_string());
    let mut names: Vec<_> = configured["environment"].as_array().unwrap().clone();
    names.sort_by_key(ToString::to_string);
    assert_eq!(
        json!(names),
        json!(["NRI_PLUGIN_IDX", "NRI_PLUGIN_NAME", "NRI_PLUGIN_SOCKET"])
    );
    assert!(lines.contains(r#""event":"Shutdown""#), "{lines}");
}
