//! Tasks from their launch to their oblivion, on the fake engine.

use std::time::Duration;

use longshore_engine::fake::{Call, FakeEngine, Script};
use longshore_engine::{ContainerSpec, Engine as _, LogSource};
use longshore_task_manager::{LogMode, NewTask, Phase, Retention, TaskManagerError};

use crate::bed::{Bed, IMAGE, SECOND, task};

#[tokio::test(start_paused = true)]
async fn a_task_runs_and_its_status_tells_how_it_ended() {
    let bed = Bed::new().await;
    bed.engine.script(Script {
        output: vec![(LogSource::Stdout, "out\n".to_owned())],
        ..Script::exits(5 * SECOND, 3)
    });
    let id = bed.run("one").await.unwrap();
    assert_eq!(id, "one");
    let running = bed.until("one", Phase::Running).await;
    assert_eq!(
        (running.image.as_str(), running.state),
        (IMAGE, "TASK_RUNNING")
    );
    assert!(
        !running.container.starts_with("mesos-"),
        "{}",
        running.container
    );
    let ended = bed.until("one", Phase::Ended).await;
    assert_eq!((ended.ending.as_str(), ended.exit_code), ("exited", 3));
    assert_eq!(ended.state, "TASK_FAILED");
    assert!(ended.ended.unwrap() >= ended.launched, "{ended:?}");
    let out = std::fs::read_to_string(ended.sandbox.as_ref().unwrap().join("stdout")).unwrap();
    assert_eq!(out, "out\n");
}

