//! Plugins that do not behave: never listening, elsewhere, another version, another name, silent.

use std::path::PathBuf;
use std::time::Duration;

use longshore_csi_manager::{OnUnhealthy, PluginState};
use longshore_csi_probe::{ApiVersion, LivenessPolicy};
use longshore_mesos_api::v1::agent::call::Type;
use longshore_paths::Service;
use longshore_testkit::csi::{Behaviour, Listen};

use crate::rig::{BOTH, Rig, id, plugin, plugin_is, ready, state_is};

fn quick() -> Option<LivenessPolicy> {
    Some(LivenessPolicy {
        interval: Duration::from_millis(50),
        timeout: Duration::from_millis(200),
        failure_threshold: std::num::NonZeroU32::new(2).unwrap(),
    })
}

#[tokio::test]
async fn sm17_probe_order_v1_then_v0_and_the_version_stays() {
    for (behaviour, version) in [
        (Behaviour::v1(), ApiVersion::V1),
        (Behaviour::both(), ApiVersion::V1),
        (Behaviour::v0(), ApiVersion::V0),
        (Behaviour::v0_2(), ApiVersion::V0),
    ] {
        let rig = Rig::new();
        *rig.behaviour.lock().unwrap() = behaviour;
        let manager = rig.manager(vec![plugin("a", &[&[1, 2]])]);
        assert_eq!(ready(&manager, "a", Service::Node).await.version, version);
    }
}

#[tokio::test]
async fn sm17_no_version_and_an_error_status_are_failures_with_their_reason() {
    let error = Behaviour {
        status: Some(13),
        ..Behaviour::v1()
    };
    for (behaviour, expected) in [
        (Behaviour::none(), "implements neither CSI v1 nor v0"),
        (error, "Internal"),
    ] {
        let rig = Rig::new();
        *rig.behaviour.lock().unwrap() = behaviour;
        let manager = rig.manager(vec![plugin("a", &[&[1, 2]])]);
        manager.start("a").await.unwrap();
        plugin_is(&manager, "a", expected, |plugin| {
            plugin.reason.contains(expected)
        })
        .await;
        // Not terminal: once it behaves, it is ready.
        *rig.behaviour.lock().unwrap() = Behaviour::v1();
        ready(&manager, "a", Service::Node).await;
    }
}

#[tokio::test]
async fn sm17_containers_with_different_versions_are_inconsistent() {
    let rig = Rig::new();
    let manager = rig.manager(vec![plugin("a", &[&[1], &[2]])]);
    ready(&manager, "a", Service::Controller).await;
    *rig.behaviour.lock().unwrap() = Behaviour::v0();
    let _node = manager.endpoint("a", Service::Node).unwrap();
    let status = state_is(&manager, "a", PluginState::Failing).await;
    assert!(
        status.reason.contains("speaks CSI v0, expected v1"),
        "{}",
        status.reason
    );
    assert!(
        status.endpoints[&Service::Controller].ready.is_some(),
        "the other one is untouched"
    );
}

#[tokio::test]
async fn another_version_after_a_restart_is_failing_until_reset() {
    let rig = Rig::new();
    let manager = rig.manager(vec![plugin("a", &[&[1]])]);
    ready(&manager, "a", Service::Controller).await;
    state_is(&manager, "a", PluginState::Ready).await;
    *rig.behaviour.lock().unwrap() = Behaviour::v0();
    rig.kill(&id("a", "CONTROLLER_SERVICE"));
    let status = state_is(&manager, "a", PluginState::Failing).await;
    assert!(
        status.reason.contains("speaks CSI v0, expected v1"),
        "{}",
        status.reason
    );
    manager.restart("a", true, false).await.unwrap();
    assert_eq!(
        ready(&manager, "a", Service::Controller).await.version,
        ApiVersion::V0
    );
}

#[tokio::test]
async fn another_name_after_a_restart_is_failing_until_reset() {
    let rig = Rig::new();
    let manager = rig.manager(vec![plugin("a", &[&[1]])]);
    ready(&manager, "a", Service::Controller).await;
    plugin_is(&manager, "a", "described", |p| {
        p.details.is_some() && p.state == PluginState::Ready
    })
    .await;
    rig.behaviour.lock().unwrap().name = "other.csi".to_owned();
    rig.kill(&id("a", "CONTROLLER_SERVICE"));
    let status = state_is(&manager, "a", PluginState::Failing).await;
    assert!(
        status.reason.contains("calls itself \"other.csi\""),
        "{}",
        status.reason
    );
    manager.restart("a", true, false).await.unwrap();
    ready(&manager, "a", Service::Controller).await;
}

#[tokio::test]
async fn sm18_a_socket_that_never_appears_is_a_failure_then_a_restart() {
    let rig = Rig::new();
    rig.behaviour.lock().unwrap().listen = Listen::Never;
    let mut config = plugin("a", &[&[1]]);
    config.startup_timeout = Duration::from_millis(200);
    let manager = rig.manager(vec![config]);
    manager.start("a").await.unwrap();
    let status = plugin_is(&manager, "a", "given up", |p| {
        p.state == PluginState::Backoff
    })
    .await;
    assert!(
        status.reason.contains("the socket did not appear"),
        "{}",
        status.reason
    );
    assert!(
        status.reason.contains("its last words: cannot bind"),
        "{}",
        status.reason
    );
    rig.behaviour.lock().unwrap().listen = Listen::Endpoint;
    ready(&manager, "a", Service::Controller).await;
    let kills = rig
        .agent
        .log()
        .iter()
        .filter(|call| call.kind == Type::KillContainer)
        .count();
    assert!(kills >= 1, "stopped before it was started again");
}

