//! From configuration to endpoints, deaths and restarts.

use std::time::Duration;

use longshore_agent_client::fake::Failpoint;
use longshore_csi_manager::{ManagerError, PluginState};
use longshore_csi_probe::ApiVersion;
use longshore_mesos_api::v1::agent::call::Type;
use longshore_paths::Service;
use longshore_testkit::csi::{Behaviour, Listen};
use tokio::time::Instant;

use crate::rig::{BOTH, Rig, id, plugin, plugin_is, reach, ready, state_is};

#[tokio::test]
async fn launches_probes_and_hands_out_the_endpoint() {
    let rig = Rig::new();
    let manager = rig.manager(vec![plugin("a", &[&[1, 2]])]);
    let endpoint = ready(&manager, "a", Service::Node).await;
    assert_eq!(endpoint.version, ApiVersion::V1);
    let socket = endpoint.uri.strip_prefix("unix://").unwrap();
    assert!(std::path::Path::new(socket).exists());
    assert_eq!(ready(&manager, "a", Service::Controller).await, endpoint);
    let status = plugin_is(&manager, "a", "ready", |plugin| {
        // The pid comes last, and nothing waits for it.
        let known = plugin.containers.iter().all(|one| one.pid.is_some());
        plugin.state == PluginState::Ready && plugin.details.is_some() && known
    });
    let status = status.await;
    assert_eq!(status.details.as_ref().unwrap().name, "fake.csi.longshore");
    assert_eq!(status.metrics.rpcs_pending, 0);
    assert_eq!(
        status.metrics.rpcs_finished, 2,
        "one probe, one description"
    );
    // The record is there, power-durable, and so is nothing else.
    assert!(
        rig.container_dir("t.a", &id("a", BOTH))
            .join("container.info")
            .exists()
    );
    let launched = rig.agent.launched(&id("a", BOTH)).unwrap();
    let variables = launched.command.unwrap().environment.unwrap().variables;
    let agent_id = variables
        .iter()
        .find(|v| v.name == "MESOS_AGENT_ID")
        .unwrap();
    assert_eq!(
        agent_id.value.as_deref(),
        Some("fake-agent"),
        "from GET_AGENT"
    );
}

#[tokio::test]
async fn the_record_is_written_before_the_launch() {
    let rig = Rig::new();
    let record = rig
        .container_dir("t.a", &id("a", BOTH))
        .join("container.info");
    let (seen, path) = (
        std::sync::Arc::new(std::sync::Mutex::new(None)),
        record.clone(),
    );
    let there = std::sync::Arc::clone(&seen);
    rig.agent.on_launch(move |_| {
        there.lock().unwrap().get_or_insert(path.exists());
    });
    let mut config = plugin("a", &[&[1, 2]]);
    config.startup_timeout = Duration::from_millis(100);
    let manager = rig.manager(vec![config]);
    manager.start("a").await.unwrap();
    rig.agent
        .wait_log(|log| log.iter().any(|call| call.kind == Type::LaunchContainer))
        .await;
    plugin_is(&manager, "a", "given up", |plugin| {
        plugin.reason.contains("socket")
    })
    .await;
    assert_eq!(*seen.lock().unwrap(), Some(true));
}

#[tokio::test]
async fn the_library_is_lazy_and_the_daemon_eager() {
    let rig = Rig::new();
    let manager = rig.manager(vec![plugin("a", &[&[1], &[2]])]);
    reach(&manager, "recovered", |status| status.recovered).await;
    assert_eq!(rig.agent.count(Type::LaunchContainer), 0);
    ready(&manager, "a", Service::Controller).await;
    assert_eq!(rig.agent.running(), [id("a", "CONTROLLER_SERVICE")]);
    manager.shutdown().await;

    let rig = Rig::new();
    let mut options = rig.options();
    options.eager = true;
    let manager =
        longshore_csi_manager::CsiManager::spawn(options, vec![plugin("a", &[&[1], &[2]])])
            .unwrap();
    state_is(&manager, "a", PluginState::Ready).await;
    assert_eq!(rig.agent.running().len(), 2);
}

#[tokio::test]
async fn a_killed_plugin_comes_back_at_the_same_endpoint_with_a_new_generation() {
    let rig = Rig::new();
    let manager = rig.manager(vec![plugin("a", &[&[1, 2]])]);
    let before = ready(&manager, "a", Service::Node).await;
    let mut endpoint = manager.endpoint("a", Service::Node).unwrap();
    state_is(&manager, "a", PluginState::Ready).await;
    let generation = endpoint.borrow_and_update().generation;
    rig.kill(&id("a", BOTH));
    let gone = endpoint
        .wait_for(|state| state.ready.is_none())
        .await
        .unwrap()
        .clone();
    assert!(
        gone.generation > generation && gone.reason.contains("signal 9"),
        "{}",
        gone.reason
    );
    let back = endpoint
        .wait_for(|state| state.ready.is_some())
        .await
        .unwrap()
        .clone();
    assert_eq!(back.ready.unwrap(), before);
    assert!(back.generation > gone.generation);
    let status = plugin_is(&manager, "a", "restarted", |plugin| {
        plugin.restarts == 1 && plugin.state == PluginState::Ready
    });
    let status = status.await;
    assert_eq!(status.metrics.container_terminations, 1);
    let exit = status.containers[0].last_exit.as_ref().unwrap();
    assert_eq!(
        (exit.status, exit.text.as_str()),
        (Some(9), "ended by signal 9")
    );
    let bad = status
        .history
        .iter()
        .find(|entry| entry.to == PluginState::Backoff)
        .unwrap();
    assert_eq!(bad.exit_status, Some(9));
    assert_eq!(bad.stderr, ["starting", "cannot bind"]);
}

