//! The container that all of this is about: 30 variables, 2 mounts, resources.

use longshore_nri_api::{
    Container, ContainerAdjustment, CreateContainerRequest, CreateContainerResponse,
    LinuxContainer, LinuxResources, Mount, PodSandbox,
};
use prost::Message as _;
use serde_json::{Value, json};

/// What the headers and the envelope around a message come to, in bytes.
const AROUND: usize = 18 + 80;

/// The nth pod.
#[must_use]
pub fn pod(nth: usize) -> PodSandbox {
    PodSandbox {
        id: format!("{nth:064}"),
        name: "bench".to_owned(),
        uid: "b5a2b2f6-0000-4000-8000-000000000000".to_owned(),
        namespace: "default".to_owned(),
        ..PodSandbox::default()
    }
}

/// The nth container.
#[must_use]
pub fn container(nth: usize) -> Container {
    let mount = |destination: &str| Mount {
        destination: destination.to_owned(),
        r#type: "bind".to_owned(),
        source: format!("/var/lib/containers{destination}"),
        options: ["rbind", "rprivate", "rw"].map(str::to_owned).to_vec(),
    };
    let mut resources = LinuxResources::default();
    resources
        .set_cpu_shares(512_u64)
        .set_cpu_quota(50_000)
        .set_cpu_period(100_000_u64)
        .set_memory_limit(256 << 20);
    Container {
        id: format!("{nth:064}"),
        pod_sandbox_id: pod(0).id,
        name: "subject".to_owned(),
        args: ["/bin/server", "--listen", ":8080"]
            .map(str::to_owned)
            .to_vec(),
        env: environment(),
        mounts: ["/data", "/etc/config"].map(mount).to_vec(),
        linux: Some(LinuxContainer {
            resources: Some(resources),
            ..LinuxContainer::default()
        }),
        ..Container::default()
    }
}

fn environment() -> Vec<String> {
    (0..30)
        .map(|nth| format!("SERVICE_VARIABLE_{nth:02}=the value of a variable"))
        .collect()
}

/// The request to create the container in one of the pods.
#[must_use]
pub fn request(pod_number: usize) -> CreateContainerRequest {
    CreateContainerRequest {
        pod: Some(pod(pod_number)),
        container: Some(container(0)),
    }
}

/// What each plugin adds: a variable of its own.
#[must_use]
pub fn adjustment(name: &str) -> ContainerAdjustment {
    let mut adjustment = ContainerAdjustment::default();
    adjustment.add_env(variable(name), "set by a plugin");
    adjustment
}

fn variable(name: &str) -> String {
    format!("PLUGIN_{}", name.replace('-', "_"))
}

/// Lengths of a request and its answer on the wire.
#[must_use]
pub fn lengths() -> (usize, usize) {
    let reply = CreateContainerResponse {
        adjust: Some(adjustment("bench-00")),
        ..CreateContainerResponse::default()
    };
    (
        request(0).encoded_len() + AROUND,
        reply.encoded_len() + 18 + 4,
    )
}

/// The same for the Go programs.
#[must_use]
pub fn go_spec(name: &str) -> Value {
    json!({
        "events": "CreateContainer,StartContainer",
        "quiet": true,
        "adjust": {"env": [{"key": variable(name), "value": "set by a plugin"}]},
    })
}

/// A command of the Go runtime: `n` requests of one kind.
#[must_use]
pub fn go_bench(what: &str, n: usize, parallel: usize) -> Value {
    let mounts = ["/data", "/etc/config"].map(|destination| {
        json!({
            "destination": destination, "type": "bind", "source": format!("/var/lib/containers{destination}"),
            "options": ["rbind", "rprivate", "rw"],
        })
    });
    let pod = pod(0);
    json!({
        "op": "bench", "what": what, "n": n, "parallel": parallel,
        "pod": {"id": pod.id, "name": pod.name, "uid": pod.uid, "namespace": pod.namespace},
        "container": {
            "id": container(0).id, "podSandboxId": pod.id, "name": "subject",
            "args": ["/bin/server", "--listen", ":8080"],
            "env": environment(),
            "mounts": mounts,
            "linux": {"resources": {
                "cpu": {"shares": {"value": "512"}, "quota": {"value": "50000"}, "period": {"value": "100000"}},
                "memory": {"limit": {"value": (256 << 20).to_string()}},
            }},
        },
    })
}
