//! What a scheduler and an agent do to an executor in the middle of something else.

use longshore_engine::Engine as _;
use nix::sys::signal::{Signal, kill};
use serde_json::json;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

use crate::bed::Bed;
use crate::custom::{SERVICE, STUBBORN, states};
use crate::relay::{Held, Relay};
use crate::scheduler::SOON;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_task_of_the_same_executor_fails_and_the_first_goes_on() {
    let Some(mut bed) = Bed::start(|_| vec![]).await else {
        return;
    };
    let (first, second) = (bed.id("first"), bed.id("second"));
    let task = bed.custom(&first, SERVICE);
    bed.scheduler.launch(task.clone()).await;
    bed.scheduler.until(&first, "TASK_RUNNING").await;
    let executors = bed.executors();
    let mut another = task;
    another["task_id"]["value"] = json!(second);
    another["name"] = json!(second);
    bed.scheduler.launch(another).await;
    let statuses = bed.scheduler.until(&second, "TASK_FAILED").await;
    let last = &statuses[statuses.len() - 1];
    assert_eq!(last["source"], "SOURCE_EXECUTOR");
    assert!(bed.containers(&second).await.is_empty(), "{last}");
    // The last status of the second is acknowledged: not the end of the executor of the first.
    bed.scheduler.reconcile(&first).await;
    let status = bed.scheduler.status(&first).await;
    assert_eq!(status["state"], "TASK_RUNNING");
    assert_eq!(bed.executors(), executors);
    bed.scheduler.kill(&first).await;
    let statuses = bed.scheduler.until(&first, "TASK_KILLED").await;
    assert_eq!(states(&statuses), ["TASK_KILLING", "TASK_KILLED"]);
    bed.wait_for_the_executors_end().await;
    bed.wait_until_gone(&first).await;
}

