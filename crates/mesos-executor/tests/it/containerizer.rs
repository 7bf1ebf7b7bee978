//! As the executor of the agent's own docker containerizer.

use longshore_testkit::peers;
use serde_json::json;

use crate::bed::{Bed, EXECUTOR};

/// A docker client whose engine gives the agent what it needs of an image: `ContainerConfig`.
fn client() -> Option<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|folder| folder.join("docker"))
        .find(|docker| docker.is_file());
    match found {
        Some(docker) => Some(docker.display().to_string()),
        None => peers::skip("docker", "no docker client in PATH"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_of_the_docker_containerizer_runs_and_is_killed() {
    let Some(client) = client() else { return };
    let settings = |socket: &std::path::Path| {
        vec![
            ("MESOS_CONTAINERIZERS", "docker,mesos".to_owned()),
            ("MESOS_DOCKER", client),
            ("MESOS_DOCKER_SOCKET", socket.display().to_string()),
            ("MESOS_DOCKER_KILL_ORPHANS", "false".to_owned()),
            ("MESOS_DOCKER_EXECUTOR", EXECUTOR.to_owned()),
        ]
    };
    let Some(mut bed) = Bed::start(settings).await else {
        return;
    };
    let id = bed.id("contained");
    let task = json!({"name": id, "task_id": {"value": id},
        "container": {"type": "DOCKER", "docker": {"image": peers::TEST_IMAGE, "network": "NONE"}},
        "command": {"value": "echo started; trap 'exit 0' TERM; while :; do sleep 0.1; done"}});
    bed.scheduler.launch(task).await;
    bed.scheduler.until(&id, "TASK_RUNNING").await;
    let containers = bed.containers(&id).await;
    assert_eq!(containers.len(), 1);
    let named = |name: &String| name.trim_start_matches('/').starts_with("mesos-");
    assert!(containers[0].names.iter().all(named), "{containers:?}");
    bed.scheduler.kill(&id).await;
    let statuses = bed.scheduler.until(&id, "TASK_KILLED").await;
    assert_eq!(statuses[statuses.len() - 1]["source"], "SOURCE_EXECUTOR");
    bed.wait_for_the_executors_end().await;
    assert_eq!(bed.output(&id, "stdout"), "started\n");
    // The container is the agent's to remove; the watchdog had nothing to do.
    assert_eq!(bed.containers(&id).await.len(), 1);
    let stderr = bed.output(&id, "stderr");
    assert!(!stderr.contains("watchdog"), "{stderr}");
}
