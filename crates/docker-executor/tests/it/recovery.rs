//! We are restarted: records, containers, and what became of them meanwhile.

use std::time::Duration;

use longshore_docker_executor::{Acknowledge, Kill, Launch, labels};
use longshore_engine::fake::{Call, Script};
use longshore_engine::{ContainerSpec, Engine as _, RemoveOptions};
use longshore_mesos_api::v1::TaskState;

use crate::bed::{Bed, SECOND, ended, finished, killed, launch, until, word};

const FORCE: RemoveOptions = RemoveOptions {
    force: true,
    volumes: false,
};

/// What happened to the container while we were down, and how the task then ends.
#[tokio::test(start_paused = true)]
async fn while_we_were_down() {
    for (deed, expected) in [
        ("nothing", ""),
        ("pause", ""),
        ("exit", "FAILED exited"),
        ("exit 0", "FINISHED exited"),
        ("stop", "FAILED signaled"),
        ("remove", "FAILED removed-by-other"),
        ("prune", "FAILED removed-by-other"),
        ("restart", "FAILED restarted-by-other"),
    ] {
        let bed = Bed::new();
        let (task, container) = bed.running(Script::default(), "").await;
        let engine = bed.engine.clone();
        // What was told is on record.
        tokio::time::sleep(SECOND).await;
        drop(task);
        let bed = {
            let dead = bed.die();
            match deed {
                "pause" => engine.pause(&container).await.unwrap(),
                "exit" => assert!(engine.exit(&container, 3)),
                "exit 0" => assert!(engine.exit(&container, 0)),
                "stop" => engine.stop(&container, SECOND).await.unwrap(),
                "remove" => engine.remove(&container, FORCE).await.unwrap(),
                "prune" => {
                    engine.exit(&container, 0);
                    engine.remove(&container, FORCE).await.unwrap();
                }
                "restart" => {
                    engine.stop(&container, SECOND).await.unwrap();
                    tokio::time::sleep(SECOND).await;
                    engine.start(&container).await.unwrap();
                }
                _ => {}
            }
            dead.rise()
        };
        let recovery = bed.executor.recover().unwrap();
        assert!(recovery.damaged.is_empty());
        let task = recovery.tasks[0].clone();
        assert_eq!(task.id(), "t");
        assert_eq!(task.watch().borrow().state, Some(TaskState::TaskRunning));
        if expected.is_empty() {
            tokio::time::sleep(1000 * SECOND).await;
            assert!(!task.watch().borrow().over, "{deed}");
            assert_eq!(killed(&task).await, "KILLED killed", "{deed}");
        } else {
            assert_eq!(word(&ended(&task).await), expected, "{deed}");
        }
        finished(&task).await;
        assert_eq!(engine.containers(), [""; 0], "{deed}");
        assert_eq!(engine.count(Call::Create), 1, "never twice: {deed}");
    }
}

