//! A runtime that embeds the adaptation: it keeps pods and containers in memory, has one plugin
//! built in, and takes others on a socket: `cargo run --example embed -- /run/embed/nri.sock`.

#![expect(clippy::print_stdout, reason = "an example shows what it does")]

use std::error::Error;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use longshore_nri_adaptation::socket::SocketOptions;
use longshore_nri_adaptation::{
    Adaptation, ApplyUpdates, BuiltinPlugin, Changes, NodeState, RequestOptions, RuntimeError,
    Snapshot,
};
use longshore_nri_api::{
    Container, ContainerUpdate, CreateContainerRequest, CreateContainerResponse, PodSandbox,
};
use longshore_ttrpc::Status;

/// What the runtime knows. The lock is never held while a plugin is asked.
#[derive(Clone, Default)]
struct Runtime(Arc<Mutex<NodeState>>);

impl Runtime {
    fn state(&self) -> MutexGuard<'_, NodeState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Snapshot for Runtime {
    async fn snapshot(&self) -> Result<NodeState, RuntimeError> {
        Ok(self.state().clone())
    }
}

impl ApplyUpdates for Runtime {
    async fn apply(&self, changes: Changes) -> Result<Vec<ContainerUpdate>, RuntimeError> {
        let (mut state, mut failed) = (self.state(), Vec::new());
        for update in changes.updates {
            let known = &mut state.containers.iter_mut();
            match known.find(|container| container.id == update.container_id) {
                Some(container) => {
                    let linux = container.linux.get_or_insert_default();
                    linux.resources = update.linux.and_then(|linux| linux.resources);
                }
                None => failed.push(update),
            }
        }
        Ok(failed)
    }
}

/// The plugin that is built in.
struct Marker;

impl BuiltinPlugin for Marker {
    async fn create_container(
        &self,
        _: CreateContainerRequest,
    ) -> Result<CreateContainerResponse, Status> {
        let mut reply = CreateContainerResponse::default();
        let adjustment = reply.adjust.get_or_insert_default();
        adjustment.add_env("RUNTIME", "embed");
        Ok(reply)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let (runtime, options) = (Runtime::default(), RequestOptions::default());
    let mut builder = Adaptation::builder("embed", "0.1.0").builtin("50", "marker", Marker);
    if let Some(path) = std::env::args_os().nth(1) {
        builder = builder.socket(SocketOptions::new(path));
    }
    let nri = builder.start(runtime.clone()).await?;

    let (mut pod, mut container) = (PodSandbox::default(), Container::default());
    (pod.id, container.id) = ("pod0".to_owned(), "container0".to_owned());
    nri.run_pod_sandbox(&pod, &options).await?;
    let request = CreateContainerRequest {
        pod: Some(pod.clone()),
        container: Some(container.clone()),
    };
    let created = nri.create_container(request, &options).await?;
    for entry in &created.adjustment.env {
        println!("environment: {}={}", entry.key, entry.value);
    }
    runtime.state().pods.push(pod.clone());
    runtime.state().containers.push(container.clone());
    nri.start_container(&pod, &container, &options).await?;
    for plugin in nri.plugins() {
        println!("{}: {} requests", plugin.name, plugin.requests);
    }
    nri.shutdown().await;
    Ok(())
}
