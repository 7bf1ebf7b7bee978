//! Launches, kills and ends on the fake engine.

use longshore_docker_executor::{Acknowledge, Kill, Launch, labels};
use longshore_engine::fake::{Call, Script};
use longshore_engine::{ContainerStatus, LogSource};
use longshore_mesos_api::v1::TaskState;
use longshore_mesos_api::v1::task_status::Reason;

use crate::bed::{Bed, SECOND, ended, finished, gone, killed, launch, told, until, word, words};

#[tokio::test(start_paused = true)]
async fn dx_01_a_task_runs_from_its_record_to_its_last_status() {
    let bed = Bed::new();
    bed.engine.script(Script {
        output: vec![(LogSource::Stdout, "out\n".to_owned())],
        ..Script::exits(SECOND, 0)
    });
    let task = bed.launch(
        "one",
        r#""command":{"shell":false,"environment":{"variables":[{"name":"TOKEN","value":"hunter2"}]}},"#,
    );
    let statuses = told(&task).await;
    let words: Vec<_> = statuses.iter().map(word).collect();
    assert_eq!(words, ["STARTING", "RUNNING", "FINISHED exited"]);
    let running = &statuses[1];
    let data: serde_json::Value = serde_json::from_slice(running.data()).unwrap();
    assert!(data[0]["Id"].is_string(), "{data}");
    assert!(!data.to_string().contains("hunter2"));
    for status in &statuses {
        assert_eq!(status.task_id.value, "one");
        assert_eq!(status.uuid().len(), 16);
        assert!(status.timestamp() > 0.0);
    }
    finished(&task).await;
    assert_eq!(bed.engine.containers(), [""; 0], "it is removed");
    let out = std::fs::read_to_string(bed.sandbox().join("stdout")).unwrap();
    assert_eq!(out, "out\n");
    assert!(task.watch().borrow().finished);
    bed.executor.forget(&task).await.unwrap();
    assert!(bed.executor.tasks().is_empty());
}

