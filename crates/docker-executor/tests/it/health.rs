//! Checks on the fake engine: commands through its exec.

use longshore_engine::fake::{Call, Script};
use longshore_mesos_api::v1::TaskState;
use longshore_mesos_api::v1::task_status::Reason;

use crate::bed::{Bed, SECOND, ended, killed, told, until, word, words};

fn health(more: &str) -> String {
    format!(
        r#""health_check":{{"type":"COMMAND","delay_seconds":0,"interval_seconds":1,{more}"command":{{"value":"true"}}}},"#
    )
}

const CHECK: &str = r#""check":{"type":"COMMAND","delay_seconds":0,"interval_seconds":1,"timeout_seconds":2,"command":{"command":{"value":"x"}}},"#;

/// A container whose commands exit so.
fn with_exec(seconds: u32, code: i64) -> Script {
    Script {
        exec: Some((SECOND * seconds, code)),
        ..Script::default()
    }
}

#[tokio::test(start_paused = true)]
async fn hc_02_a_healthy_task_is_told_to_be_so() {
    let bed = Bed::new();
    let (task, _) = bed.running(with_exec(0, 0), &health("")).await;
    let mut updates = task.updates();
    let mut seen = Vec::new();
    while seen
        .last()
        .is_none_or(|it: &String| it != "RUNNING healthy")
    {
        let status = updates.next().await;
        assert!(
            status.healthy.is_none() || status.reason() == Reason::TaskHealthCheckStatusUpdated
        );
        seen.push(word(&status));
    }
    assert_eq!(seen, ["STARTING", "RUNNING", "RUNNING healthy"]);
    // What somebody asks for later repeats it.
    assert_eq!(task.last_status().unwrap().healthy, Some(true));
    tokio::time::sleep(100 * SECOND).await;
    assert_eq!(killed(&task).await, "KILLED killed");
    let all = words(&task).await;
    assert_eq!(all.iter().filter(|it| *it == "RUNNING healthy").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn hc_06_within_the_grace_nothing_is_said() {
    let bed = Bed::new();
    bed.engine.script(Script {
        exit: Some((SECOND * 2, 0)),
        ..with_exec(0, 1)
    });
    let task = bed.launch("t", &health(r#""grace_period_seconds":9999,"#));
    let all = told(&task).await;
    assert!(all.iter().all(|status| status.healthy.is_none()));
    assert_eq!(word(all.last().unwrap()), "FINISHED exited");
}

#[tokio::test(start_paused = true)]
async fn hc_08_a_command_that_hangs_is_unhealthy_and_the_task_is_killed() {
    let bed = Bed::new();
    let policy = r#""timeout_seconds":3,"consecutive_failures":1,"grace_period_seconds":0,"#;
    let (task, _) = bed.running(with_exec(120, 0), &health(policy)).await;
    let last = ended(&task).await;
    assert_eq!(word(&last), "KILLED killed-by-health-check");
    assert_eq!(last.healthy, Some(false));
    assert_eq!(last.reason(), Reason::TaskHealthCheckStatusUpdated);
    assert_eq!(
        words(&task).await,
        [
            "STARTING",
            "RUNNING",
            "RUNNING unhealthy",
            "KILLING",
            "KILLED killed-by-health-check"
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn hc_13_a_check_is_told_when_it_changes_and_the_last_status_keeps_it() {
    let bed = Bed::new();
    let (task, _) = bed.running(with_exec(0, 1), CHECK).await;
    tokio::time::sleep(100 * SECOND).await;
    killed(&task).await;
    let all = told(&task).await;
    let words: Vec<_> = all.iter().map(word).collect();
    assert_eq!(
        words,
        [
            "STARTING",
            "RUNNING",
            "RUNNING check",
            "KILLING",
            "KILLED killed"
        ]
    );
    let code = |index: usize| all[index].check_status.unwrap().command.unwrap().exit_code;
    assert_eq!(code(1), None, "empty, and there");
    assert_eq!(code(2), Some(1));
    assert_eq!(all[2].reason(), Reason::TaskCheckStatusUpdated);
    assert_eq!(code(4), Some(1));
}

#[tokio::test(start_paused = true)]
async fn hc_14_a_check_whose_result_stays_is_told_once() {
    let bed = Bed::new();
    let (task, _) = bed.running(with_exec(0, 7), CHECK).await;
    tokio::time::sleep(500 * SECOND).await;
    let runs = bed.engine.count(Call::ExecStart);
    assert!(runs > 100, "{runs}");
    killed(&task).await;
    let told = words(&task).await;
    assert_eq!(told.iter().filter(|it| *it == "RUNNING check").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn hc_15_a_check_that_hangs_has_no_code() {
    let bed = Bed::new();
    let (task, _) = bed.running(with_exec(3000, 0), CHECK).await;
    tokio::time::sleep(100 * SECOND).await;
    killed(&task).await;
    for status in told(&task).await {
        if let Some(check) = status.check_status {
            assert_eq!(check.command.unwrap().exit_code, None);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn hc_16_both_keep_what_the_other_said() {
    let bed = Bed::new();
    let both = format!("{}{CHECK}", health(r#""grace_period_seconds":0,"#));
    let (task, _) = bed.running(with_exec(0, 0), &both).await;
    tokio::time::sleep(100 * SECOND).await;
    killed(&task).await;
    let last = told(&task).await.pop().unwrap();
    assert_eq!(last.healthy, Some(true));
    assert_eq!(
        last.check_status.unwrap().command.unwrap().exit_code,
        Some(0)
    );
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_is_away_makes_no_task_unhealthy() {
    let bed = Bed::new();
    let policy = r#""consecutive_failures":1,"grace_period_seconds":0,"#;
    let (task, _) = bed.running(with_exec(0, 0), &health(policy)).await;
    bed.engine.daemon_down();
    tokio::time::sleep(1000 * SECOND).await;
    bed.engine.daemon_up(true);
    tokio::time::sleep(100 * SECOND).await;
    assert!(!task.watch().borrow().over);
    let mut updates = task.updates();
    until(&task, TaskState::TaskRunning).await;
    while let Ok(status) = tokio::time::timeout(SECOND, updates.next()).await {
        assert_ne!(status.healthy, Some(false));
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_frozen_is_not_unhealthy() {
    use longshore_engine::Engine as _;
    let bed = Bed::new();
    let policy = r#""consecutive_failures":1,"grace_period_seconds":0,"#;
    let (task, container) = bed.running(with_exec(0, 0), &health(policy)).await;
    bed.engine.pause(&container).await.unwrap();
    tokio::time::sleep(1000 * SECOND).await;
    bed.engine.unpause(&container).await.unwrap();
    let runs = bed.engine.count(Call::ExecStart);
    tokio::time::sleep(100 * SECOND).await;
    assert!(bed.engine.count(Call::ExecStart) > runs, "it goes on");
    assert_eq!(killed(&task).await, "KILLED killed");
    let told = words(&task).await;
    assert!(!told.contains(&"RUNNING unhealthy".to_owned()), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn hc_08_an_engine_that_is_silent_makes_no_task_unhealthy() {
    for call in [Call::ExecCreate, Call::ExecStart, Call::ExecInspect] {
        let bed = Bed::new();
        let policy = r#""timeout_seconds":2,"consecutive_failures":1,"grace_period_seconds":0,"#;
        bed.engine.hang_all(call);
        let (task, _) = bed.running(with_exec(0, 0), &health(policy)).await;
        tokio::time::sleep(200 * SECOND).await;
        assert_eq!(bed.executor.tasks().len(), 1);
        assert!(!task.watch().borrow().over, "{call:?}");
        assert_eq!(task.last_status().unwrap().healthy, None, "{call:?}");
        bed.engine.heal();
        let mut updates = task.updates();
        while updates.next().await.healthy != Some(true) {}
        assert_eq!(killed(&task).await, "KILLED killed");
    }
}
