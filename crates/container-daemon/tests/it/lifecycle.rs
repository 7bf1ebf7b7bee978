use longshore_container_daemon::fake::{FakeCall, Fault};
use longshore_container_daemon::{Failure, Phase};
use tokio::time::{Instant, advance, timeout};

use crate::support::{Rig, SECOND, options};

#[tokio::test(start_paused = true)]
async fn cd1_restarts_on_termination_and_hooks_alternate() {
    let rig = Rig::new();
    rig.runtime.exits_at_once(true);
    rig.daemon.start().await.unwrap();
    let status = rig.reach(|status| status.runs >= 6).await;
    assert!(status.wanted);
    let log = rig.hooks.log();
    let marks: Vec<_> = log.iter().filter(|mark| **mark != "prepare").collect();
    for pair in marks.chunks(2).take(5) {
        assert!(pair == [&"start", &"stop"], "{log:?}");
    }
    let (_, exit) = rig
        .reach(|status| status.last_exit.is_some())
        .await
        .last_exit
        .unwrap();
    assert_eq!(exit.code(), Some(0));
}

#[tokio::test(start_paused = true)]
async fn cd2_a_refused_launch_is_failing_and_retried_slowly() {
    let rig = Rig::new();
    for _ in 0..3 {
        rig.runtime.fault(FakeCall::Launch, Fault::Refused(true));
    }
    let start = Instant::now();
    rig.daemon.start().await.unwrap();
    let status = rig.reach(|status| status.failing).await;
    assert_eq!(status.phase, Phase::Pausing);
    assert!(status.reason.contains("Refused"), "{}", status.reason);
    let next = status.next_retry.unwrap();
    assert_eq!(next - start, 300 * SECOND);
    // It is not terminal: once it is allowed, it runs.
    rig.reach(|status| status.phase == Phase::Running).await;
    assert_eq!(start.elapsed(), 900 * SECOND);
    assert_eq!(rig.runtime.launches().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn cd3_attaches_to_a_container_that_is_already_there() {
    let rig = Rig::new();
    rig.runtime.present();
    rig.daemon.start().await.unwrap();
    rig.reach(|status| status.phase == Phase::Running).await;
    assert_eq!(rig.hooks.log(), ["prepare", "start"]);
    assert!(rig.runtime.launches().is_empty(), "no second container");
    assert!(rig.runtime.kills().is_empty());
}

#[tokio::test(start_paused = true)]
async fn cd3_attach_sends_no_launch_and_runs_no_pre_launch() {
    let rig = Rig::new();
    rig.runtime.present();
    rig.daemon.attach().await.unwrap();
    rig.reach(|status| status.phase == Phase::Running).await;
    assert_eq!(rig.hooks.log(), ["start"]);
    rig.runtime.exit(9);
    rig.reach(|status| status.phase == Phase::Running && status.runs == 1)
        .await;
    assert_eq!(rig.hooks.log(), ["start", "stop", "prepare", "start"]);
}

#[tokio::test(start_paused = true)]
async fn cd4_a_container_that_vanished_has_ended() {
    let rig = Rig::running().await;
    rig.runtime.vanish();
    let status = rig.reach(|status| status.runs == 2).await;
    let (_, exit) = status.last_exit.unwrap();
    assert_eq!(exit.status, None);
    assert_eq!(
        rig.hooks.log(),
        ["prepare", "start", "stop", "prepare", "start"]
    );
}

#[tokio::test(start_paused = true)]
async fn cd6_a_cut_wait_is_asked_again_without_a_restart() {
    let rig = Rig::running().await;
    let waits = rig.runtime.waits();
    let mut changes = rig.runtime.changes();
    for _ in 0..3 {
        rig.runtime.fault(FakeCall::Wait, Fault::Lost);
    }
    timeout(
        600 * SECOND,
        changes.wait_for(|_| rig.runtime.waits() == waits + 3),
    )
    .await
    .unwrap()
    .unwrap();
    let status = rig.daemon.status().borrow().clone();
    assert_eq!((status.phase, status.runs), (Phase::Running, 1));
    assert_eq!(rig.hooks.log(), ["prepare", "start"]);
    // And the exit is still seen.
    rig.runtime.exit(0);
    rig.reach(|status| status.runs == 2).await;
}

#[tokio::test(start_paused = true)]
async fn the_first_restart_after_a_stable_run_is_immediate_then_it_backs_off() {
    let rig = Rig::running().await;
    let mut pauses = Vec::new();
    for run in 2..6 {
        let start = Instant::now();
        rig.runtime.exit(256);
        rig.reach(|status| status.runs == run && status.phase == Phase::Running)
            .await;
        pauses.push(start.elapsed());
    }
    assert!(pauses[0].is_zero(), "{pauses:?}");
    for (pause, full) in pauses[1..].iter().zip([1, 2, 4]) {
        assert!(
            *pause <= full * SECOND && *pause >= full * SECOND * 4 / 5,
            "{pauses:?}"
        );
    }
    advance(11 * SECOND).await;
    let start = Instant::now();
    rig.runtime.exit(256);
    rig.reach(|status| status.runs == 6 && status.phase == Phase::Running)
        .await;
    assert!(start.elapsed().is_zero());
}

#[tokio::test(start_paused = true)]
async fn stops_with_term_and_after_the_grace_with_kill() {
    let rig = Rig::running().await;
    rig.runtime.ignores_term(true);
    let start = Instant::now();
    rig.daemon.stopped(5 * SECOND).await.unwrap();
    assert_eq!(rig.runtime.kills(), [15, 9]);
    assert_eq!(start.elapsed(), 5 * SECOND);
    assert!(!rig.runtime.alive());
    let status = rig.daemon.status().borrow().clone();
    assert!(!status.wanted && status.phase == Phase::Down);
    assert_eq!(rig.hooks.log().last(), Some(&"stop"));
}

#[tokio::test(start_paused = true)]
async fn stops_even_when_kill_and_wait_fail_for_a_while() {
    let rig = Rig::running().await;
    for fault in [Fault::NotSent, Fault::Refused(false), Fault::Hangs] {
        rig.runtime.fault(FakeCall::Kill, fault);
    }
    for _ in 0..4 {
        rig.runtime.fault(FakeCall::Wait, Fault::Lost);
    }
    rig.daemon.stopped(5 * SECOND).await.unwrap();
    assert!(!rig.runtime.alive());
}

#[tokio::test(start_paused = true)]
async fn a_launch_that_hangs_is_settled_by_launching_again() {
    let mut options = options();
    options.launch_timeout = 20 * SECOND;
    let rig = Rig::with(options);
    rig.runtime.fault(FakeCall::Launch, Fault::Hangs);
    rig.daemon.start().await.unwrap();
    let status = rig.reach(|status| status.phase == Phase::Pausing).await;
    assert!(
        status
            .reason
            .contains("LAUNCH_CONTAINER not done within 20s"),
        "{}",
        status.reason
    );
    rig.reach(|status| status.phase == Phase::Running).await;
    assert_eq!(
        rig.runtime.launches().len(),
        1,
        "one container, found by the second LAUNCH"
    );
    assert_eq!(rig.hooks.log(), ["prepare", "start"]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_the_owner_saw_restarts_after_the_backoff() {
    let rig = Rig::running().await;
    let failure = Failure::new("the liveness probe failed 3 times");
    rig.daemon.fail(SECOND, failure).await.unwrap();
    let status = rig.reach(|status| status.phase == Phase::Pausing).await;
    assert_eq!(status.reason, "the liveness probe failed 3 times");
    rig.reach(|status| status.runs == 2).await;
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_leaves_the_container_running() {
    let rig = Rig::running().await;
    let control = rig.daemon.control();
    let mut status = rig.daemon.status();
    drop(rig.daemon);
    while status.changed().await.is_ok() {}
    assert!(rig.runtime.alive() && rig.runtime.kills().is_empty());
    assert!(control.start().await.is_err());
}
