//! Liveness on real sockets, at short intervals.

use std::{fs, num::NonZeroU32, os::unix::net::UnixListener, sync::Arc, time::Duration};

use longshore_csi_probe::{
    ApiVersion, Links, LivenessEvent, LivenessPolicy, LivenessWatch, SocketId, check, watch,
};
use longshore_testkit::csi::{Behaviour, FakePlugin};
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use crate::{Bed, PATIENCE, patient};

const POLICY: LivenessPolicy = LivenessPolicy {
    interval: Duration::from_millis(20),
    // Only the test of a plugin that hangs waits for it; a busy machine may need it.
    timeout: PATIENCE,
    failure_threshold: NonZeroU32::MIN.saturating_add(1),
};

async fn started(bed: &Bed, policy: LivenessPolicy) -> (FakePlugin, LivenessWatch) {
    let plugin = bed.plugin(Behaviour::v1());
    longshore_csi_probe::connect(&ready(bed).await, patient())
        .await
        .unwrap();
    let socket = SocketId::of(&bed.socket());
    let mut watch = watch(
        bed.endpoint(),
        ApiVersion::V1,
        policy,
        Links::Refuse,
        socket,
    );
    loop {
        match next(&mut watch).await {
            LivenessEvent::Healthy | LivenessEvent::Recovered { .. } => return (plugin, watch),
            // A short timeout on a busy machine.
            LivenessEvent::Failed { .. } | LivenessEvent::Unhealthy { .. } => {}
            other => panic!("{other:?}"),
        }
    }
}

async fn ready(bed: &Bed) -> longshore_csi_probe::Endpoint {
    longshore_csi_probe::wait_for_socket(&bed.socket(), patient())
        .await
        .unwrap();
    bed.endpoint()
}

async fn next(watch: &mut LivenessWatch) -> LivenessEvent {
    timeout(PATIENCE, watch.next()).await.unwrap()
}