#[tokio::test]
async fn one_failing_plugin_leaves_the_others_untouched() {
    let rig = Rig::new();
    let refused = id("bad", "NODE_SERVICE");
    let mut bad = plugin("bad", &[&[2]]);
    bad.startup_timeout = Duration::from_millis(200);
    let manager = rig.manager(vec![plugin("a", &[&[1, 2]]), bad, plugin("c", &[&[2]])]);
    ready(&manager, "a", Service::Node).await;
    rig.behaviour.lock().unwrap().listen = Listen::Never;
    manager.start("bad").await.unwrap();
    let status = plugin_is(&manager, "bad", "restarted", |plugin| plugin.restarts >= 2).await;
    assert!(
        status
            .history
            .iter()
            .any(|entry| entry.reason.contains("the socket did not appear"))
    );
    *rig.behaviour.lock().unwrap() = Behaviour::v1();
    ready(&manager, "c", Service::Node).await;
    let a = plugin_is(&manager, "a", "there", |_| true).await;
    assert_eq!((a.state, a.restarts), (PluginState::Ready, 0));
    // And the failing one heals as soon as it can.
    ready(&manager, "bad", Service::Node).await;
    assert!(rig.agent.running().contains(&refused));
}

#[tokio::test]
async fn cd2_a_refused_launch_is_failing_with_a_slow_retry() {
    let rig = Rig::new();
    rig.agent.fail(
        Type::LaunchContainer,
        1,
        Failpoint::status(403, "not allowed"),
    );
    let manager = rig.manager(vec![plugin("a", &[&[1]])]);
    manager.start("a").await.unwrap();
    let status = state_is(&manager, "a", PluginState::Failing).await;
    assert!(status.reason.contains("403"), "{}", status.reason);
    assert!(status.next_retry.is_some());
    ready(&manager, "a", Service::Controller).await;
}

#[tokio::test]
async fn cd6_a_wait_that_is_cut_restarts_nothing() {
    let rig = Rig::new();
    let mut rig = rig;
    let manager = rig.manager(vec![plugin("a", &[&[1]])]);
    ready(&manager, "a", Service::Controller).await;
    state_is(&manager, "a", PluginState::Ready).await;
    let waits = rig.agent.count(Type::WaitContainer);
    rig.agent.stop();
    rig.agent.restart().unwrap();
    let again = |log: &[longshore_agent_client::fake::Logged]| {
        log.iter()
            .filter(|call| call.kind == Type::WaitContainer)
            .count()
            > waits
    };
    tokio::time::timeout(crate::rig::PATIENCE, rig.agent.wait_log(again))
        .await
        .unwrap();
    let status = plugin_is(&manager, "a", "there", |_| true).await;
    assert_eq!((status.state, status.restarts), (PluginState::Ready, 0));
    assert_eq!(rig.agent.count(Type::LaunchContainer), 1);
}

#[tokio::test]
async fn stops_and_starts_by_request() {
    let rig = Rig::new();
    let manager = rig.manager(vec![plugin("a", &[&[1], &[2]])]);
    manager.start("a").await.unwrap();
    state_is(&manager, "a", PluginState::Ready).await;
    rig.agent.ignore_term(&id("a", "NODE_SERVICE"));
    manager.stop("a", false).await.unwrap();
    assert!(rig.agent.running().is_empty());
    let status = state_is(&manager, "a", PluginState::Stopped).await;
    assert_eq!(status.reason, "stopped by request");
    for dir in rig.sockets() {
        assert!(!dir.join("csi.sock").exists(), "no socket is left");
    }
    let deadline = Instant::now() + Duration::from_millis(50);
    let error = manager
        .wait_endpoint("a", Service::Node, deadline)
        .await
        .unwrap_err();
    assert!(matches!(error, ManagerError::NotReady { .. }), "{error}");
    manager.start("a").await.unwrap();
    state_is(&manager, "a", PluginState::Ready).await;
    assert_eq!(rig.agent.running().len(), 2);
}