#[tokio::test(start_paused = true)]
async fn containers_are_ours_by_name_and_label_and_on_record_before_they_exist() {
    let bed = Bed::new();
    // The record is there when the container is created.
    bed.engine.hang(Call::Create, 1);
    let task = bed.launch("mesos-1", "");
    bed.engine
        .until(|log| log.iter().any(|(call, _)| *call == Call::Create))
        .await;
    let tasks = bed.dir.path().join("state/tasks");
    let dirs: Vec<_> = std::fs::read_dir(&tasks).unwrap().collect();
    assert_eq!(dirs.len(), 1);
    let dir = dirs.into_iter().next().unwrap().unwrap().path();
    for name in ["task", "state"] {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(dir.join(name))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    until(&task, TaskState::TaskRunning).await;
    let spec = bed.engine.spec(&bed.engine.containers()[0]).unwrap();
    let name = spec.name.unwrap();
    assert!(
        !name.starts_with("mesos-") && name.contains("mesos-1"),
        "{name}"
    );
    assert_eq!(task.container_name(), name);
    assert_eq!(spec.labels[labels::OWNER], "test");
    assert_eq!(
        spec.labels[labels::ROOT],
        bed.dir.path().join("state").display().to_string()
    );
    assert_eq!(spec.labels[labels::TASK], "mesos-1");
    let log = spec.log.unwrap();
    assert_eq!(
        (log.driver.as_str(), &*log.options["max-file"]),
        ("local", "4")
    );
}

#[tokio::test(start_paused = true)]
async fn dx_03_a_kill_at_every_moment_has_an_answer() {
    // While the Nth call of each kind hangs.
    for call in [
        Call::Pull,
        Call::Create,
        Call::Wait,
        Call::Start,
        Call::Inspect,
    ] {
        let bed = Bed::new();
        if call == Call::Pull {
            bed.engine.add_to_registry("other", 100 * SECOND);
        } else {
            bed.engine.hang(call, 1);
        }
        let rest = if call == Call::Pull {
            r#""container":{"type":"DOCKER","docker":{"image":"other"}},"#
        } else {
            ""
        };
        let task = bed.launch("t", rest);
        bed.engine
            .until(|log| log.iter().any(|(it, _)| *it == call))
            .await;
        let last = killed(&task).await;
        assert!(last.starts_with("KILLED killed"), "{call:?}: {last}");
        finished(&task).await;
        assert_eq!(bed.engine.containers(), [""; 0], "{call:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn dx_33_a_pull_that_is_not_wanted_any_more_is_given_up() {
    let bed = Bed::new();
    bed.engine.add_to_registry("big", 100 * SECOND);
    let task = bed.launch(
        "t",
        r#""container":{"type":"DOCKER","docker":{"image":"big"}},"#,
    );
    let began = tokio::time::Instant::now();
    bed.engine
        .until(|log| log.iter().any(|(it, _)| *it == Call::Pull))
        .await;
    assert_eq!(killed(&task).await, "KILLED killed-during-launch");
    assert!(began.elapsed() < 50 * SECOND, "not after the pull");
    assert_eq!(bed.engine.count(Call::Create), 0);
}

#[tokio::test(start_paused = true)]
async fn dx_07_a_task_that_ignores_term_gets_kill_at_its_grace() {
    let bed = Bed::new();
    let policy = r#""kill_policy":{"grace_period":{"nanoseconds":600000000000}},"#;
    let (task, container) = bed.running(Script::ignores_term(), policy).await;
    task.kill(Kill::asked());
    until(&task, TaskState::TaskKilling).await;
    let began = tokio::time::Instant::now();
    task.kill(Kill::within(std::time::Duration::from_nanos(100)));
    assert_eq!(word(&ended(&task).await), "KILLED killed");
    assert!(began.elapsed() < 60 * SECOND);
    let signals = bed.engine.signals(&container);
    // The container may be removed by now.
    assert!(
        signals.is_empty() || signals == ["SIGTERM", "SIGKILL"],
        "{signals:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_grace_is_kept_to_the_millisecond() {
    let bed = Bed::with(|options| options.remove = false);
    let policy = r#""kill_policy":{"grace_period":{"nanoseconds":7000000000}},"#;
    let (task, container) = bed.running(Script::ignores_term(), policy).await;
    task.kill(Kill::asked());
    bed.engine
        .until(|log| log.iter().filter(|(it, _)| *it == Call::Kill).count() == 1)
        .await;
    let began = tokio::time::Instant::now();
    ended(&task).await;
    let took = began.elapsed();
    assert!(
        took >= 7 * SECOND - SECOND / 100 && took < 8 * SECOND,
        "{took:?}"
    );
    assert_eq!(bed.engine.signals(&container), ["SIGTERM", "SIGKILL"]);
}

#[tokio::test(start_paused = true)]
async fn the_images_stop_signal_is_heeded() {
    let bed = Bed::with(|options| options.remove = false);
    bed.engine
        .add_image("quits", longshore_engine::ImageInfo::default());
    let quits = r#""container":{"type":"DOCKER","docker":{"image":"quits","parameters":[{"key":"stop-signal","value":"SIGQUIT"}]}},"#;
    let (task, container) = bed.running(Script::default(), quits).await;
    assert_eq!(killed(&task).await, "KILLED killed");
    assert_eq!(bed.engine.signals(&container), ["SIGQUIT"]);
}

#[tokio::test(start_paused = true)]
async fn dx_37_how_it_ended_is_told_apart() {
    for (end, expected, reason) in [
        (0, "FINISHED exited", None),
        (3, "FAILED exited", None),
        (137, "FAILED signaled", None),
    ] {
        let bed = Bed::new();
        let (task, container) = bed.running(Script::default(), "").await;
        bed.engine.exit(&container, end);
        let last = ended(&task).await;
        assert_eq!(word(&last), expected);
        assert_eq!(last.reason, reason);
    }
    let bed = Bed::new();
    let limits = r#""resources":[{"name":"mem","type":"SCALAR","scalar":{"value":64}}],"#;
    let (task, container) = bed.running(Script::default(), limits).await;
    bed.engine.oom(&container);
    let last = ended(&task).await;
    assert_eq!(word(&last), "FAILED out-of-memory");
    assert_eq!(last.reason(), Reason::ContainerLimitationMemory);
    assert_eq!(last.limitation.unwrap().resources[0].name, "mem");

    let runc = "unable to start container process: exec: ";
    for (problem, expected) in [
        (
            format!("{runc}\"x\": executable file not found in $PATH"),
            "program-not-found",
        ),
        (
            format!("{runc}\"/x\": permission denied"),
            "program-not-executable",
        ),
        ("port is already allocated".to_owned(), "not-started"),
    ] {
        let bed = Bed::new();
        bed.engine.script(Script {
            start_error: Some(longshore_engine::EngineError::Status {
                call: "start",
                subject: "c".to_owned(),
                status: 400,
                message: problem.clone(),
            }),
            ..Script::default()
        });
        let task = bed.launch("t", "");
        let last = ended(&task).await;
        assert_eq!(word(&last), format!("FAILED {expected}"));
        assert!(last.message().contains(&problem), "{:?}", last.message);
        assert_eq!(last.reason(), Reason::ContainerLaunchFailed);
        finished(&task).await;
        assert_eq!(bed.engine.containers(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_image_that_is_nowhere_and_one_that_stalls_are_told_apart() {
    let bed = Bed::new();
    let of =
        |image: &str| format!(r#""container":{{"type":"DOCKER","docker":{{"image":"{image}"}}}},"#);
    let task = bed.launch("a", &of("nowhere"));
    assert_eq!(words(&task).await, ["STARTING", "FAILED image-missing"]);
    bed.engine.add_to_registry("stalls", 10_000 * SECOND);
    let task = bed.launch("b", &of("stalls"));
    assert_eq!(words(&task).await, ["STARTING", "FAILED pull-failed"]);
}

#[tokio::test(start_paused = true)]
async fn its_time_is_over() {
    let bed = Bed::new();
    let limit = r#""max_completion_time":{"nanoseconds":30000000000},"#;
    let (task, _) = bed.running(Script::ignores_term(), limit).await;
    let last = ended(&task).await;
    assert_eq!(
        words(&task).await,
        ["STARTING", "RUNNING", "FAILED out-of-time"]
    );
    assert_eq!(last.reason(), Reason::MaxCompletionTimeReached);
}

#[tokio::test(start_paused = true)]
async fn statuses_are_kept_until_their_caller_has_them() {
    let bed = Bed::new();
    bed.engine.script(Script::exits(SECOND, 0));
    let task = bed.executor.launch(Launch {
        acknowledge: Acknowledge::ByCaller,
        ..launch(&bed.sandbox(), "t", "")
    });
    ended(&task).await;
    let all: Vec<_> = task.unacknowledged();
    assert_eq!(
        all.iter().map(word).collect::<Vec<_>>(),
        ["STARTING", "RUNNING", "FINISHED exited"]
    );
    assert!(!task.acknowledge(b"another"));
    assert!(task.acknowledge(all[0].uuid()));
    assert_eq!(task.unacknowledged().len(), 2);
    let waits = tokio::time::timeout(1000 * SECOND, task.finished()).await;
    assert!(waits.is_err(), "finished though two are not acknowledged");
    for status in &all[1..] {
        assert!(task.acknowledge(status.uuid()));
    }
    finished(&task).await;
}

#[tokio::test(start_paused = true)]
async fn behind_our_back_on_the_engine() {
    use longshore_engine::{Engine as _, RemoveOptions};
    let force = RemoveOptions {
        force: true,
        volumes: false,
    };
    for deed in [
        "stop", "kill", "remove", "pause", "restart", "rename", "update",
    ] {
        let bed = Bed::new();
        let (task, container) = bed.running(Script::default(), "").await;
        let engine = &bed.engine;
        let expected = match deed {
            "stop" => {
                engine.stop(&container, SECOND).await.unwrap();
                "FAILED stopped-by-other"
            }
            "kill" => {
                engine.kill(&container, "KILL").await.unwrap();
                "FAILED stopped-by-other"
            }
            "remove" => {
                engine.remove(&container, force).await.unwrap();
                "FAILED removed-by-other"
            }
            "restart" => {
                // Its exit is told, and it runs again before it can be looked at.
                engine.fail(Call::Inspect, 1, gone());
                engine.stop(&container, SECOND).await.unwrap();
                tokio::time::sleep(SECOND / 10).await;
                engine.start(&container).await.unwrap();
                "FAILED restarted-by-other"
            }
            "pause" => {
                engine.pause(&container).await.unwrap();
                "RUNNING"
            }
            "rename" => {
                engine.rename(&container, "another");
                "RUNNING"
            }
            _ => {
                let limits = longshore_engine::Resources {
                    memory: Some(64 << 20),
                    ..longshore_engine::Resources::default()
                };
                engine.update(&container, &limits).await.unwrap();
                "RUNNING"
            }
        };
        if expected == "RUNNING" {
            if deed == "pause" {
                task.watch().wait_for(|view| view.paused).await.unwrap();
            }
            tokio::time::sleep(200 * SECOND).await;
            assert!(!task.watch().borrow().over, "{deed}");
            assert_eq!(killed(&task).await, "KILLED killed", "{deed}");
        } else {
            assert_eq!(word(&ended(&task).await), expected, "{deed}");
        }
        finished(&task).await;
        assert_eq!(engine.containers(), [""; 0], "{deed}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_container_may_be_kept() {
    let bed = Bed::with(|options| options.logs = longshore_docker_executor::LogMode::Engine);
    let (task, container) = bed.running(Script::exits(SECOND, 0), "").await;
    finished(&task).await;
    let state = bed.engine.state(&container).unwrap();
    assert_eq!(state.status, ContainerStatus::Exited);
}
