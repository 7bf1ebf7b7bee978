//! The stub and Longshore's own adaptation: the same protocol from both sides.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use longshore_nri_adaptation::socket::SocketOptions;
use longshore_nri_adaptation::{
    Adaptation, ApplyUpdates, Builder, Changes, NodeState, PluginState, RequestOptions,
    RuntimeError, Snapshot,
};
use longshore_nri_stub::api::{
    Container, ContainerAdjustment, ContainerUpdate, CreateContainerRequest, PodSandbox,
    StopContainerRequest, UpdateContainerRequest, ValidateContainerAdjustmentRequest,
};
use longshore_nri_stub::{
    Backoff, Configuration, Ended, Handle, HandlerError, Phase, Plugin, Session, Stub, plugin,
};
use tempfile::tempdir;

use crate::runtime::{builder, stream_pair, within};

/// A node with so many containers of so many bytes; it makes all updates but those of `gone`.
#[derive(Clone, Default)]
struct Node {
    containers: usize,
    size: usize,
    applied: Arc<Mutex<Vec<String>>>,
}

impl Snapshot for Node {
    async fn snapshot(&self) -> Result<NodeState, RuntimeError> {
        let container = |n: usize| Container {
            id: n.to_string(),
            status_message: "x".repeat(self.size),
            ..Container::default()
        };
        Ok(NodeState {
            pods: vec![pod(), pod()],
            containers: (0..self.containers).map(container).collect(),
        })
    }
}

impl ApplyUpdates for Node {
    async fn apply(&self, changes: Changes) -> Result<Vec<ContainerUpdate>, RuntimeError> {
        let mut applied = self.applied.lock().unwrap();
        let ids = changes
            .updates
            .iter()
            .map(|update| update.container_id.clone());
        applied.extend(ids);
        let gone = |update: &ContainerUpdate| update.container_id == "gone";
        Ok(changes.updates.into_iter().filter(gone).collect())
    }
}

fn pod() -> PodSandbox {
    PodSandbox {
        id: "pod".into(),
        ..PodSandbox::default()
    }
}

fn update(id: &str, shares: u64) -> ContainerUpdate {
    let mut update = ContainerUpdate {
        container_id: id.into(),
        ..ContainerUpdate::default()
    };
    update.resources_mut().set_cpu_shares(shares);
    update
}

fn runtime() -> Builder {
    Adaptation::builder("test-runtime", "1.2.3")
}

/// Sees everything, adjusts, and asks for more.
#[derive(Default, Clone)]
struct Busy {
    synchronized: Arc<Mutex<Vec<(usize, usize)>>>,
    events: Arc<AtomicUsize>,
    shutdowns: Arc<AtomicUsize>,
    handle: Arc<Mutex<Option<Handle>>>,
}

#[plugin]
impl Busy {
    async fn configure(&self, configuration: Configuration) {
        assert_eq!(configuration.runtime_name, "test-runtime");
        *self.handle.lock().unwrap() = Some(configuration.handle);
    }

    async fn synchronize(
        &self,
        pods: Vec<PodSandbox>,
        containers: Vec<Container>,
    ) -> Result<Vec<ContainerUpdate>, HandlerError> {
        let sizes = (pods.len(), containers.len());
        self.synchronized.lock().unwrap().push(sizes);
        Ok(vec![update("synchronized", 1)])
    }

    async fn shutdown(&self) {
        self.shutdowns.fetch_add(1, Ordering::SeqCst);
    }

    async fn run_pod_sandbox(&self, pod: PodSandbox) {
        assert_eq!(pod.id, "pod");
        self.events.fetch_add(1, Ordering::SeqCst);
    }

    async fn create_container(
        &self,
        _: PodSandbox,
        container: Container,
    ) -> Result<(ContainerAdjustment, Vec<ContainerUpdate>), HandlerError> {
        if container.name == "refused" {
            return Err("not this one".into());
        }
        let mut adjustment = ContainerAdjustment::default();
        adjustment.add_env("MODE", "fast").remove_env("DEBUG");
        Ok((adjustment, vec![update("other", 512)]))
    }

    async fn stop_container(
        &self,
        _: PodSandbox,
        _: Container,
    ) -> Result<Vec<ContainerUpdate>, HandlerError> {
        let handle = self.handle.lock().unwrap().clone().ok_or("no handle")?;
        let asked = vec![update("asked", 2), update("gone", 2)];
        let failed = handle.update_containers(asked).await?;
        assert_eq!(failed.len(), 1);
        Ok(vec![update("after", 3)])
    }

    async fn update_container(
        &self,
        _: PodSandbox,
        container: Container,
        _: longshore_nri_stub::api::LinuxResources,
    ) -> Result<Vec<ContainerUpdate>, HandlerError> {
        Ok(vec![update(&container.id, 77)])
    }

    async fn validate_container_adjustment(
        &self,
        request: ValidateContainerAdjustmentRequest,
    ) -> Result<(), String> {
        let container = request.container.unwrap_or_default();
        if container.name == "rejected" {
            return Err("not that one".into());
        }
        Ok(())
    }
}

async fn attached<P: Plugin>(adaptation: &Adaptation, plugin: P) -> (Stub<P>, Session) {
    let (near, far) = stream_pair();
    let stub = builder().connection(near).build(plugin).unwrap();
    adaptation.attach(far);
    let session = within(stub.start()).await.unwrap();
    within(adaptation.active("00-test")).await;
    (stub, session)
}

