//! Engines that fail, hang, lose answers, exits and events, in virtual time.

use std::future::Future;

use longshore_engine::fake::{Call, LostExit, Script};
use longshore_engine::{ContainerStatus, EngineError};
use longshore_mesos_api::v1::TaskState;

use crate::bed::{Bed, SECOND, ended, finished, killed, until, word, words};

const CALLS: [Call; 6] = [
    Call::Pull,
    Call::Create,
    Call::Wait,
    Call::Start,
    Call::Inspect,
    Call::Remove,
];

fn broken() -> EngineError {
    EngineError::Status {
        call: "call",
        subject: String::new(),
        status: 500,
        message: "broken".to_owned(),
    }
}

/// Each call of a life, once failed, hung, or with its answer lost: the same end, once, and nothing left.
#[tokio::test(start_paused = true)]
async fn a_call_that_fails_hangs_or_is_not_answered_changes_no_end() {
    for call in CALLS {
        for nth in 1..=2 {
            for fault in ["fail", "hang", "lose"] {
                let bed = Bed::new();
                match fault {
                    "fail" => bed.engine.fail(call, nth, broken()),
                    "hang" => bed.engine.hang(call, nth),
                    _ => bed.engine.lose_answer(call, nth),
                }
                bed.engine.script(Script::exits(100 * SECOND, 3));
                let task = bed.launch("t", "");
                let words = words(&task).await;
                let what = format!("{call:?} {nth} {fault}: {words:?}");
                if call == Call::Start && fault == "fail" && nth == 1 {
                    // A start that the engine refuses is final.
                    assert_eq!(words, ["STARTING", "FAILED not-started"], "{what}");
                } else {
                    assert_eq!(words, ["STARTING", "RUNNING", "FAILED exited"], "{what}");
                }
                finished(&task).await;
                assert_eq!(bed.engine.containers(), [""; 0], "{what}");
                assert!(bed.engine.count(Call::Create) <= 2, "{what}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn dx_39_a_kill_whose_calls_fail_or_hang_ends_all_the_same() {
    for nth in 1..=2 {
        for fault in ["fail", "hang", "lose"] {
            for paused in [false, true] {
                let bed = Bed::new();
                let (task, container) = bed.running(Script::ignores_term(), "").await;
                if paused {
                    use longshore_engine::Engine as _;
                    bed.engine.pause(&container).await.unwrap();
                    task.watch().wait_for(|view| view.paused).await.unwrap();
                    bed.engine.hang(Call::Unpause, 1);
                }
                match fault {
                    "fail" => bed.engine.fail(Call::Kill, nth, broken()),
                    "hang" => bed.engine.hang(Call::Kill, nth),
                    _ => bed.engine.lose_answer(Call::Kill, nth),
                }
                let began = tokio::time::Instant::now();
                assert_eq!(killed(&task).await, "KILLED killed", "{nth} {fault}");
                assert!(began.elapsed() < 40 * SECOND, "{nth} {fault} {paused}");
                finished(&task).await;
                assert_eq!(bed.engine.containers(), [""; 0]);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_hung_engine_blocks_neither_kill_nor_status() {
    let bed = Bed::new();
    let (task, container) = bed.running(Script::ignores_term(), "").await;
    for call in [
        Call::Kill,
        Call::Inspect,
        Call::Remove,
        Call::Wait,
        Call::Logs,
    ] {
        bed.engine.hang_all(call);
    }
    bed.engine.break_events();
    let began = tokio::time::Instant::now();
    let last = killed(&task).await;
    assert_eq!(last, "KILLED killed");
    // 5 s until the engine is given up, which is the grace too; nobody needs the wait's answer.
    assert!(began.elapsed() < 30 * SECOND, "{:?}", began.elapsed());
    let state = bed.engine.state(&container).unwrap();
    assert_eq!(state.status, ContainerStatus::Exited);
    bed.engine.heal();
    finished(&task).await;
    assert_eq!(bed.engine.containers(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn exits_that_clients_or_the_engine_miss_are_found() {
    for (lost, expected) in [
        (LostExit::Clients, "FAILED exited"),
        (LostExit::Engine, "FAILED exit-missed"),
    ] {
        let bed = Bed::new();
        let (task, container) = bed.running(Script::default(), "").await;
        bed.engine.lose_exit(&container, lost);
        bed.engine.exit(&container, 4);
        let began = tokio::time::Instant::now();
        assert_eq!(word(&ended(&task).await), expected);
        assert!(began.elapsed() < 30 * SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn events_that_break_off_lose_nothing() {
    let bed = Bed::new();
    let (task, container) = bed.running(Script::default(), "").await;
    bed.engine.break_events();
    use longshore_engine::{Engine as _, RemoveOptions};
    let force = RemoveOptions {
        force: true,
        volumes: false,
    };
    bed.engine.remove(&container, force).await.unwrap();
    assert_eq!(word(&ended(&task).await), "FAILED removed-by-other");
    bed.engine.mend_events();
    let (task, container) = bed.running(Script::default(), "").await;
    bed.engine.break_events();
    bed.engine.pause(&container).await.unwrap();
    bed.engine.mend_events();
    task.watch().wait_for(|view| view.paused).await.unwrap();
    assert_eq!(killed(&task).await, "KILLED killed");
}

#[tokio::test(start_paused = true)]
async fn dx_36_a_daemon_that_restarts_with_live_restore_changes_nothing() {
    let bed = Bed::new();
    let (task, container) = bed.running(Script::default(), "").await;
    bed.engine.daemon_down();
    task.watch()
        .wait_for(|view| view.engine_silent)
        .await
        .unwrap();
    tokio::time::sleep(10_000 * SECOND).await;
    assert_eq!(task.watch().borrow().state, Some(TaskState::TaskRunning));
    bed.engine.daemon_up(true);
    tokio::time::sleep(100 * SECOND).await;
    assert!(!task.watch().borrow().over);
    // It is watched again.
    bed.engine.exit(&container, 5);
    assert_eq!(words(&task).await, ["STARTING", "RUNNING", "FAILED exited"]);
}

#[tokio::test(start_paused = true)]
async fn dx_36_a_daemon_that_restarts_without_it_ends_the_task_and_says_so() {
    let bed = Bed::new();
    let (task, _) = bed.running(Script::default(), "").await;
    bed.engine.daemon_down();
    tokio::time::sleep(100 * SECOND).await;
    bed.engine.daemon_up(false);
    let last = ended(&task).await;
    assert_eq!(word(&last), "FAILED exited");
    assert!(last.message().contains("255"), "{last:?}");
}

#[tokio::test(start_paused = true)]
async fn dx_36_an_exit_while_the_daemon_is_away() {
    // It stays away.
    let bed = Bed::new();
    let (task, container) = bed.running(Script::default(), "").await;
    bed.engine.daemon_down();
    bed.engine.exit(&container, 6);
    let began = tokio::time::Instant::now();
    let last = ended(&task).await;
    assert_eq!(word(&last), "FAILED engine-gone");
    assert_eq!(last.message(), "daemon gone, exit status unknown");
    let took = began.elapsed();
    assert!(took >= 9 * SECOND && took < 15 * SECOND, "{took:?}");
    // Then it is back: what is left of the container goes.
    bed.engine.daemon_up(true);
    finished(&task).await;
    assert_eq!(bed.engine.containers(), [""; 0]);

    // It comes back in time.
    let bed = Bed::new();
    let (task, container) = bed.running(Script::default(), "").await;
    bed.engine.daemon_down();
    bed.engine.exit(&container, 6);
    tokio::time::sleep(3 * SECOND).await;
    bed.engine.daemon_up(true);
    let last = ended(&task).await;
    assert_eq!(word(&last), "FAILED exited");
    assert!(last.message().contains('6'));

    // A kill meanwhile goes by the kernel.
    let bed = Bed::new();
    let (task, _) = bed.running(Script::ignores_term(), "").await;
    bed.engine.daemon_down();
    assert_eq!(killed(&task).await, "KILLED killed");
}

#[tokio::test(start_paused = true)]
async fn a_launch_waits_for_an_engine_that_starts_late() {
    let bed = Bed::new();
    bed.engine.daemon_down();
    let task = bed.launch("t", "");
    tokio::time::sleep(20 * SECOND).await;
    assert_eq!(task.watch().borrow().state, Some(TaskState::TaskStarting));
    bed.engine.daemon_up(true);
    until(&task, TaskState::TaskRunning).await;
    // Not for ever.
    let bed = Bed::new();
    bed.engine.daemon_down();
    let task = bed.launch("t", "");
    let last = ended(&task).await;
    assert_eq!(word(&last), "FAILED pull-failed");
}

#[tokio::test(start_paused = true)]
async fn a_hundred_tasks_at_once_each_end_once() {
    let bed = Bed::new();
    let tasks: Vec<_> = (0..100)
        .map(|n| {
            bed.engine.script(match n % 3 {
                0 => Script::exits(SECOND * n, i64::from(n % 5)),
                1 => Script::ignores_term(),
                _ => Script::default(),
            });
            bed.launch(&format!("t{n}"), "")
        })
        .collect();
    for (n, task) in tasks.iter().enumerate() {
        if n % 7 == 0 {
            bed.engine.hang(Call::Kill, 1);
        }
        if n % 3 != 0 {
            task.kill(longshore_docker_executor::Kill::asked());
        }
    }
    tokio::time::sleep(20 * SECOND).await;
    for task in &tasks {
        // Scripts are taken in the order of creation, so that any of them may run for ever.
        task.kill(longshore_docker_executor::Kill::asked());
        let words = words(task).await;
        assert!(words.len() <= 4, "{words:?}");
        finished(task).await;
    }
    assert_eq!(bed.engine.containers(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn dx_08_output_is_read_when_an_engine_comes_back_after_the_last_status() {
    use longshore_engine::LogSource;
    let bed = Bed::new();
    bed.engine.hang(Call::Logs, 1);
    let script = Script {
        output: vec![(LogSource::Stdout, "late\n".to_owned())],
        ..Script::default()
    };
    let (task, container) = bed.running(script, "").await;
    bed.engine.daemon_down();
    bed.engine.exit(&container, 0);
    assert_eq!(word(&ended(&task).await), "FAILED engine-gone");
    tokio::time::sleep(100 * SECOND).await;
    bed.engine.daemon_up(true);
    finished(&task).await;
    let out = std::fs::read_to_string(bed.sandbox().join("stdout")).unwrap();
    assert_eq!(out, "late\n");
}

/// Engines leave out output for a follower that is behind, and do not say so.
#[tokio::test(start_paused = true)]
async fn dx_08_output_is_whole_though_a_follower_that_is_behind_misses_some() {
    use longshore_engine::LogSource;
    let bed = Bed::new();
    let line = |nth: usize| format!("{nth:08191}\n");
    let script = Script {
        output: (0..600).map(|nth| (LogSource::Stdout, line(nth))).collect(),
        // After the 2.4 MB that are enough to tell that it is behind.
        followers_miss: 300..550,
        ..Script::default()
    };
    let (task, container) = bed.running(script, "").await;
    bed.engine.exit(&container, 0);
    ended(&task).await;
    finished(&task).await;
    let out = std::fs::read_to_string(bed.sandbox().join("stdout")).unwrap();
    let whole: String = (0..600).map(line).collect();
    assert!(out == whole, "{} bytes of {}", out.len(), whole.len());
}

#[tokio::test(start_paused = true)]
async fn dx_17_an_inspection_of_the_image_that_hangs_holds_up_no_launch_for_ever() {
    use longshore_mesos_api::v1::task_status::Reason;
    // Once: the launch goes on.
    let bed = Bed::new();
    bed.engine.hang(Call::InspectImage, 1);
    bed.engine.script(Script::exits(SECOND, 0));
    let task = bed.launch("t", "");
    assert_eq!(
        words(&task).await,
        ["STARTING", "RUNNING", "FINISHED exited"]
    );
    // Always: it is given up within the patience of a launch and one deadline, and a kill does not wait for that.
    for kill in [false, true] {
        let bed = Bed::new();
        bed.engine.hang_all(Call::InspectImage);
        let task = bed.launch("t", "");
        let began = tokio::time::Instant::now();
        if kill {
            until(&task, TaskState::TaskStarting).await;
            assert_eq!(killed(&task).await, "KILLED killed-during-launch");
            assert!(began.elapsed() < SECOND, "{:?}", began.elapsed());
        } else {
            let last = ended(&task).await;
            assert_eq!(word(&last), "FAILED pull-failed");
            assert_eq!(last.reason(), Reason::ContainerLaunchFailed);
            assert!(began.elapsed() < 240 * SECOND, "{:?}", began.elapsed());
        }
        finished(&task).await;
        assert_eq!(bed.engine.count(Call::Create), 0);
    }
}

/// A process of which the engine knows nothing.
#[derive(Debug, Default)]
struct Orphan {
    killed: std::sync::atomic::AtomicU32,
    dead: std::sync::atomic::AtomicBool,
}

#[derive(Debug)]
struct HeldOrphan(std::sync::Arc<Orphan>);

impl longshore_docker_executor::HeldProcess for HeldOrphan {
    fn id(&self) -> longshore_docker_executor::ProcessId {
        longshore_docker_executor::ProcessId { pid: 7, start: 1 }
    }

    fn died(&self) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(async {
            tokio::time::sleep(SECOND).await;
            self.0.dead.store(true, std::sync::atomic::Ordering::SeqCst);
        })
    }

    fn signal(&self, signal: &str) -> std::io::Result<()> {
        assert_eq!(signal, "SIGKILL");
        self.0
            .killed
            .fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        Ok(())
    }
}

#[derive(Debug)]
struct WithOrphan(std::sync::Arc<Orphan>);

impl longshore_docker_executor::Processes for WithOrphan {
    fn hold(&self, _: i32, _: Option<u64>, _: &str) -> longshore_docker_executor::Holding {
        longshore_docker_executor::Holding::Held(std::sync::Arc::new(HeldOrphan(self.0.clone())))
    }

    fn find(&self, _: &str) -> Option<i32> {
        let dead = self.0.dead.load(std::sync::atomic::Ordering::SeqCst);
        (!dead).then_some(7)
    }

    fn kill_tree(&self, _: i32, _: &str) {}
}

#[tokio::test(start_paused = true)]
async fn dx_36_what_a_daemon_that_died_while_it_started_it_knows_nothing_of_is_killed_before_the_end_is_told()
 {
    use std::sync::atomic::Ordering::SeqCst;
    let orphan = std::sync::Arc::new(Orphan::default());
    let bed = Bed::with_processes(std::sync::Arc::new(WithOrphan(orphan.clone())));
    bed.engine.fail(
        Call::Start,
        1,
        EngineError::Status {
            call: "start",
            subject: String::new(),
            status: 500,
            message: "id already in use".to_owned(),
        },
    );
    let task = bed.launch("t", "");
    assert_eq!(word(&ended(&task).await), "FAILED not-started");
    assert!(orphan.dead.load(SeqCst));
    assert_eq!(orphan.killed.load(SeqCst), 1);
    finished(&task).await;
    assert_eq!(bed.engine.containers(), [""; 0]);
}
