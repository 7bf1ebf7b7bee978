//! Requests of the runtime.

use longshore_nri_adaptation::{
    Adaptation, ApplyUpdates, Changes, NodeState, RequestOptions, RuntimeError, Snapshot,
};
use longshore_nri_api::{Container, ContainerUpdate, CreateContainerRequest, PodSandbox};

struct Node;

impl Snapshot for Node {
    async fn snapshot(&self) -> Result<NodeState, RuntimeError> {
        Ok(NodeState::default())
    }
}

impl ApplyUpdates for Node {
    async fn apply(&self, changes: Changes) -> Result<Vec<ContainerUpdate>, RuntimeError> {
        Ok(changes.updates)
    }
}

#[tokio::test]
async fn without_plugins_every_request_succeeds() {
    let adaptation = Adaptation::builder("runtime", "1")
        .start(Node)
        .await
        .unwrap();
    let options = RequestOptions::default();
    let pod = PodSandbox::default();
    adaptation.run_pod_sandbox(&pod, &options).await.unwrap();
    let request = CreateContainerRequest {
        pod: Some(pod),
        container: Some(Container::default()),
    };
    let created = adaptation
        .create_container(request, &options)
        .await
        .unwrap();
    assert!(created.updates.is_empty());
}