#[tokio::test(start_paused = true)]
async fn bad_input_a_second_launch_of_an_id_is_refused_and_the_first_goes_on() {
    let bed = Bed::new().await;
    bed.run("one").await.unwrap();
    let error = bed.run("one").await.unwrap_err();
    assert!(matches!(error, TaskManagerError::Taken { .. }), "{error}");
    bed.until("one", Phase::Running).await;
    bed.manager.stop("one", None).unwrap();
    let ended = bed.until("one", Phase::Ended).await;
    assert_eq!((ended.ending.as_str(), ended.exit_code), ("killed", 143));
    // It is on record still.
    let error = bed.run("one").await.unwrap_err().to_string();
    assert!(error.contains("has ended: remove it first"), "{error}");
    bed.manager.remove("one", false).await.unwrap();
    bed.run("one").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn bad_input_is_refused_with_field_and_value_and_leaves_nothing() {
    let bed = Bed::new().await;
    let docker = |rest: &str| {
        format!(r#""container":{{"type":"DOCKER","docker":{{"image":"busybox"}}{rest}}},"#)
    };
    let volume = |volume: &str| docker(&format!(r#","volumes":[{volume}]"#));
    let cases = [
        (r#""container":null,"#.to_owned(), "container"),
        (r#""container":{"type":"DOCKER","docker":{"image":""}},"#.to_owned(), "container.docker.image"),
        (r#""container":{"type":"DOCKER","docker":{"image":"A b"}},"#.to_owned(), "A b"),
        (volume(r#"{"mode":"RW","container_path":"a","host_path":"b"}"#), "container_path"),
        (r#""kill_policy":{"grace_period":{"nanoseconds":-1}},"#.to_owned(), "kill_policy.grace_period"),
        (r#""resources":[{"name":"gpus","type":"SCALAR","scalar":{"value":1}}],"#.to_owned(), "gpus"),
        (
            r#""container":{"type":"DOCKER","docker":{"image":"busybox","parameters":[{"key":"name","value":"x"}]}},"#.to_owned(),
            "name",
        ),
        (
            r#""container":{"type":"DOCKER","docker":{"image":"busybox","network":"BRIDGE","port_mappings":[{"host_port":80,"container_port":80}]}},"#.to_owned(),
            "port_mappings[0]",
        ),
    ];
    for (rest, field) in cases {
        let error = bed.manager.run(task("bad", &rest)).await.unwrap_err();
        assert!(
            matches!(error, TaskManagerError::Refused { .. }),
            "{field}: {error}"
        );
        assert!(error.to_string().contains(field), "{field}: {error}");
    }
    for (id, name) in [
        ("a/b", None),
        ("..", None),
        ("x", Some("mesos-1")),
        ("x", Some("-")),
    ] {
        let new = NewTask {
            container_name: name.map(str::to_owned),
            ..task(id, "")
        };
        bed.manager.run(new).await.unwrap_err();
    }
    assert!(bed.manager.tasks().is_empty());
    assert_eq!(bed.engine.count(Call::Create), 0);
    let sandboxes = bed.dir.path().join("sandboxes");
    let left = std::fs::read_dir(sandboxes).map_or(0, Iterator::count);
    assert_eq!(left, 0);
}

#[tokio::test(start_paused = true)]
async fn tasks_outlive_the_manager_and_are_what_they_were() {
    let bed = Bed::new().await;
    bed.engine.script(Script::exits(SECOND, 4));
    bed.run("ended").await.unwrap();
    bed.until("ended", Phase::Ended).await;
    bed.run("running").await.unwrap();
    bed.until("running", Phase::Running).await;
    let before = bed.manager.tasks();
    let bed = bed.restarted(|_| {}).await;
    let after = bed.manager.tasks();
    for (one, other) in before.iter().zip(&after) {
        assert_eq!(
            (&one.id, one.phase, one.exit_code),
            (&other.id, other.phase, other.exit_code)
        );
        assert_eq!(
            (&one.container, one.launched, one.ended),
            (&other.container, other.launched, other.ended)
        );
        assert_eq!((&one.ending, &one.message), (&other.ending, &other.message));
    }
    assert_eq!(after.len(), 2);
    assert_eq!(
        bed.engine.count(Call::Create),
        2,
        "nothing was started twice"
    );
    // What happens while nobody is there is seen by the next one.
    let container = bed.engine.containers()[0].clone();
    let engine = bed.engine.clone();
    let Bed { manager, dir, .. } = bed;
    drop(manager);
    assert!(engine.exit(&container, 9));
    let bed = Bed::on(engine, dir, |_| {}).await;
    let ended = bed.until("running", Phase::Ended).await;
    assert_eq!((ended.ending.as_str(), ended.exit_code), ("exited", 9));
}

#[tokio::test(start_paused = true)]
async fn finished_tasks_go_by_age_and_others_stay() {
    let short = |options: &mut longshore_task_manager::ManagerOptions| {
        options.retention = Retention {
            max_age: Duration::ZERO,
            max_bytes: u64::MAX,
        };
    };
    let bed = Bed::new().await;
    bed.engine.script(Script::exits(SECOND, 0));
    bed.run("ended").await.unwrap();
    let ended = bed.until("ended", Phase::Ended).await;
    bed.run("running").await.unwrap();
    bed.until("running", Phase::Running).await;
    let bed = bed.restarted(short).await;
    let mut changes = bed.manager.changes();
    while bed.manager.tasks().len() > 1 {
        changes.changed().await.unwrap();
    }
    assert_eq!(bed.manager.tasks()[0].id, "running");
    let sandbox = ended.sandbox.clone().unwrap();
    while sandbox.exists() {
        tokio::time::sleep(SECOND).await;
    }
    // Nor does it come back.
    let bed = bed.restarted(|_| {}).await;
    assert_eq!(bed.manager.tasks().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_removal_takes_everything_and_by_force_also_what_runs() {
    let bed = Bed::new().await;
    bed.engine.script(Script::ignores_term());
    bed.run("one").await.unwrap();
    let running = bed.until("one", Phase::Running).await;
    let error = bed.manager.remove("one", false).await.unwrap_err();
    assert!(matches!(error, TaskManagerError::Running { .. }), "{error}");
    bed.manager.remove("one", true).await.unwrap();
    assert!(bed.engine.containers().is_empty());
    assert!(!running.sandbox.as_ref().unwrap().exists());
    assert!(matches!(
        bed.manager.watch("one"),
        Err(TaskManagerError::Unknown { .. })
    ));
    let records = std::fs::read_dir(bed.dir.path().join("tasks"))
        .unwrap()
        .count();
    assert_eq!(records, 0);
}

#[tokio::test(start_paused = true)]
async fn output_that_stays_with_the_engine_is_there_until_the_removal() {
    let bed = Bed::with(|options| options.logs = LogMode::Engine).await;
    bed.engine.script(Script {
        output: vec![(LogSource::Stdout, "kept".to_owned())],
        ..Script::exits(SECOND, 0)
    });
    bed.run("one").await.unwrap();
    let ended = bed.until("one", Phase::Ended).await;
    assert_eq!(ended.sandbox, None);
    let mut logs = bed
        .manager
        .engine_logs("one", false, None)
        .await
        .unwrap()
        .unwrap();
    assert_eq!(&logs.next().await.unwrap().unwrap().data[..], b"kept");
    bed.manager.remove("one", false).await.unwrap();
    assert!(bed.engine.containers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn strays_of_ours_go_after_a_grace_and_nobody_elses_ever() {
    let engine = FakeEngine::with_image(IMAGE);
    let bed = Bed::on(engine.clone(), tempfile::tempdir().unwrap(), |_| {}).await;
    let other = Bed::on(engine.clone(), tempfile::tempdir().unwrap(), |_| {}).await;
    other.run("others").await.unwrap();
    other.until("others", Phase::Running).await;
    engine.create(&ContainerSpec::new(IMAGE)).await.unwrap();
    bed.run("mine").await.unwrap();
    bed.until("mine", Phase::Running).await;
    let newest = engine.containers().pop().unwrap();
    let spec = engine.spec(&newest).unwrap();
    let mut stray = ContainerSpec::new(IMAGE);
    stray.labels = spec.labels.clone();
    for (name, value) in &mut stray.labels {
        if name.ends_with(".key") {
            *value = "0".repeat(32);
        }
    }
    let stray = engine.create(&stray).await.unwrap().id;
    let mut left = engine.containers();
    assert_eq!(left.len(), 4);
    let gone = engine.until(|log| {
        log.iter()
            .any(|(call, id)| *call == Call::Remove && *id == stray)
    });
    gone.await;
    left.retain(|id| *id != stray);
    // Another look of both finds no more.
    tokio::time::sleep(Duration::from_secs(1500)).await;
    assert_eq!(engine.containers(), left);
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_is_away_changes_no_task_and_is_told_of() {
    let bed = Bed::new().await;
    bed.run("one").await.unwrap();
    bed.until("one", Phase::Running).await;
    let mut engine = bed.manager.engine();
    engine
        .wait_for(|engine| engine.version.is_some())
        .await
        .unwrap();
    bed.engine.daemon_down();
    let silent = engine
        .wait_for(|engine| engine.silent.is_some())
        .await
        .unwrap()
        .clone();
    assert!(silent.silent.is_some());
    let bed = bed.restarted(|_| {}).await;
    bed.engine.daemon_up(true);
    let mut engine = bed.manager.engine();
    engine
        .wait_for(|engine| engine.version.is_some() && engine.silent.is_none())
        .await
        .unwrap();
    assert_eq!(bed.until("one", Phase::Running).await.phase, Phase::Running);
}

#[tokio::test(start_paused = true)]
async fn signals_are_sent_and_kill_ends() {
    let bed = Bed::new().await;
    bed.engine.script(Script {
        ignores: vec!["HUP".to_owned(), "TERM".to_owned()],
        ..Script::default()
    });
    bed.run("one").await.unwrap();
    bed.until("one", Phase::Running).await;
    bed.manager.kill("one", "hup").unwrap();
    bed.engine
        .until(|log| log.iter().any(|(call, _)| *call == Call::Kill))
        .await;
    let container = bed.engine.containers()[0].clone();
    assert_eq!(bed.engine.signals(&container), ["SIGHUP"]);
    let error = bed.manager.kill("one", "SIGNO").unwrap_err();
    assert!(matches!(error, TaskManagerError::Signal { .. }), "{error}");
    bed.manager.kill("one", "").unwrap();
    let ended = bed.until("one", Phase::Ended).await;
    assert_eq!(ended.exit_code, 137);
    let error = bed.manager.kill("one", "HUP").unwrap_err();
    assert!(matches!(error, TaskManagerError::Ended { .. }), "{error}");
}

#[tokio::test(start_paused = true)]
async fn there_may_be_so_many_unfinished_ones() {
    let bed = Bed::with(|options| options.max_tasks = 1).await;
    bed.run("one").await.unwrap();
    let error = bed.run("two").await.unwrap_err();
    assert!(
        matches!(error, TaskManagerError::TooMany { limit: 1 }),
        "{error}"
    );
    bed.manager.remove("one", true).await.unwrap();
    bed.run("two").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn all_can_be_ended_and_forgotten() {
    let bed = Bed::new().await;
    for id in ["one", "two"] {
        bed.run(id).await.unwrap();
    }
    bed.manager.end_all(60 * SECOND).await.unwrap();
    assert!(bed.manager.tasks().is_empty());
    assert!(bed.engine.containers().is_empty());
}

#[tokio::test(start_paused = true)]
async fn what_is_shown_of_a_task_has_no_values() {
    let bed = Bed::new().await;
    let rest = r#""command":{"shell":false,"environment":{"variables":[{"name":"TOKEN","value":"hunter2"}]}},"#;
    bed.manager.run(task("one", rest)).await.unwrap();
    let status = bed.until("one", Phase::Running).await;
    assert!(!format!("{status:?}").contains("hunter2"));
    assert!(!String::from_utf8_lossy(&status.data).contains("hunter2"));
    let info = bed.manager.info("one").unwrap();
    let variables = info.command.unwrap().environment.unwrap().variables;
    assert_eq!(variables[0].value(), "<hidden>");
}
