use longshore_container_daemon::{Failure, Phase};
use tokio::time::Instant;

use crate::support::{Plan, Rig, SECOND, options};

#[tokio::test(start_paused = true)]
async fn pre_launch_may_change_the_request() {
    let rig = Rig::new();
    *rig.hooks.command.lock().unwrap() = Some("exec plugin".to_owned());
    rig.daemon.start().await.unwrap();
    rig.reach(|status| status.phase == Phase::Running).await;
    let launches = rig.runtime.launches();
    let command = launches[0].command.as_ref().unwrap();
    assert_eq!(command.value.as_deref(), Some("exec plugin"));
}

#[tokio::test(start_paused = true)]
async fn pre_launch_may_refuse_and_is_asked_again() {
    let rig = Rig::new();
    rig.hooks
        .plan("prepare", Plan::Fail(Failure::new("the disk is full")));
    rig.daemon.start().await.unwrap();
    let status = rig.reach(|status| status.phase == Phase::Pausing).await;
    assert_eq!(status.reason, "the disk is full");
    assert!(rig.runtime.launches().is_empty());
    rig.reach(|status| status.phase == Phase::Running).await;
    assert_eq!(rig.hooks.log(), ["prepare", "prepare", "start"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_post_start_stops_the_container_and_starts_it_again() {
    let rig = Rig::new();
    rig.hooks
        .plan("start", Plan::Fail(Failure::new("no socket")));
    rig.daemon.start().await.unwrap();
    rig.reach(|status| status.phase == Phase::Running).await;
    assert_eq!(rig.runtime.kills(), [15]);
    assert_eq!(rig.runtime.launches().len(), 2);
    assert_eq!(
        rig.hooks.log(),
        ["prepare", "start", "stop", "prepare", "start"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_post_start_that_keeps_the_container_is_run_again() {
    let rig = Rig::new();
    rig.hooks
        .plan("start", Plan::Fail(Failure::keep("holds /dev/fuse")));
    rig.daemon.start().await.unwrap();
    let status = rig.reach(|status| status.next_retry.is_some()).await;
    assert_eq!(
        (status.phase, status.reason.as_str()),
        (Phase::Starting, "holds /dev/fuse")
    );
    rig.reach(|status| status.phase == Phase::Running).await;
    assert!(rig.runtime.kills().is_empty());
    assert_eq!(rig.hooks.log(), ["prepare", "start", "start"]);
}

#[tokio::test(start_paused = true)]
async fn every_hook_has_a_deadline() {
    let mut options = options();
    options.pre_launch_timeout = 3 * SECOND;
    options.post_start_timeout = 5 * SECOND;
    options.post_stop_timeout = 7 * SECOND;
    let rig = Rig::with(options);
    for hook in ["prepare", "start", "stop"] {
        rig.hooks.plan(hook, Plan::Hang);
    }
    rig.daemon.start().await.unwrap();
    rig.reach(|status| status.phase == Phase::Running).await;
    let seen = rig.hooks.seen.lock().unwrap().clone();
    for text in ["pre-launch hook", "post-start hook", "post-stop hook"] {
        let found = seen.iter().any(|(_, reason)| reason.starts_with(text));
        assert!(found, "{text} in {seen:?}");
    }
    rig.daemon.stopped(SECOND).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_exit_cuts_post_start_short() {
    let rig = Rig::new();
    rig.hooks.plan("start", Plan::Hang);
    let start = Instant::now();
    rig.daemon.start().await.unwrap();
    rig.reach(|status| status.phase == Phase::Starting).await;
    rig.runtime.exit(256);
    let status = rig.reach(|status| status.phase == Phase::Pausing).await;
    assert_eq!(status.reason, "exited with 1");
    assert!(start.elapsed().is_zero());
}

#[tokio::test(start_paused = true)]
async fn a_stop_cuts_pre_launch_short() {
    let rig = Rig::new();
    rig.hooks.plan("prepare", Plan::Hang);
    rig.daemon.start().await.unwrap();
    rig.daemon.stopped(SECOND).await.unwrap();
    assert!(rig.runtime.launches().is_empty());
}
