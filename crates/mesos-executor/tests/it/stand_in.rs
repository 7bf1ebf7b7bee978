//! The whole of what is given to an agent that knows no Docker after 25: the stand-in for `docker`, and the executor.

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use longshore_engine::{
    ContainerSpec, ContainerStatus, Engine as _, EngineError, NetworkMode, RemoveOptions,
};
use longshore_testkit::peers::TEST_IMAGE;
use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};

use crate::bed::{Bed, EXECUTOR};
use crate::custom::{STUBBORN, states};
use crate::scheduler::SOON;

/// The example beside this test: cargo builds it with the tests.
fn stand_in() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let target = test.parent().and_then(|deps| deps.parent()).unwrap();
    target.join("examples/stand-in")
}

fn task(id: &str, script: &str) -> Value {
    json!({"name": id, "task_id": {"value": id},
        "container": {"type": "DOCKER", "docker": {"image": TEST_IMAGE, "network": "NONE"}},
        "command": {"value": script}})
}

/// A container that is no task's, running.
async fn stranger(bed: &Bed, name: &str) -> String {
    let spec = ContainerSpec {
        image: TEST_IMAGE.to_owned(),
        name: Some(name.to_owned()),
        cmd: Some(["sleep", "3600"].map(str::to_owned).to_vec()),
        network: NetworkMode::None,
        labels: [("org.longshore.test".to_owned(), bed.id("stranger"))].into(),
        ..ContainerSpec::default()
    };
    let id = bed.engine.create(&spec).await.unwrap().id;
    bed.engine.start(&id).await.unwrap();
    id
}

async fn gone(bed: &Bed, container: &str) {
    let gone = async {
        loop {
            match bed.engine.inspect(container).await {
                Err(EngineError::NotFound { .. }) => return,
                Err(error) => panic!("{error}"),
                Ok(_) => tokio::time::sleep(std::time::Duration::from_millis(50)).await,
            }
        }
    };
    let gone = tokio::time::timeout(SOON, gone).await;
    gone.expect("the container goes");
}

