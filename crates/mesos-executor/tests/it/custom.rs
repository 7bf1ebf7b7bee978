//! As the custom executor of a framework.

use nix::sys::signal::{Signal, kill};
use serde_json::{Value, json};

use crate::bed::Bed;

/// Runs until it is asked to end.
pub(crate) const SERVICE: &str = "trap 'exit 0' TERM; echo started; while :; do sleep 0.1; done";
/// Does not heed.
pub(crate) const STUBBORN: &str = "trap '' TERM; echo started; while :; do sleep 0.1; done";

pub(crate) fn states(statuses: &[Value]) -> Vec<&str> {
    let states = statuses.iter().map(|status| status["state"].as_str());
    states.map(Option::unwrap).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ex12_a_task_runs_to_its_end_and_its_executor_ends_after_the_acknowledgement() {
    let Some(mut bed) = Bed::start(|_| vec![]).await else {
        return;
    };
    let id = bed.id("once");
    let task = bed.custom(&id, "echo to stdout; echo to stderr >&2; exit 3");
    bed.scheduler.launch(task).await;
    let statuses = bed.scheduler.until(&id, "TASK_FAILED").await;
    assert_eq!(
        states(&statuses),
        ["TASK_STARTING", "TASK_RUNNING", "TASK_FAILED"]
    );
    let last = &statuses[2];
    assert_eq!(last["source"], "SOURCE_EXECUTOR");
    assert_eq!(last["executor_id"]["value"], id);
    assert!(last["message"].as_str().unwrap().contains('3'), "{last}");
    bed.wait_for_the_executors_end().await;
    assert_eq!(bed.output(&id, "stdout"), "to stdout\n");
    let stderr = bed.output(&id, "stderr");
    assert!(stderr.contains("to stderr\n"), "{stderr}");
    assert!(stderr.contains("--from_the_future is unknown"), "{stderr}");
    assert!(!stderr.contains("watchdog"), "{stderr}");
    bed.wait_until_gone(&id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_is_killed_and_tells_that_it_is_being_killed() {
    let Some(mut bed) = Bed::start(|_| vec![]).await else {
        return;
    };
    for (name, script) in [("heeds", SERVICE), ("ignores", STUBBORN)] {
        let id = bed.id(name);
        let mut task = bed.custom(&id, script);
        task["kill_policy"] = json!({"grace_period": {"nanoseconds": 500_000_000}});
        bed.scheduler.launch(task).await;
        bed.scheduler.until(&id, "TASK_RUNNING").await;
        bed.scheduler.kill(&id).await;
        let statuses = bed.scheduler.until(&id, "TASK_KILLED").await;
        assert_eq!(states(&statuses), ["TASK_KILLING", "TASK_KILLED"]);
        bed.wait_for_the_executors_end().await;
        bed.wait_until_gone(&id).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_health_check_is_told_and_reconciliation_repeats_it() {
    let Some(mut bed) = Bed::start(|_| vec![]).await else {
        return;
    };
    let id = bed.id("healthy");
    let mut task = bed.custom(&id, SERVICE);
    task["health_check"] = json!({"type": "COMMAND", "delay_seconds": 0.0, "interval_seconds": 1.0,
        "command": {"value": "exit 0"}});
    bed.scheduler.launch(task).await;
    bed.scheduler.until(&id, "TASK_RUNNING").await;
    let healthy = bed.scheduler.status(&id).await;
    assert_eq!(healthy["healthy"], true);
    assert_eq!(healthy["reason"], "REASON_TASK_HEALTH_CHECK_STATUS_UPDATED");
    bed.scheduler.reconcile(&id).await;
    let again = bed.scheduler.status(&id).await;
    assert_eq!(again["reason"], "REASON_RECONCILIATION");
    assert_eq!(again["healthy"], true);
    bed.scheduler.kill(&id).await;
    bed.scheduler.until(&id, "TASK_KILLED").await;
    bed.wait_until_gone(&id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ex15_a_task_goes_on_while_its_agent_is_away() {
    let Some(mut bed) = Bed::start(|_| vec![]).await else {
        return;
    };
    let id = bed.id("outlives");
    let task = bed.custom(&id, SERVICE);
    bed.scheduler.launch(task).await;
    bed.scheduler.until(&id, "TASK_RUNNING").await;
    let before = bed.executors();
    bed.restart_agent().await;
    assert_eq!(bed.executors(), before);
    assert_eq!(bed.containers(&id).await.len(), 1);
    let statuses = bed.kill_until_killed(&id).await;
    assert_eq!(statuses[statuses.len() - 1]["source"], "SOURCE_EXECUTOR");
    bed.wait_for_the_executors_end().await;
    bed.wait_until_gone(&id).await;
}

async fn the_container_of_a_dead_executor_goes(bed: &mut Bed) {
    for (name, script) in [("dead", SERVICE), ("dead-stubborn", STUBBORN)] {
        let id = bed.id(name);
        let mut task = bed.custom(&id, script);
        task["kill_policy"] = json!({"grace_period": {"nanoseconds": 1_000_000_000}});
        bed.scheduler.launch(task).await;
        bed.scheduler.until(&id, "TASK_RUNNING").await;
        let executors = bed.executors();
        assert!(!executors.is_empty());
        for executor in executors {
            kill(executor, Signal::SIGKILL).unwrap();
        }
        let statuses = bed.scheduler.until(&id, "TASK_FAILED").await;
        let last = &statuses[statuses.len() - 1];
        assert_eq!(last["source"], "SOURCE_AGENT");
        assert_eq!(last["reason"], "REASON_EXECUTOR_TERMINATED");
        bed.wait_until_gone(&id).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_the_posix_launcher_the_container_of_a_dead_executor_goes() {
    let Some(mut bed) = Bed::start(|_| vec![]).await else {
        return;
    };
    the_container_of_a_dead_executor_goes(&mut bed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_the_linux_launcher_the_container_of_a_dead_executor_goes() {
    let linux = |_: &std::path::Path| {
        vec![
            ("MESOS_LAUNCHER", "linux".to_owned()),
            (
                "MESOS_ISOLATION",
                "cgroups/cpu,cgroups/mem,filesystem/linux".to_owned(),
            ),
        ]
    };
    let Some(mut bed) = Bed::start(linux).await else {
        return;
    };
    the_container_of_a_dead_executor_goes(&mut bed).await;
}