#[tokio::test]
async fn restart_is_immediate_and_reset_forgets_the_failures() {
    let rig = Rig::new();
    let mut config = plugin("a", &[&[1]]);
    config.startup_timeout = Duration::from_millis(100);
    config.restart.slow_retry = Duration::from_secs(3_600);
    config.restart.start_limit =
        longshore_backoff::StartLimit::new(2, Duration::from_secs(3_600)).unwrap();
    rig.behaviour.lock().unwrap().listen = Listen::Never;
    let manager = rig.manager(vec![config]);
    manager.start("a").await.unwrap();
    state_is(&manager, "a", PluginState::Failing).await;
    rig.behaviour.lock().unwrap().listen = Listen::Endpoint;
    manager.restart("a", true, false).await.unwrap();
    ready(&manager, "a", Service::Controller).await;
}

#[tokio::test]
async fn errors_name_what_is_wrong() {
    let rig = Rig::new();
    let manager = rig.manager(vec![plugin("a", &[&[1]])]);
    let unknown = manager
        .endpoint("b", Service::Node)
        .unwrap_err()
        .to_string();
    assert_eq!(unknown, "no plugin is named \"b\"; configured: a");
    let missing = manager
        .endpoint("a", Service::Node)
        .unwrap_err()
        .to_string();
    assert!(missing.contains("NODE_SERVICE"), "{missing}");
    assert!(manager.restart("b", false, false).await.is_err());
    let twice = vec![plugin("a", &[&[1]]), plugin("a", &[&[1]])];
    assert!(
        manager.apply(twice).await.is_err(),
        "and the old one stays in force"
    );
    ready(&manager, "a", Service::Controller).await;
    manager.shutdown().await;
    assert!(matches!(
        manager.start("a").await,
        Err(ManagerError::Closed)
    ));
    assert_eq!(rig.agent.running().len(), 1, "left running");
}

#[tokio::test]
async fn stop_all_leaves_nothing_running() {
    let rig = Rig::new();
    let manager = rig.manager(vec![plugin("a", &[&[1]]), plugin("b", &[&[1, 2]])]);
    ready(&manager, "a", Service::Controller).await;
    ready(&manager, "b", Service::Node).await;
    manager.stop_all().await;
    assert!(rig.agent.running().is_empty());
}

#[tokio::test]
async fn history_version_and_name_are_kept_across_restarts() {
    let rig = Rig::new();
    let manager = rig.manager(vec![plugin("a", &[&[1]])]);
    ready(&manager, "a", Service::Controller).await;
    state_is(&manager, "a", PluginState::Ready).await;
    rig.kill(&id("a", "CONTROLLER_SERVICE"));
    plugin_is(&manager, "a", "back", |p| {
        p.restarts == 1 && p.state == PluginState::Ready
    })
    .await;
    let before = manager.status().borrow().plugins["a"].history.clone();
    manager.shutdown().await;
    let manager = rig.manager(vec![plugin("a", &[&[1]])]);
    ready(&manager, "a", Service::Controller).await;
    let after = state_is(&manager, "a", PluginState::Ready)
        .await
        .history
        .clone();
    // Times are kept to the millisecond.
    let texts = |history: &[longshore_csi_manager::Transition]| {
        history
            .iter()
            .map(|t| (t.from, t.to, t.reason.clone(), t.exit_status))
            .collect::<Vec<_>>()
    };
    assert_eq!(texts(&after)[..before.len()], texts(&before));
    // Another version than in the life before is still another one.
    *rig.behaviour.lock().unwrap() = Behaviour::v0();
    rig.kill(&id("a", "CONTROLLER_SERVICE"));
    let status = state_is(&manager, "a", PluginState::Failing).await;
    assert!(
        status.reason.contains("speaks CSI v0, expected v1"),
        "{}",
        status.reason
    );
}

#[tokio::test]
async fn a_disk_that_takes_no_record_stops_new_launches_and_never_a_restart() {
    let rig = Rig::new();
    let manager = rig.manager(vec![plugin("a", &[&[1, 2]]), plugin("b", &[&[1]])]);
    ready(&manager, "a", Service::Node).await;
    state_is(&manager, "a", PluginState::Ready).await;
    // Nothing can be written below these directories any more.
    let block = |dir: std::path::PathBuf| {
        drop(std::fs::remove_dir_all(&dir));
        std::fs::create_dir_all(dir.parent().unwrap()).unwrap();
        std::fs::write(dir, "in the way").unwrap();
    };
    block(rig.container_dir("t.a", &id("a", BOTH)));
    block(rig.container_dir("t.b", &id("b", "CONTROLLER_SERVICE")));
    rig.kill(&id("a", BOTH));
    plugin_is(&manager, "a", "back", |p| {
        p.restarts == 1 && p.state == PluginState::Ready
    })
    .await;
    manager.start("b").await.unwrap();
    let status = state_is(&manager, "b", PluginState::Backoff).await;
    assert!(
        status.reason.contains(&id("b", "CONTROLLER_SERVICE")),
        "{}",
        status.reason
    );
    assert_eq!(rig.agent.running(), [id("a", BOTH)]);
}