#[tokio::test]
async fn a_plugin_that_listens_elsewhere_is_told_where() {
    let rig = Rig::new();
    rig.behaviour.lock().unwrap().listen = Listen::Never;
    *rig.host.all_files.lock().unwrap() = vec![PathBuf::from("socket:[4711]")];
    *rig.host.listeners.lock().unwrap() = vec![
        (4711, "unix:///tmp/csi.sock".to_owned()),
        (4712, "tcp://0.0.0.0:1".to_owned()),
    ];
    let mut config = plugin("a", &[&[1]]);
    config.startup_timeout = Duration::from_millis(200);
    let manager = rig.manager(vec![config]);
    manager.start("a").await.unwrap();
    let status = plugin_is(&manager, "a", "given up", |p| {
        p.state == PluginState::Backoff
    })
    .await;
    assert!(
        status
            .reason
            .contains("it listens on unix:///tmp/csi.sock;"),
        "{}",
        status.reason
    );
}

#[tokio::test]
async fn a_plugin_that_falls_silent_is_restarted() {
    let rig = Rig::new();
    let mut config = plugin("a", &[&[1, 2]]);
    config.liveness = quick();
    let manager = rig.manager(vec![config]);
    ready(&manager, "a", Service::Node).await;
    state_is(&manager, "a", PluginState::Ready).await;
    rig.plugins.lock().unwrap()[&id("a", BOTH)].change(|behaviour| behaviour.hang_after = Some(0));
    let status = plugin_is(&manager, "a", "restarted", |p| p.restarts == 1).await;
    let why = status
        .history
        .iter()
        .find(|t| t.to == PluginState::Unhealthy)
        .unwrap();
    assert!(
        why.reason.contains("2 liveness probes failed"),
        "{}",
        why.reason
    );
    ready(&manager, "a", Service::Node).await;
}

#[tokio::test]
async fn on_unhealthy_report_only_withdraws_the_endpoint() {
    let rig = Rig::new();
    let mut config = plugin("a", &[&[1, 2]]);
    config.liveness = quick();
    config.on_unhealthy = OnUnhealthy::Report;
    let manager = rig.manager(vec![config]);
    ready(&manager, "a", Service::Node).await;
    let change = |hang| {
        rig.plugins.lock().unwrap()[&id("a", BOTH)].change(|b| b.hang_after = hang);
    };
    change(Some(0));
    let status = state_is(&manager, "a", PluginState::Unhealthy).await;
    assert!(status.endpoints[&Service::Node].ready.is_none());
    assert!(
        rig.agent
            .log()
            .iter()
            .all(|call| call.kind != Type::KillContainer)
    );
    change(None);
    state_is(&manager, "a", PluginState::Ready).await;
    assert_eq!(
        ready(&manager, "a", Service::Node).await.version,
        ApiVersion::V1
    );
}

#[tokio::test]
async fn nothing_is_restarted_by_itself_while_it_holds_fuse() {
    let rig = Rig::new();
    let mut config = plugin("a", &[&[1, 2]]);
    config.liveness = quick();
    let manager = rig.manager(vec![config]);
    ready(&manager, "a", Service::Node).await;
    *rig.host.all_files.lock().unwrap() = vec![PathBuf::from("/dev/fuse")];
    rig.plugins.lock().unwrap()[&id("a", BOTH)].change(|behaviour| behaviour.hang_after = Some(0));
    let status = plugin_is(&manager, "a", "spared", |p| p.reason.contains("/dev/fuse")).await;
    assert_eq!(status.state, PluginState::Unhealthy);
    // Nor by an operator without force.
    let error = manager
        .restart("a", false, false)
        .await
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("holds /dev/fuse") && error.contains("--force"),
        "{error}"
    );
    assert!(manager.stop("a", false).await.is_err());
    assert!(
        rig.agent
            .log()
            .iter()
            .all(|call| call.kind != Type::KillContainer)
    );
    // As soon as it lets go, it is.
    rig.host.all_files.lock().unwrap().clear();
    plugin_is(&manager, "a", "restarted", |p| p.restarts == 1).await;
    ready(&manager, "a", Service::Node).await;
}

#[tokio::test]
async fn a_planted_link_in_the_place_of_the_socket_is_not_followed() {
    let rig = Rig::new();
    let elsewhere = rig.dir.path().join("elsewhere.sock");
    let listening = elsewhere.clone();
    rig.behaviour.lock().unwrap().listen = Listen::Elsewhere(elsewhere.clone());
    let mut config = plugin("a", &[&[1]]);
    config.startup_timeout = Duration::from_secs(1);
    let manager = rig.manager(vec![config]);
    manager.start("a").await.unwrap();
    rig.agent
        .wait_log(|log| log.iter().any(|call| call.kind == Type::LaunchContainer))
        .await;
    let socket = manager.status().borrow().plugins["a"].containers[0]
        .socket
        .clone();
    std::os::unix::fs::symlink(&listening, &socket).unwrap();
    let status = plugin_is(&manager, "a", "refused", |p| {
        p.reason.contains("not a socket")
    })
    .await;
    assert!(status.endpoints[&Service::Controller].ready.is_none());
}