/// We die at the Nth call of each kind.
#[tokio::test(start_paused = true)]
async fn a_launch_that_was_cut_off_goes_on() {
    for call in [
        Call::Pull,
        Call::Create,
        Call::Wait,
        Call::Start,
        Call::Inspect,
    ] {
        for answered in [false, true] {
            let bed = Bed::new();
            if call == Call::Pull {
                bed.engine.add_to_registry("late", 20 * SECOND);
            } else if answered {
                bed.engine.lose_answer(call, 1);
            } else {
                bed.engine.hang(call, 1);
            }
            bed.engine.script(Script::exits(1000 * SECOND, 3));
            let rest = if call == Call::Pull {
                r#""container":{"type":"DOCKER","docker":{"image":"late"}},"#
            } else {
                ""
            };
            drop(bed.launch("t", rest));
            bed.engine
                .until(|log| log.iter().any(|(it, _)| *it == call))
                .await;
            let bed = bed.die().rise();
            let recovery = bed.executor.recover().unwrap();
            let what = format!("{call:?} {answered}");
            assert_eq!(recovery.tasks.len(), 1, "{what}");
            let task = &recovery.tasks[0];
            let last = word(&ended(task).await);
            assert_eq!(last, "FAILED exited", "{what}");
            finished(task).await;
            let starts = bed.engine.log();
            let starts = starts.iter().filter(|(it, _)| *it == Call::Start).count();
            assert!(starts <= 2, "{what}: {starts}");
            assert_eq!(bed.engine.containers(), [""; 0], "{what}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_kill_goes_on_where_it_was() {
    let bed = Bed::new();
    let (task, container) = bed.running(Script::ignores_term(), "").await;
    task.kill(Kill::within(1000 * SECOND));
    until(&task, TaskState::TaskKilling).await;
    tokio::time::sleep(SECOND).await;
    let bed = bed.die().rise();
    let task = bed.executor.recover().unwrap().tasks[0].clone();
    let last = ended(&task).await;
    assert_eq!(word(&last), "KILLED killed");
    let signals = bed.engine.signals(&container);
    assert!(signals.is_empty() || signals.ends_with(&["SIGKILL".to_owned()]));
    // One that died while we were away was killed.
    let bed = Bed::new();
    let (task, container) = bed.running(Script::ignores_term(), "").await;
    task.kill(Kill::within(1000 * SECOND));
    until(&task, TaskState::TaskKilling).await;
    tokio::time::sleep(SECOND).await;
    let dead = bed.die();
    dead.engine().exit(&container, 0);
    let bed = dead.rise();
    let task = bed.executor.recover().unwrap().tasks[0].clone();
    assert_eq!(word(&ended(&task).await), "KILLED killed");
}

#[tokio::test(start_paused = true)]
async fn without_an_engine_tasks_are_what_they_were() {
    let bed = Bed::new();
    let (task, container) = bed.running(Script::default(), "").await;
    tokio::time::sleep(SECOND).await;
    drop(task);
    bed.engine.daemon_down();
    let bed = bed.die().rise();
    let task = bed.executor.recover().unwrap().tasks[0].clone();
    tokio::time::sleep(1000 * SECOND).await;
    assert_eq!(task.watch().borrow().state, Some(TaskState::TaskRunning));
    // Only the death of its process ends it.
    bed.engine.exit(&container, 1);
    assert_eq!(word(&ended(&task).await), "FAILED engine-gone");
}

#[tokio::test(start_paused = true)]
async fn unacknowledged_statuses_outlive_us_in_their_order() {
    let bed = Bed::new();
    bed.engine.script(Script::exits(SECOND, 0));
    let task = bed.executor.launch(Launch {
        acknowledge: Acknowledge::ByCaller,
        ..launch(&bed.sandbox(), "t", "")
    });
    ended(&task).await;
    task.acknowledge(task.unacknowledged()[0].uuid());
    tokio::time::sleep(100 * SECOND).await;
    let before = task.unacknowledged();
    let bed = bed.die().rise();
    let task = bed.executor.recover().unwrap().tasks[0].clone();
    assert_eq!(task.unacknowledged(), before);
    assert_eq!(word(&before[1]), "FINISHED exited");
    for status in before {
        assert!(task.acknowledge(status.uuid()));
    }
    finished(&task).await;
    bed.executor.forget(&task).await.unwrap();
    let bed = bed.die().rise();
    assert!(bed.executor.recover().unwrap().tasks.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_damaged_record_is_told_and_its_container_left_alone() {
    let bed = Bed::new();
    let (_task, container) = bed.running(Script::default(), "").await;
    tokio::time::sleep(SECOND).await;
    let tasks = bed.dir.path().join("state/tasks");
    let dir = std::fs::read_dir(&tasks).unwrap().next().unwrap().unwrap();
    let dead = bed.die();
    std::fs::write(dir.path().join("task"), "torn").unwrap();
    let bed = dead.rise();
    let recovery = bed.executor.recover().unwrap();
    assert!(recovery.tasks.is_empty());
    assert_eq!(recovery.damaged.len(), 1, "{recovery:?}");
    let strays = bed.executor.remove_strays(Duration::ZERO).await.unwrap();
    assert_eq!(strays, [""; 0]);
    assert_eq!(bed.engine.containers(), [container]);
}

#[tokio::test(start_paused = true)]
async fn a_damaged_state_starts_nothing_twice() {
    for deed in ["runs", "removed"] {
        let bed = Bed::new();
        let (_task, container) = bed.running(Script::default(), "").await;
        tokio::time::sleep(SECOND).await;
        let tasks = bed.dir.path().join("state/tasks");
        let dir = std::fs::read_dir(&tasks).unwrap().next().unwrap().unwrap();
        let dead = bed.die();
        std::fs::write(dir.path().join("state"), "torn").unwrap();
        if deed == "removed" {
            dead.engine().remove(&container, FORCE).await.unwrap();
        }
        let bed = dead.rise();
        let task = bed.executor.recover().unwrap().tasks[0].clone();
        if deed == "removed" {
            assert_eq!(word(&ended(&task).await), "FAILED removed-by-other");
        } else {
            until(&task, TaskState::TaskRunning).await;
            assert_eq!(killed(&task).await, "KILLED killed");
        }
        assert_eq!(bed.engine.count(Call::Create), 1);
    }
}

/// Only what carries our labels, belongs to nobody, and is old enough.
#[tokio::test(start_paused = true)]
async fn only_our_own_strays_are_removed_after_their_grace() {
    let bed = Bed::new();
    let (task, own) = bed.running(Script::default(), "").await;
    let spec = bed.engine.spec(&own).unwrap();
    let with = |name: &str, changes: &[(&str, &str)]| {
        let mut labels = spec.labels.clone();
        labels.insert(labels::KEY.to_owned(), "0".repeat(32));
        for (key, value) in changes {
            labels.insert((*key).to_owned(), (*value).to_owned());
        }
        ContainerSpec {
            name: Some(name.to_owned()),
            labels,
            ..ContainerSpec::new("busybox")
        }
    };
    for spec in [
        with("stray", &[]),
        with("of-another-owner", &[(labels::OWNER, "other")]),
        with("of-another-root", &[(labels::ROOT, "/elsewhere")]),
        with("odd", &[(labels::KEY, "../..")]),
        ContainerSpec {
            name: Some("foreign".to_owned()),
            ..ContainerSpec::new("busybox")
        },
    ] {
        bed.engine.create(&spec).await.unwrap();
    }
    // The fake's clock stands at the beginning of 2026.
    let young = Duration::from_secs(100 * 366 * 86_400);
    let strays = bed.executor.remove_strays(young).await.unwrap();
    assert_eq!(strays, [""; 0]);
    let strays = bed.executor.remove_strays(Duration::ZERO).await.unwrap();
    assert_eq!(strays, ["stray"]);
    assert_eq!(bed.engine.containers().len(), 5);
    assert!(!task.watch().borrow().over);
    // Once the task is through, what has its key is of a creation that came late.
    bed.engine.exit(&own, 0);
    finished(&task).await;
    bed.engine.create(&spec).await.unwrap();
    let strays = bed.executor.remove_strays(Duration::ZERO).await.unwrap();
    assert_eq!(strays, [spec.name.unwrap()]);
}

#[tokio::test(start_paused = true)]
async fn dx_08_output_is_not_doubled_by_a_restart_before_any_position_was_due() {
    use longshore_engine::LogSource;
    let bed = Bed::new();
    let script = Script {
        output: vec![
            (LogSource::Stdout, "one\n".to_owned()),
            (LogSource::Stderr, "two\n".to_owned()),
        ],
        ..Script::default()
    };
    // What an earlier task has left there stays.
    std::fs::write(bed.sandbox().join("stdout"), "before\n").unwrap();
    drop(bed.running(script, "").await);
    let mut bed = bed;
    for _ in 0..3 {
        tokio::time::sleep(SECOND).await;
        bed = bed.die().rise();
        bed.executor.recover().unwrap();
    }
    let task = bed.executor.task("t").unwrap();
    tokio::time::sleep(SECOND).await;
    killed(&task).await;
    finished(&task).await;
    let read = |name| std::fs::read_to_string(bed.sandbox().join(name)).unwrap();
    assert_eq!(read("stdout"), "before\none\n");
    assert_eq!(read("stderr"), "two\n");
}

#[tokio::test(start_paused = true)]
async fn dx_08_what_was_written_stays_when_the_engine_cannot_give_it_again() {
    use longshore_engine::LogSource;
    for deed in ["removed", "away", "back"] {
        let bed = Bed::new();
        let script = Script {
            output: vec![(LogSource::Stdout, "one\n".to_owned())],
            ..Script::default()
        };
        let (task, container) = bed.running(script, "").await;
        tokio::time::sleep(SECOND).await;
        drop(task);
        let dead = bed.die();
        if deed == "removed" {
            dead.engine().remove(&container, FORCE).await.unwrap();
        } else {
            dead.engine().daemon_down();
        }
        let bed = dead.rise();
        let task = bed.executor.recover().unwrap().tasks[0].clone();
        match deed {
            "removed" => {}
            "away" => assert!(bed.engine.exit(&container, 1)),
            _ => {
                tokio::time::sleep(SECOND * 100).await;
                bed.engine.daemon_up(true);
                tokio::time::sleep(SECOND * 10).await;
                task.kill(Kill::asked());
            }
        }
        ended(&task).await;
        if deed != "removed" {
            bed.engine.daemon_up(true);
        }
        finished(&task).await;
        let out = std::fs::read_to_string(bed.sandbox().join("stdout")).unwrap();
        assert_eq!(out, "one\n", "{deed}");
    }
}

#[tokio::test(start_paused = true)]
async fn dx_08_output_that_was_not_read_when_we_died_after_the_end_is_read_before_the_container_goes()
 {
    use longshore_engine::LogSource;
    use longshore_engine::fake::Call;
    let bed = Bed::new();
    bed.engine.hang_all(Call::Logs);
    let script = Script {
        output: vec![(LogSource::Stdout, "one\n".to_owned())],
        ..Script::exits(SECOND, 0)
    };
    let (task, _) = bed.running(script, "").await;
    assert_eq!(word(&ended(&task).await), "FINISHED exited");
    drop(task);
    let dead = bed.die();
    dead.engine().heal();
    let bed = dead.rise();
    let task = bed.executor.recover().unwrap().tasks[0].clone();
    finished(&task).await;
    let out = std::fs::read_to_string(bed.sandbox().join("stdout")).unwrap();
    assert_eq!(out, "one\n");
    assert_eq!(bed.engine.containers(), [""; 0]);
}