/// One failure, then the threshold, each with the reason.
async fn expect_unhealthy(watch: &mut LivenessWatch, why: &str) {
    match next(watch).await {
        LivenessEvent::Failed {
            failures: 1,
            reason,
        } => assert!(reason.contains(why), "{reason}"),
        other => panic!("{other:?}"),
    }
    match next(watch).await {
        LivenessEvent::Unhealthy {
            failures: 2,
            reason,
        } => assert!(reason.contains(why), "{reason}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn each_probe_is_told_also_those_that_are_no_event() {
    let bed = Bed::new();
    let (_plugin, watch) = started(&bed, POLICY).await;
    let probed = Arc::new(Notify::new());
    let mut watch = watch.notifying(Arc::clone(&probed));
    let watching = tokio::spawn(async move { watch.next().await });
    for _ in 0..3 {
        timeout(PATIENCE, probed.notified()).await.unwrap();
    }
    assert!(!watching.is_finished(), "nothing else is told of them");
    watching.abort();
}

#[tokio::test]
async fn a_removed_socket_file_is_noticed_although_the_plugin_still_listens() {
    let bed = Bed::new();
    let (plugin, mut watch) = started(&bed, POLICY).await;
    fs::remove_file(bed.socket()).unwrap();
    expect_unhealthy(&mut watch, "no socket at").await;
    drop(plugin);
    let _again = bed.plugin(Behaviour::v1());
    let mut events = vec![next(&mut watch).await];
    if matches!(events[0], LivenessEvent::Replaced { .. }) {
        events.push(next(&mut watch).await);
    }
    assert!(
        matches!(events.last(), Some(LivenessEvent::Recovered { .. })),
        "{events:?}"
    );
}

#[tokio::test]
async fn a_socket_file_that_nobody_serves_in_its_place_is_noticed() {
    let bed = Bed::new();
    let (_plugin, mut watch) = started(&bed, POLICY).await;
    fs::remove_file(bed.socket()).unwrap();
    drop(UnixListener::bind(bed.socket()).unwrap());
    // Between the two lines a probe may have met no file at all.
    loop {
        match next(&mut watch).await {
            LivenessEvent::Failed { .. } => {}
            LivenessEvent::Unhealthy { reason, .. } => {
                assert!(
                    reason.contains("refused") || reason.contains("no socket"),
                    "{reason}"
                );
                break;
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_plugin_started_anew_behind_our_back_is_told() {
    let bed = Bed::new();
    let (plugin, mut watch) = started(&bed, POLICY).await;
    // Renamed over the old one, so that no probe meets a gap.
    let beside = bed.dir.path().join("beside.sock");
    let other = FakePlugin::start(&beside, Behaviour::v1());
    let endpoint = longshore_csi_probe::Endpoint::unix(&beside).unwrap();
    longshore_csi_probe::wait_for_socket(&beside, patient())
        .await
        .unwrap();
    longshore_csi_probe::connect(&endpoint, patient())
        .await
        .unwrap();
    let (before, now) = (
        SocketId::of(&bed.socket()).unwrap(),
        SocketId::of(&beside).unwrap(),
    );
    rename(&beside, &bed.socket());
    assert_eq!(
        next(&mut watch).await,
        LivenessEvent::Replaced { before, now }
    );
    drop((plugin, other));
}

#[expect(
    clippy::disallowed_methods,
    reason = "a test that puts one socket over another"
)]
fn rename(from: &std::path::Path, to: &std::path::Path) {
    fs::rename(from, to).unwrap();
}

#[tokio::test]
async fn a_plugin_that_hangs_is_unhealthy_after_its_timeouts_and_recovers() {
    let bed = Bed::new();
    let policy = LivenessPolicy {
        timeout: Duration::from_millis(500),
        ..POLICY
    };
    let (plugin, mut watch) = started(&bed, policy).await;
    plugin.change(|behaviour| behaviour.hang_after = Some(0));
    expect_unhealthy(&mut watch, "does not answer").await;
    plugin.change(|behaviour| behaviour.hang_after = None);
    assert!(matches!(
        next(&mut watch).await,
        LivenessEvent::Recovered { .. }
    ));
}

#[tokio::test]
async fn not_ready_and_an_error_are_failures_and_forgiven_below_the_threshold() {
    let bed = Bed::new();
    let (plugin, mut watch) = started(&bed, POLICY).await;
    plugin.change(|behaviour| behaviour.not_ready = 1);
    match next(&mut watch).await {
        LivenessEvent::Failed {
            failures: 1,
            reason,
        } => assert!(reason.contains("not ready"), "{reason}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(
        next(&mut watch).await,
        LivenessEvent::Recovered { failures: 1 }
    );
    plugin.change(|behaviour| behaviour.status = Some(13));
    expect_unhealthy(&mut watch, "Internal: scripted").await;
}

#[tokio::test]
async fn each_probe_dials_afresh_and_a_cancelled_wait_loses_nothing() {
    let bed = Bed::new();
    let (plugin, mut watch) = started(&bed, POLICY).await;
    let before = plugin.seen();
    let deadline = Instant::now() + PATIENCE;
    while plugin.seen().probes < before.probes + 5 {
        // Polled in small slices, as a select! would.
        let slice = Duration::from_millis(1);
        if let Ok(event) = timeout(slice, watch.next()).await {
            panic!("{event:?}");
        }
        assert!(Instant::now() < deadline);
    }
    let seen = plugin.seen();
    assert_eq!(
        seen.connections - before.connections,
        seen.probes - before.probes
    );
}

#[tokio::test]
async fn one_check_asks_once() {
    let bed = Bed::new();
    let plugin = bed.plugin(Behaviour::v0());
    let endpoint = ready(&bed).await;
    longshore_csi_probe::connect(&endpoint, patient())
        .await
        .unwrap();
    let socket = check(&endpoint, ApiVersion::V0, Links::Refuse, patient())
        .await
        .unwrap();
    assert_eq!(socket, SocketId::of(&bed.socket()));
    check(&endpoint, ApiVersion::V1, Links::Refuse, patient())
        .await
        .unwrap_err();
    assert_eq!(plugin.seen().probes, 1);
}