/// A registry that takes requests and never answers.
async fn mute_registry() -> (String, tokio::task::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let image = format!("{}/never:1", listener.local_addr().unwrap());
    let held = tokio::spawn(async move {
        let mut all = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            let _read = stream.read_u8().await;
            all.push(stream);
        }
    });
    (image, held)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_during_the_pull_is_answered_at_once() {
    let Some(mut bed) = Bed::start(|_| vec![]).await else {
        return;
    };
    let (image, registry) = mute_registry().await;
    let id = bed.id("pulling");
    let mut task = bed.custom(&id, SERVICE);
    task["container"]["docker"]["image"] = json!(image);
    bed.scheduler.launch(task).await;
    bed.scheduler.until(&id, "TASK_STARTING").await;
    bed.scheduler.kill(&id).await;
    let statuses = bed.scheduler.until(&id, "TASK_KILLED").await;
    assert_eq!(statuses[statuses.len() - 1]["source"], "SOURCE_EXECUTOR");
    assert!(!states(&statuses).contains(&"TASK_RUNNING"));
    bed.wait_for_the_executors_end().await;
    assert!(bed.containers(&id).await.is_empty());
    registry.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_during_the_start_is_answered_and_leaves_no_container() {
    let Some(mut bed) = Bed::start(|_| vec![]).await else {
        return;
    };
    let mut relay = Relay::start(bed.dir.path().join("held.sock"), &bed.socket);
    let id = bed.id("starting");
    let mut task = bed.custom_on(relay.socket(), &id, STUBBORN);
    task["kill_policy"] = json!({"grace_period": {"nanoseconds": 200_000_000}});
    relay.hold(Held::Start);
    bed.scheduler.launch(task).await;
    bed.scheduler.until(&id, "TASK_STARTING").await;
    relay.caught().await;
    bed.scheduler.kill(&id).await;
    assert_eq!(bed.scheduler.status(&id).await["state"], "TASK_KILLING");
    relay.hold(Held::Nothing);
    let statuses = bed.scheduler.until(&id, "TASK_KILLED").await;
    assert_eq!(states(&statuses), ["TASK_KILLED"]);
    bed.wait_for_the_executors_end().await;
    bed.wait_until_gone(&id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shutdown_kills_the_task_within_the_executors_grace_and_all_is_told() {
    let Some(mut bed) = Bed::start(|_| vec![]).await else {
        return;
    };
    let id = bed.id("shut-down");
    let mut task = bed.custom(&id, STUBBORN);
    // The grace of a kill would be far longer than that of the executor.
    task["kill_policy"] = json!({"grace_period": {"nanoseconds": 3_600_000_000_000_u64}});
    task["executor"]["shutdown_grace_period"] = json!({"nanoseconds": 30_000_000_000_u64});
    bed.scheduler.launch(task).await;
    let running = bed.scheduler.until(&id, "TASK_RUNNING").await;
    let agent = running[running.len() - 1]["agent_id"].clone();
    bed.scheduler.shut_down(&agent, &id).await;
    let statuses = bed.scheduler.until(&id, "TASK_KILLED").await;
    assert_eq!(states(&statuses), ["TASK_KILLING", "TASK_KILLED"]);
    let last = &statuses[1];
    assert_eq!(last["source"], "SOURCE_EXECUTOR", "{last}");
    bed.wait_for_the_executors_end().await;
    let failure = bed.scheduler.event("FAILURE").await["failure"].clone();
    assert_eq!(failure["executor_id"]["value"], id);
    assert_eq!(failure["status"], 0, "it ended by itself: {failure}");
    bed.wait_until_gone(&id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_framework_that_is_torn_down_leaves_no_container() {
    let Some(mut bed) = Bed::start(|_| vec![]).await else {
        return;
    };
    let id = bed.id("torn-down");
    let mut task = bed.custom(&id, STUBBORN);
    task["executor"]["shutdown_grace_period"] = json!({"nanoseconds": 4_000_000_000_u64});
    bed.scheduler.launch(task).await;
    bed.scheduler.until(&id, "TASK_RUNNING").await;
    // Nobody acknowledges its last status any more.
    bed.scheduler.tear_down().await;
    bed.wait_for_the_executors_end().await;
    bed.wait_until_gone(&id).await;
}

/// The executor dies while the engine answers nobody: its container is ended all the same, and removed once the engine answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_engine_that_hangs_does_not_save_the_container_of_a_dead_executor() {
    let Some(mut bed) = Bed::start(|_| vec![]).await else {
        return;
    };
    for (name, script) in [("hung", SERVICE), ("hung-stubborn", STUBBORN)] {
        let relay = Relay::start(bed.dir.path().join(name), &bed.socket);
        let id = bed.id(name);
        let mut task = bed.custom_on(relay.socket(), &id, script);
        task["kill_policy"] = json!({"grace_period": {"nanoseconds": 1_500_000_000}});
        bed.scheduler.launch(task).await;
        bed.scheduler.until(&id, "TASK_RUNNING").await;
        let container = bed.containers(&id).await.remove(0).id;
        relay.hold(Held::All);
        for executor in bed.executors() {
            kill(executor, Signal::SIGKILL).unwrap();
        }
        bed.scheduler.until(&id, "TASK_FAILED").await;
        // The relay holds back everything, so this is nobody's doing but the watchdog's.
        let ended = async {
            while bed
                .engine
                .inspect(&container)
                .await
                .unwrap()
                .state
                .pid
                .is_some()
            {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        let ended = tokio::time::timeout(SOON, ended).await;
        ended.expect("the container ends");
        assert_eq!(bed.containers(&id).await.len(), 1);
        relay.hold(Held::Nothing);
        bed.wait_until_gone(&id).await;
        Bed::wait_for_the_watchdogs_end(relay.socket()).await;
    }
}

/// The agent of these tests tells the socket's path, but does not listen there: what is connected to it is passed on to its port.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_executor_comes_by_the_domain_socket_that_its_agent_names() {
    let place = tempfile::tempdir_in("/tmp").unwrap();
    let socket = place.path().join("agent.sock");
    let settings = |_: &std::path::Path| {
        vec![
            ("MESOS_HTTP_EXECUTOR_DOMAIN_SOCKETS", "true".to_owned()),
            ("MESOS_DOMAIN_SOCKET_LOCATION", socket.display().to_string()),
        ]
    };
    let Some(mut bed) = Bed::start(settings).await else {
        return;
    };
    let mut relay = Relay::before_port(socket, bed.agent.port());
    let id = bed.id("by-socket");
    let task = bed.custom(&id, "exit 0");
    relay.hold(Held::All);
    bed.scheduler.launch(task).await;
    // It is held back at the socket, so it comes this way and by no other.
    relay.caught().await;
    relay.hold(Held::Nothing);
    bed.scheduler.until(&id, "TASK_FINISHED").await;
    bed.wait_for_the_executors_end().await;
    bed.wait_until_gone(&id).await;
}
