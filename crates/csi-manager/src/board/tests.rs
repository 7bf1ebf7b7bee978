use std::time::Duration;

use longshore_container_daemon::fake::FakeRuntime;
use longshore_container_daemon::{ContainerDaemon, DaemonOptions, Exit, NoHooks, Phase};
use longshore_mesos_api::v1::agent::call::LaunchContainer;
use longshore_mesos_api::v1::{CsiPluginContainerInfo, CsiPluginInfo};
use longshore_paths::{InstanceId, RuntimeDir, StateRoot};
use tokio::time::Instant;

use super::entry::container_state;
use super::*;
use crate::config::PluginConfig;
use crate::plan::Places;
use crate::record::HISTORY_MAX;

/// A status to change: only the daemon's crate can make one.
fn daemon(phase: Phase) -> DaemonStatus {
    let options = DaemonOptions::new(LaunchContainer::default());
    let daemon = ContainerDaemon::spawn(options, Arc::new(FakeRuntime::new()), Arc::new(NoHooks));
    let mut status = daemon.status().borrow().clone();
    status.generation = 1;
    status.phase = phase;
    status.wanted = true;
    status
}

fn board() -> (Arc<StatusBoard>, PluginBoard, Vec<Service>) {
    let container = CsiPluginContainerInfo {
        services: vec![1, 2],
        ..Default::default()
    };
    let info = CsiPluginInfo {
        r#type: "t".to_owned(),
        containers: vec![container],
        ..CsiPluginInfo::default()
    };
    let places = Places {
        state: StateRoot::new("/state"),
        runtime: RuntimeDir::new("/run/l"),
        instance: InstanceId::new("0123456789abcdef").unwrap(),
    };
    let plan = Plan::new(PluginConfig::new("p", info), &places).unwrap();
    let all = Arc::new(StatusBoard::new());
    let board = PluginBoard::new(Arc::clone(&all), &plan, true);
    let services = vec![Service::Controller, Service::Node];
    board.units(vec![UnitIdentity {
        id: Some(plan.drafts()[0].id.clone()),
        services: services.clone(),
        socket: PathBuf::from("/run/l/csi/x/csi.sock"),
    }]);
    (all, board, services)
}

fn endpoint() -> ReadyEndpoint {
    ReadyEndpoint {
        uri: "unix:///run/l/csi/x/csi.sock".to_owned(),
        version: ApiVersion::V1,
    }
}

#[tokio::test]
async fn every_phase_has_its_state() {
    let mut never = daemon(Phase::Down);
    never.generation = 0;
    let mut failing = daemon(Phase::Pausing);
    failing.failing = true;
    let mut leaving = daemon(Phase::Cleaning);
    leaving.wanted = false;
    let mut spared = daemon(Phase::Starting);
    spared.next_retry = Some(Instant::now());
    for (status, ready, unhealthy, expected) in [
        (never, false, false, PluginState::Idle),
        (daemon(Phase::Down), false, false, PluginState::Stopped),
        (
            daemon(Phase::Preparing),
            false,
            false,
            PluginState::Starting,
        ),
        (
            daemon(Phase::Launching),
            false,
            false,
            PluginState::Starting,
        ),
        (daemon(Phase::Starting), true, false, PluginState::Starting),
        (spared, false, false, PluginState::Unhealthy),
        (daemon(Phase::Running), true, false, PluginState::Ready),
        (daemon(Phase::Running), true, true, PluginState::Unhealthy),
        (daemon(Phase::Stopping), false, false, PluginState::Stopping),
        (daemon(Phase::Cleaning), false, false, PluginState::Backoff),
        (leaving, false, false, PluginState::Stopping),
        (daemon(Phase::Pausing), false, false, PluginState::Backoff),
        (failing, false, false, PluginState::Failing),
    ] {
        assert_eq!(
            container_state(&status, ready, unhealthy),
            expected,
            "{status:?}"
        );
    }
}

#[tokio::test]
async fn an_endpoint_goes_with_its_process_and_comes_with_a_new_generation() {
    let (all, board, services) = board();
    let mut seen = board.endpoint(Service::Node).unwrap();
    board.daemon(0, &daemon(Phase::Starting));
    board.ready(0, &services, endpoint());
    board.daemon(0, &daemon(Phase::Running));
    let first = seen.borrow_and_update().clone();
    assert_eq!(first.ready, Some(endpoint()));
    let mut cleaning = daemon(Phase::Cleaning);
    "exited with 1".clone_into(&mut cleaning.reason);
    cleaning.last_exit = Some((
        Instant::now(),
        Exit {
            status: Some(256),
            ..Exit::default()
        },
    ));
    board.daemon(0, &cleaning);
    let gone = seen.borrow_and_update().clone();
    assert_eq!((gone.ready, gone.reason.as_str()), (None, "exited with 1"));
    board.ready(0, &services, endpoint());
    let back = seen.borrow_and_update().clone();
    assert!(first.generation < gone.generation && gone.generation < back.generation);
    // The same facts are in the status, and the exit in its history.
    let status = all.subscribe().borrow().plugins["p"].clone();
    assert_eq!(status.endpoints[&Service::Node], back);
    let last = status.history.last().unwrap();
    assert_eq!(
        (last.to, last.exit_status),
        (PluginState::Backoff, Some(256))
    );
}

#[tokio::test]
async fn the_history_holds_the_last_twenty_and_survives_its_record() {
    let (_, board, services) = board();
    for _ in 0..30 {
        board.daemon(0, &daemon(Phase::Preparing));
        board.ready(0, &services, endpoint());
        board.daemon(0, &daemon(Phase::Running));
    }
    let record = board.history();
    assert_eq!(record.transitions.len(), HISTORY_MAX);
    assert_eq!(record.version.as_deref(), Some("v1"));
    let (_, other, _) = self::board();
    assert!(other.begin_load() && !other.begin_load());
    other.load(&record);
    assert_eq!(
        other.fixed().0,
        Some(ApiVersion::V1),
        "the configuration is the same"
    );
    assert_eq!(other.history().transitions, record.transitions);
    let foreign = HistoryRecord {
        configuration: None,
        ..record
    };
    let (_, other, _) = self::board();
    other.load(&foreign);
    assert_eq!(
        other.fixed().0,
        None,
        "a version of another configuration means nothing"
    );
}

#[tokio::test]
async fn the_plugin_is_as_ready_as_its_least_ready_container() {
    let (all, board, services) = board();
    let two = |id: &str| UnitIdentity {
        id: Some(ContainerId::new(id).unwrap()),
        services: services.clone(),
        socket: PathBuf::new(),
    };
    board.units(vec![two("one"), two("two")]);
    board.ready(0, &services, endpoint());
    board.daemon(0, &daemon(Phase::Running));
    let mut pausing = daemon(Phase::Pausing);
    pausing.next_retry = Some(Instant::now() + Duration::from_secs(60));
    board.daemon(1, &pausing);
    let status = all.subscribe().borrow().plugins["p"].clone();
    assert_eq!(status.state, PluginState::Backoff);
    assert!(status.next_retry.unwrap() > SystemTime::now() + Duration::from_secs(50));
    assert_eq!(status.containers[0].state, PluginState::Ready);
}

#[test]
fn reasons_are_one_bounded_line() {
    assert_eq!(clip("a\nb\r"), "a b ");
    let long = clip(&"é".repeat(1_000));
    assert!(long.len() <= 1_024 + 3 && long.ends_with("..."));
}