async fn on(release: &str, kills_orphans: bool) {
    let links = tempfile::tempdir().unwrap();
    let docker = links.path().join("docker");
    symlink(stand_in(), &docker).unwrap();
    let settings = |socket: &std::path::Path| {
        vec![
            ("MESOS_CONTAINERIZERS", "docker,mesos".to_owned()),
            ("MESOS_DOCKER", docker.display().to_string()),
            ("MESOS_DOCKER_SOCKET", socket.display().to_string()),
            ("MESOS_DOCKER_KILL_ORPHANS", kills_orphans.to_string()),
            ("MESOS_DOCKER_REMOVE_DELAY", "1secs".to_owned()),
            ("MESOS_DOCKER_EXECUTOR", EXECUTOR.to_owned()),
        ]
    };
    let Some(mut bed) = Bed::start_on(release, settings).await else {
        return;
    };

    // To an end of its own, good and bad; the agent removes the containers.
    for (name, script, last) in [
        ("ends", "echo out; echo err >&2", "TASK_FINISHED"),
        ("fails", "echo out; echo err >&2; exit 3", "TASK_FAILED"),
    ] {
        let id = bed.id(name);
        bed.scheduler.launch(task(&id, script)).await;
        let statuses = bed.scheduler.until(&id, last).await;
        assert_eq!(states(&statuses), ["TASK_STARTING", "TASK_RUNNING", last]);
        assert_eq!(statuses[2]["source"], "SOURCE_EXECUTOR");
        bed.wait_for_the_executors_end().await;
        assert_eq!(bed.output(&id, "stdout"), "out\n");
        assert!(bed.output(&id, "stderr").contains("err\n"));
        bed.wait_until_gone(&id).await;
    }

    // An image that is nowhere: the agent itself pulls, and says why there is no task.
    let id = bed.id("imageless");
    let mut imageless = task(&id, "true");
    imageless["container"]["docker"]["image"] = json!("127.0.0.1:9/nowhere:1");
    bed.scheduler.launch(imageless).await;
    let statuses = bed.scheduler.until(&id, "TASK_FAILED").await;
    assert_eq!(statuses[0]["source"], "SOURCE_AGENT");
    assert_eq!(statuses[0]["reason"], "REASON_CONTAINER_LAUNCH_FAILED");
    let message = statuses[0]["message"].as_str().unwrap();
    assert!(message.contains("127.0.0.1:9/nowhere"), "{message}");

    // Healthy, and killed.
    let service = "echo started; trap 'exit 0' TERM; while :; do sleep 0.1; done";
    let id = bed.id("killed");
    let mut checked = task(&id, service);
    checked["health_check"] = json!({"type": "COMMAND", "delay_seconds": 0.0, "interval_seconds": 3600.0,
        "command": {"value": "exit 0"}});
    bed.scheduler.launch(checked).await;
    bed.scheduler.until(&id, "TASK_RUNNING").await;
    assert_eq!(bed.scheduler.status(&id).await["healthy"], true);
    bed.scheduler.kill(&id).await;
    let statuses = bed.scheduler.until(&id, "TASK_KILLED").await;
    assert_eq!(states(&statuses), ["TASK_KILLING", "TASK_KILLED"]);
    assert_eq!(statuses[1]["source"], "SOURCE_EXECUTOR");
    bed.wait_for_the_executors_end().await;
    assert_eq!(bed.output(&id, "stdout"), "started\n");
    bed.wait_until_gone(&id).await;

    // Its executor dies: the agent stops the container, and so does the watchdog.
    let id = bed.id("orphaned");
    bed.scheduler.launch(task(&id, service)).await;
    bed.scheduler.until(&id, "TASK_RUNNING").await;
    for executor in bed.executors() {
        kill(executor, Signal::SIGKILL).unwrap();
    }
    let statuses = bed.scheduler.until(&id, "TASK_FAILED").await;
    assert_eq!(statuses[statuses.len() - 1]["source"], "SOURCE_AGENT");
    bed.wait_until_gone(&id).await;
    the_agent_restarts(&mut bed, kills_orphans).await;
}

/// This containerizer recovers no executor of the HTTP API: the agent says that the task has failed, and sends the executor away. What
/// has the name of its like and is none of its own it removes, where it is to.
async fn the_agent_restarts(bed: &mut Bed, kills_orphans: bool) {
    let id = bed.id("restarted");
    bed.scheduler.launch(task(&id, STUBBORN)).await;
    bed.scheduler.until(&id, "TASK_RUNNING").await;
    let uuid = std::fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap();
    let orphan = stranger(bed, &format!("mesos-{}", uuid.trim())).await;
    let foreign = stranger(bed, &bed.id("foreign")).await;
    bed.restart_agent().await;
    let statuses = bed.scheduler.until(&id, "TASK_FAILED").await;
    let last = &statuses[statuses.len() - 1];
    assert_eq!(last["source"], "SOURCE_AGENT");
    assert_eq!(last["reason"], "REASON_EXECUTOR_TERMINATED");
    bed.wait_for_the_executors_end().await;
    bed.wait_until_gone(&id).await;
    let options = RemoveOptions {
        force: true,
        volumes: true,
    };
    if kills_orphans {
        gone(bed, &orphan).await;
    } else {
        bed.engine.remove(&orphan, options).await.unwrap();
    }
    let foreigner = bed.engine.inspect(&foreign).await.unwrap();
    assert_eq!(foreigner.state.status, ContainerStatus::Running);
    bed.engine.remove(&foreign, options).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dx26_dx27_dx28_an_agent_with_the_stand_in_runs_tasks_on_docker_26() {
    on("trixie", false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dx26_dx27_dx28_an_agent_with_the_stand_in_runs_tasks_on_docker_28() {
    on("sid", true).await;
}