fn container(name: &str) -> Option<Container> {
    Some(Container {
        id: "ctr".into(),
        name: name.into(),
        env: vec!["DEBUG=1".into()],
        ..Container::default()
    })
}

fn creation(name: &str) -> CreateContainerRequest {
    CreateContainerRequest {
        pod: Some(pod()),
        container: container(name),
    }
}

#[tokio::test]
async fn every_kind_of_request_goes_through() {
    let node = Node::default();
    let adaptation = runtime().start(node.clone()).await.unwrap();
    let busy = Busy::default();
    let (_stub, session) = attached(&adaptation, busy.clone()).await;
    let options = RequestOptions::default();

    adaptation.run_pod_sandbox(&pod(), &options).await.unwrap();
    assert_eq!(busy.events.load(Ordering::SeqCst), 1);

    let created = adaptation
        .create_container(creation("c"), &options)
        .await
        .unwrap();
    let env: Vec<&str> = created
        .adjustment
        .env
        .iter()
        .map(|it| it.key.as_str())
        .collect();
    assert_eq!(env, ["-DEBUG", "MODE"]);
    assert_eq!(created.updates, [update("other", 512)]);
    for (name, text) in [("refused", "not this one"), ("rejected", "not that one")] {
        let failed = adaptation.create_container(creation(name), &options).await;
        let chain = format!("{:?}", failed.unwrap_err());
        assert!(chain.contains(text), "{chain}");
    }

    let request = UpdateContainerRequest {
        pod: Some(pod()),
        container: container("c"),
        linux_resources: None,
    };
    let change = adaptation
        .update_container(request, &options)
        .await
        .unwrap();
    let shares = change.requested.cpu.and_then(|cpu| cpu.shares);
    assert_eq!(shares.map(|shares| shares.value), Some(77));

    let request = StopContainerRequest {
        pod: Some(pod()),
        container: container("c"),
    };
    let change = adaptation.stop_container(request, &options).await.unwrap();
    assert_eq!(change.updates, [update("after", 3)]);
    let applied = node.applied.lock().unwrap().clone();
    assert_eq!(
        applied,
        ["synchronized", "asked", "gone"],
        "asked for inside a handler"
    );

    let status = &adaptation.plugins()[0];
    assert_eq!(
        (status.name.as_str(), status.state),
        ("00-test", PluginState::Active)
    );
    assert!(!status.state_change_only);
    assert_eq!(status.nri_version, session.handle().nri_version());

    let (ended, ()) = within(async { tokio::join!(session.wait(), adaptation.shutdown()) }).await;
    assert_eq!(ended.unwrap(), Ended::Shutdown);
    assert_eq!(busy.shutdowns.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn row_272_a_large_node_is_synchronized_whole() {
    let node = Node {
        containers: 20,
        size: 600_000,
        ..Node::default()
    };
    let adaptation = runtime().start(node).await.unwrap();
    let busy = Busy::default();
    let (_stub, _session) = attached(&adaptation, busy.clone()).await;
    assert_eq!(*busy.synchronized.lock().unwrap(), [(2, 20)]);
    adaptation.shutdown().await;
}

async fn serve(path: &Path) -> Adaptation {
    let node = Node {
        containers: 3,
        ..Node::default()
    };
    let mut options = SocketOptions::default();
    options.path = path.to_owned();
    runtime().socket(options).start(node).await.unwrap()
}

#[tokio::test]
async fn row_280_a_plugin_survives_restarts_of_its_runtime() {
    let directory = tempdir().unwrap();
    let path = directory.path().join("nri.sock");
    let (initial, max) = (Duration::from_millis(10), Duration::from_millis(50));
    let busy = Busy::default();
    let stub = builder()
        .socket(&path)
        .reconnect(Backoff::new(initial, max, 0.5).unwrap());
    let stub = stub.build(busy.clone()).unwrap();
    let handle = stub.handle();
    let lives = Box::pin(async {
        for life in 1..=3 {
            let adaptation = serve(&path).await;
            within(adaptation.active("00-test")).await;
            assert_eq!(busy.synchronized.lock().unwrap().len(), life);
            let created = adaptation
                .create_container(creation("c"), &RequestOptions::default())
                .await
                .unwrap();
            assert_eq!(created.adjustment.env.len(), 2);
            adaptation.shutdown().await;
            drop(adaptation);
        }
        let mut status = handle.watch();
        let waits = status.wait_for(|status| matches!(status.phase, Phase::Waiting(_)));
        assert_eq!(within(waits).await.unwrap().connections, 3);
        handle.stop();
    });
    let (ended, ()) = within(async { tokio::join!(stub.run(), lives) }).await;
    assert_eq!(ended.unwrap(), Ended::Stopped);
    assert_eq!(*busy.synchronized.lock().unwrap(), [(2, 3); 3]);
}

#[tokio::test]
async fn a_hundred_requests_of_different_pods_are_all_answered() {
    let adaptation = runtime().start(Node::default()).await.unwrap();
    let (_stub, _session) = attached(&adaptation, Busy::default()).await;
    let mut creations = tokio::task::JoinSet::new();
    for n in 0..100 {
        let adaptation = adaptation.clone();
        creations.spawn(async move {
            let mut request = creation(&n.to_string());
            request.pod.get_or_insert_default().id = n.to_string();
            request.container.get_or_insert_default().id = format!("ctr{n}");
            adaptation
                .create_container(request, &RequestOptions::default())
                .await
                .is_ok()
        });
    }
    assert!(
        within(creations.join_all())
            .await
            .into_iter()
            .all(|created| created)
    );
}
