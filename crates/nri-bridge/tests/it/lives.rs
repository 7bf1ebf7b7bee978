//! What plugins are told of a task, on every path.

use std::sync::Arc;

use longshore_docker_executor::Kill;
use longshore_engine::EngineError;
use longshore_engine::fake::{Call, Script};

use crate::bed::{Bed, SECOND, ended, finished, word};

const BEGUN: [&str; 5] = [
    "RunPodSandbox",
    "CreateContainer",
    "PostCreateContainer",
    "StartContainer",
    "PostStartContainer",
];
const ENDED: [&str; 4] = [
    "StopContainer",
    "RemoveContainer",
    "StopPodSandbox",
    "RemovePodSandbox",
];

#[tokio::test(start_paused = true)]
async fn a_task_is_told_from_its_pod_to_the_end_of_it_and_changed_on_its_way() {
    let bed = Bed::new().await;
    bed.answer(|answers| {
        let adjust = answers.create.adjust.get_or_insert_default();
        adjust
            .add_env("ADDED", "1")
            .resources_mut()
            .set_memory_limit(64 << 20);
    });
    let task = bed.running("t").await;
    let container = bed.engine.containers().last().unwrap().clone();
    let spec = bed.engine.spec(&container).unwrap();
    assert!(
        spec.env
            .iter()
            .any(|it| it.name == "ADDED" && it.value == "1")
    );
    assert_eq!(spec.resources.memory, Some(64 << 20));
    // What plugins see of it.
    let request = bed.notes.created.lock().unwrap()[0].clone();
    let (pod, container) = (request.pod.unwrap(), request.container.unwrap());
    assert_eq!((&*pod.name, &*container.name), ("name-of-t", "t"));
    assert_eq!((&pod.id, &pod.id), (&pod.uid, &container.id));
    assert_eq!(
        (&*pod.namespace, &*pod.annotations["team"]),
        ("longshore", "a")
    );
    task.kill(Kill::asked());
    assert_eq!(word(&ended(&task).await), "killed");
    bed.notes.until("RemovePodSandbox", 1).await;
    assert_eq!(bed.notes.seen(), [BEGUN.as_slice(), &ENDED].concat());
}

#[tokio::test(start_paused = true)]
async fn one_that_dies_by_itself_is_told_the_same() {
    let bed = Bed::new().await;
    bed.engine.script(Script::exits(SECOND, 3));
    let task = bed.launch("t");
    assert_eq!(word(&ended(&task).await), "exited");
    bed.notes.until("RemovePodSandbox", 1).await;
    let seen = bed.notes.seen();
    // It may be over before anybody has seen it run.
    let begun: Vec<_> = seen
        .iter()
        .filter(|it| BEGUN.contains(&it.as_str()))
        .collect();
    assert_eq!(begun[..4], BEGUN[..4], "{seen:?}");
    assert_eq!(seen[seen.len() - 4..], ENDED, "{seen:?}");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_a_plugin_refuses_fails_with_its_name_and_leaves_nothing() {
    let bed = Bed::new().await;
    bed.answer(|answers| answers.refuses = Some("not today"));
    let last = ended(&bed.launch("t")).await;
    assert_eq!(word(&last), "not-wanted");
    assert!(
        last.message().contains("10-notes") && last.message().contains("not today"),
        "{last:?}"
    );
    assert_eq!(bed.engine.count(Call::Create), 0);
    bed.notes.until("RemovePodSandbox", 1).await;
    let seen = [
        "RunPodSandbox",
        "CreateContainer",
        "StopPodSandbox",
        "RemovePodSandbox",
    ];
    assert_eq!(bed.notes.seen(), seen);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_done_for_a_plugin_fails_the_task_and_is_taken_back() {
    let bed = Bed::new().await;
    bed.answer(|answers| {
        let adjust = answers.create.adjust.get_or_insert_default();
        adjust.add_net_device("eth1", "data0");
    });
    let last = ended(&bed.launch("t")).await;
    let text = "plugin \"10-notes\" set linux.net_devices \"eth1\"";
    assert!(last.message().contains(text), "{last:?}");
    bed.notes.until("RemovePodSandbox", 1).await;
    assert_eq!(bed.notes.seen(), [&BEGUN[..2], &ENDED].concat());
    assert_eq!(bed.engine.count(Call::Create), 0);
}

#[tokio::test(start_paused = true)]
async fn one_that_the_engine_does_not_make_is_taken_back() {
    let bed = Bed::new().await;
    let error = EngineError::Status {
        call: "create",
        subject: "c".to_owned(),
        status: 400,
        message: "no".to_owned(),
    };
    bed.engine.fail(Call::Create, 1, error);
    assert_eq!(word(&ended(&bed.launch("t")).await), "not-created");
    bed.notes.until("RemovePodSandbox", 1).await;
    assert_eq!(bed.notes.seen(), [&BEGUN[..2], &ENDED].concat());
}

#[tokio::test(start_paused = true)]
async fn a_kill_waits_for_no_plugin_and_nothing_is_made_after_it() {
    let bed = Bed::new().await;
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    bed.answer(|answers| answers.hangs = Some(Arc::clone(&gate)));
    let task = bed.launch("t");
    bed.notes.until("CreateContainer", 1).await;
    task.kill(Kill::asked());
    assert_eq!(word(&ended(&task).await), "killed-during-launch");
    gate.add_permits(1);
    bed.notes.until("RemovePodSandbox", 1).await;
    assert_eq!(bed.engine.count(Call::Create), 0);
}

#[tokio::test(start_paused = true)]
async fn plugins_that_come_after_a_restart_are_told_what_runs_and_then_its_end() {
    let bed = Bed::new().await;
    let runs = bed.running("runs").await;
    let ends = bed.running("ends").await;
    let container = bed.engine.containers().last().unwrap().clone();
    drop((runs, ends));
    // It ends while nobody is there.
    let bed = bed
        .again(|engine| assert!(engine.exit(&container, 0)))
        .await;
    let state = bed.notes.synchronized.lock().unwrap().clone().unwrap();
    let mut names: Vec<_> = state.containers.iter().map(|it| it.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["ends", "runs"]);
    assert!(state.containers.iter().all(|it| it.pid > 0), "{state:?}");
    assert_eq!(state.pods.len(), 2);
    bed.notes.until("RemovePodSandbox", 1).await;
    assert_eq!(bed.notes.seen(), ENDED, "of the one alone, once each");
    let runs = bed.executor.task("runs").unwrap();
    runs.kill(Kill::asked());
    assert_eq!(word(&ended(&runs).await), "killed");
    bed.notes.until("RemovePodSandbox", 2).await;
    assert_eq!(bed.notes.seen(), [ENDED, ENDED].concat());
    // After another one nothing is left to tell: that both are gone is on record, which comes after the telling.
    finished(&bed.executor.task("ends").unwrap()).await;
    finished(&runs).await;
    drop(runs);
    let bed = bed.again(|_| {}).await;
    let state = bed.notes.synchronized.lock().unwrap().clone().unwrap();
    assert_eq!(state.containers, []);
}
