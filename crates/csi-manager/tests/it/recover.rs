//! Every row of the recovery table, with a fake agent that outlives the manager.

use std::fs;
use std::path::PathBuf;

use longshore_agent_client::fake::Failpoint;
use longshore_csi_manager::{CsiManager, PluginConfig, PluginState};
use longshore_mesos_api::v1::agent::call::{LaunchContainer, Type};
use longshore_mesos_api::v1::{CommandInfo, ContainerId};
use longshore_paths::Service;

use crate::rig::{BOTH, Rig, changed, id, plugin, plugin_is, reach, ready, state_is};

/// A plugin runs, and its manager is gone.
async fn left_behind() -> (Rig, PathBuf) {
    let rig = Rig::new();
    let manager = rig.manager(vec![plugin("a", &[&[1, 2]])]);
    ready(&manager, "a", Service::Node).await;
    state_is(&manager, "a", PluginState::Ready).await;
    manager.shutdown().await;
    let record = rig
        .container_dir("t.a", &id("a", BOTH))
        .join("container.info");
    assert!(record.exists() && rig.agent.running() == [id("a", BOTH)]);
    (rig, record)
}

async fn recovered(rig: &Rig, plugins: Vec<PluginConfig>) -> CsiManager {
    let manager = rig.manager(plugins);
    reach(&manager, "recovered", |status| status.recovered).await;
    manager
}

fn kills(rig: &Rig) -> Vec<Option<i32>> {
    let log = rig.agent.log();
    log.iter()
        .filter(|call| call.kind == Type::KillContainer)
        .map(|call| call.signal)
        .collect()
}

/// The container was stopped with grace and launched anew.
async fn started_anew(rig: &Rig, manager: &CsiManager) {
    ready(manager, "a", Service::Node).await;
    assert_eq!(kills(rig), [Some(15)]);
    assert_eq!(rig.agent.count(Type::LaunchContainer), 2);
}

#[tokio::test]
async fn recover_row_02_the_agent_is_asked_until_it_answers() {
    for failpoint in [
        Failpoint::status(503, "recovering"),
        Failpoint::status(500, "broken"),
        Failpoint::Close,
        Failpoint::body("application/x-protobuf", b"\xff\xff\xff"),
    ] {
        let (rig, _) = left_behind().await;
        for nth in 1..=3 {
            rig.agent.fail(Type::GetContainers, nth, failpoint.clone());
        }
        let manager = rig.manager(vec![plugin("a", &[&[1, 2]])]);
        ready(&manager, "a", Service::Node).await;
        assert!(kills(&rig).is_empty(), "{failpoint:?}");
        let status = manager.status().borrow().clone();
        assert!(status.recovered && status.waiting.is_none());
    }
}

#[tokio::test]
async fn recover_row_02_the_status_says_what_it_waits_for() {
    let (rig, _) = left_behind().await;
    let mut rig = rig;
    rig.agent.stop();
    let manager = rig.manager(vec![plugin("a", &[&[1, 2]])]);
    let status = reach(&manager, "waiting", |status| status.waiting.is_some()).await;
    assert!(!status.recovered);
    assert!(!status.waiting.as_ref().unwrap().reason.is_empty());
    rig.agent.restart().unwrap();
    ready(&manager, "a", Service::Node).await;
}

#[tokio::test]
async fn recover_row_03_a_directory_that_cannot_be_listed_is_its_plugins_trouble_alone() {
    let rig = Rig::new();
    let dir = rig.dir.path().join("state/csi/t.a/default");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("containers"), "not a directory").unwrap();
    let manager = rig.manager(vec![plugin("a", &[&[1, 2]]), plugin("b", &[&[1]])]);
    manager.start("b").await.unwrap();
    let status = state_is(&manager, "a", PluginState::Failing).await;
    assert!(
        status.reason.contains("cannot list") && status.reason.contains("t.a"),
        "{}",
        status.reason
    );
    ready(&manager, "b", Service::Controller).await;
}

#[tokio::test]
async fn recover_row_04_a_path_that_is_none_of_ours_is_reported() {
    let (rig, record) = left_behind().await;
    let containers = record.parent().unwrap().parent().unwrap().to_owned();
    fs::create_dir(containers.join("a.b c")).unwrap();
    let manager = recovered(&rig, vec![plugin("a", &[&[1, 2]])]).await;
    let foreign = manager.status().borrow().foreign.clone();
    assert!(
        foreign
            .iter()
            .any(|foreign| foreign.path.ends_with("a.b c")),
        "{foreign:?}"
    );
    ready(&manager, "a", Service::Node).await;
    assert!(kills(&rig).is_empty());
}

#[tokio::test]
async fn recover_row_05_a_record_of_another_plugin_is_a_damaged_one() {
    let (rig, record) = left_behind().await;
    let manager = rig.manager(vec![plugin("a", &[&[1, 2]]), plugin("b", &[&[1, 2]])]);
    ready(&manager, "b", Service::Node).await;
    manager.shutdown().await;
    let other = rig
        .container_dir("t.b", &id("b", BOTH))
        .join("container.info");
    fs::copy(other, &record).unwrap();
    let manager = recovered(&rig, vec![plugin("a", &[&[1, 2]]), plugin("b", &[&[1, 2]])]).await;
    ready(&manager, "a", Service::Node).await;
    assert_eq!(kills(&rig), [Some(15)]);
    ready(&manager, "b", Service::Node).await;
    assert_eq!(rig.agent.launches(&id("b", BOTH)), 1, "untouched");
}

#[tokio::test]
async fn recover_row_06_a_corrupt_record_is_set_aside_and_the_container_started_anew() {
    let (rig, record) = left_behind().await;
    let mut bytes = fs::read(&record).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs::write(&record, bytes).unwrap();
    let manager = recovered(&rig, vec![plugin("a", &[&[1, 2]])]).await;
    started_anew(&rig, &manager).await;
    let names = fs::read_dir(record.parent().unwrap()).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert!(
        names
            .iter()
            .any(|name| name.to_string_lossy().contains("corrupt")),
        "{names:?}"
    );
}

#[tokio::test]
async fn recover_row_07_an_up_to_date_container_is_kept_untouched() {
    let (rig, _) = left_behind().await;
    let launches = rig.agent.count(Type::LaunchContainer);
    let manager = recovered(&rig, vec![plugin("a", &[&[1, 2]])]).await;
    let waits = rig.agent.count(Type::WaitContainer);
    // No daemon until somebody asks.
    assert_eq!(
        manager.status().borrow().plugins["a"].state,
        PluginState::Idle
    );
    assert_eq!(rig.agent.count(Type::WaitContainer), waits);
    ready(&manager, "a", Service::Node).await;
    assert!(kills(&rig).is_empty());
    assert_eq!(rig.agent.count(Type::LaunchContainer), launches);
    // And supervised from then on.
    state_is(&manager, "a", PluginState::Ready).await;
    rig.kill(&id("a", BOTH));
    plugin_is(&manager, "a", "back", |p| {
        p.restarts == 1 && p.containers[0].runs == 2
    })
    .await;
    ready(&manager, "a", Service::Node).await;
}

#[tokio::test]
async fn recover_row_08_an_empty_record() {
    let (rig, record) = left_behind().await;
    fs::write(&record, "").unwrap();
    let manager = recovered(&rig, vec![plugin("a", &[&[1, 2]])]).await;
    started_anew(&rig, &manager).await;
}

#[tokio::test]
async fn recover_row_09_a_changed_configuration() {
    let (rig, _) = left_behind().await;
    let manager = recovered(&rig, vec![changed(plugin("a", &[&[1, 2]]))]).await;
    started_anew(&rig, &manager).await;
}

#[tokio::test]
async fn recover_row_09_sm7_a_new_agent_id_is_a_change() {
    let (rig, _) = left_behind().await;
    rig.agent.set_agent_id("another-agent");
    let manager = recovered(&rig, vec![plugin("a", &[&[1, 2]])]).await;
    started_anew(&rig, &manager).await;
    assert_eq!(rig.agent.running(), [id("a", BOTH)], "no second one");
}

#[tokio::test]
async fn recover_row_10_a_missing_record() {
    let (rig, record) = left_behind().await;
    fs::remove_file(&record).unwrap();
    let manager = recovered(&rig, vec![plugin("a", &[&[1, 2]])]).await;
    started_anew(&rig, &manager).await;
}

#[tokio::test]
async fn recover_row_11_a_container_that_nobody_wants_any_more() {
    let (rig, record) = left_behind().await;
    let manager = recovered(&rig, vec![plugin("a", &[&[1]])]).await;
    ready(&manager, "a", Service::Controller).await;
    assert_eq!(rig.agent.running(), [id("a", "CONTROLLER_SERVICE")]);
    assert_eq!(kills(&rig), [Some(15)]);
    assert!(!record.parent().unwrap().exists());
    assert_eq!(rig.sockets().len(), 1, "the old socket directory is gone");
    // The same when the whole plugin left the configuration.
    manager.shutdown().await;
    let manager = recovered(&rig, Vec::new()).await;
    reach(&manager, "gone", |status| status.plugins.is_empty()).await;
    rig.agent.wait_log(|_| rig.agent.running().is_empty()).await;
    assert!(rig.sockets().is_empty());
}

#[tokio::test]
async fn recover_row_11_a_mere_reorder_of_services_is_no_change_of_id() {
    let (rig, _) = left_behind().await;
    let manager = recovered(&rig, vec![plugin("a", &[&[2, 1]])]).await;
    ready(&manager, "a", Service::Node).await;
    // The info differs, so the hash of the request may not: nothing of it names the order.
    assert!(kills(&rig).is_empty());
}

#[tokio::test]
async fn recover_row_12_a_container_that_is_ending_is_awaited_first() {
    let (rig, _) = left_behind().await;
    rig.agent.set_destroying(&id("a", BOTH));
    let manager = recovered(&rig, vec![plugin("a", &[&[1, 2]])]).await;
    let waits = rig.agent.count(Type::WaitContainer);
    let asked = |log: &[longshore_agent_client::fake::Logged]| {
        log.iter()
            .filter(|call| call.kind == Type::WaitContainer)
            .count()
            >= waits.max(2)
    };
    rig.agent.wait_log(asked).await;
    assert!(kills(&rig).is_empty());
    rig.agent.exit(&id("a", BOTH), 0);
    ready(&manager, "a", Service::Node).await;
    assert!(kills(&rig).is_empty());
    assert_eq!(rig.agent.count(Type::LaunchContainer), 2);
}

#[tokio::test]
async fn recover_row_13_only_files_are_left() {
    let (rig, record) = left_behind().await;
    let stale = rig.sockets();
    assert_eq!(stale.len(), 1);
    rig.kill(&id("a", BOTH));
    rig.agent.forget(&id("a", BOTH));
    let manager = recovered(&rig, vec![plugin("a", &[&[1, 2]])]).await;
    reach(&manager, "cleaned", |_| !record.exists()).await;
    assert!(rig.sockets().is_empty());
    ready(&manager, "a", Service::Node).await;
    assert!(kills(&rig).is_empty());
    assert_eq!(rig.sockets(), stale, "the same path across restarts");
}

#[tokio::test]
async fn recover_row_14_a_container_without_directory_is_adopted_only_when_its_hash_matches() {
    for matching in [true, false] {
        let (rig, record) = left_behind().await;
        let launched = rig.agent.launched(&id("a", BOTH)).unwrap();
        let variables = launched.command.unwrap().environment.unwrap().variables;
        let hash = variables
            .iter()
            .find(|v| v.name == "LONGSHORE_LAUNCH_HASH")
            .unwrap();
        let hash = hash.value.clone().unwrap();
        fs::remove_dir_all(record.parent().unwrap()).unwrap();
        let pid = u32::try_from(rig.agent.pid(&id("a", BOTH)).unwrap()).unwrap();
        let told = if matching { hash } else { "0".repeat(64) };
        let variable = format!("LONGSHORE_LAUNCH_HASH={told}").into_bytes();
        rig.host.environments.lock().unwrap().insert(pid, variable);
        let manager = recovered(&rig, vec![plugin("a", &[&[1, 2]])]).await;
        if matching {
            ready(&manager, "a", Service::Node).await;
            assert!(kills(&rig).is_empty());
            assert!(record.exists(), "recorded now");
        } else {
            started_anew(&rig, &manager).await;
        }
    }
}

#[tokio::test]
async fn recover_row_14_nothing_that_tells_the_hash_is_no_match() {
    let (rig, record) = left_behind().await;
    fs::remove_dir_all(record.parent().unwrap()).unwrap();
    let manager = recovered(&rig, vec![plugin("a", &[&[1, 2]])]).await;
    started_anew(&rig, &manager).await;
}

#[tokio::test]
async fn recover_row_14_any_other_id_is_reported_and_never_killed() {
    let (rig, _) = left_behind().await;
    let stray = id("z", "NODE_SERVICE");
    for value in [
        stray.as_str(),
        "somebody-elses",
        "longshore-ffffffffffffffff-csi-t-a-default--X",
    ] {
        rig.agent.put(LaunchContainer {
            container_id: ContainerId {
                value: value.to_owned(),
                parent: None,
            },
            command: Some(CommandInfo::default()),
            ..LaunchContainer::default()
        });
    }
    let manager = recovered(&rig, vec![plugin("a", &[&[1, 2]])]).await;
    ready(&manager, "a", Service::Node).await;
    let strays = manager.status().borrow().strays.clone();
    assert_eq!(strays.len(), 1, "{strays:?}");
    assert_eq!(strays[0].id, stray);
    assert!(kills(&rig).is_empty());
    assert_eq!(rig.agent.running().len(), 4);
}

#[tokio::test]
async fn sm1_a_plugin_killed_while_we_were_away_is_cleaned_and_started_again() {
    let (rig, _) = left_behind().await;
    let mut rig = rig;
    rig.agent.stop();
    drop(rig.plugins.lock().unwrap().remove(&id("a", BOTH)));
    rig.agent.exit(&id("a", BOTH), 9);
    rig.agent.restart().unwrap();
    let manager = recovered(&rig, vec![plugin("a", &[&[1, 2]])]).await;
    let endpoint = ready(&manager, "a", Service::Node).await;
    assert!(endpoint.uri.starts_with("unix://"));
    assert_eq!(rig.agent.running(), [id("a", BOTH)]);
}

#[tokio::test]
async fn a_kill_that_fails_is_tried_again_and_hurts_nobody_else() {
    let (rig, _) = left_behind().await;
    for _ in 0..2 {
        rig.agent.fail(
            Type::KillContainer,
            1,
            Failpoint::status(500, "no such process"),
        );
    }
    let manager = recovered(
        &rig,
        vec![changed(plugin("a", &[&[1, 2]])), plugin("b", &[&[1]])],
    )
    .await;
    ready(&manager, "b", Service::Controller).await;
    ready(&manager, "a", Service::Node).await;
    assert_eq!(rig.agent.count(Type::LaunchContainer), 3);
}

#[tokio::test]
async fn a_plugin_whose_socket_directory_is_gone_is_started_anew_at_once() {
    let (rig, _) = left_behind().await;
    std::fs::remove_dir_all(rig.runtime().path()).unwrap();
    let mut plugin = plugin("a", &[&[1, 2]]);
    // Longer than this test may take: nothing is waited for that cannot come.
    plugin.startup_timeout = std::time::Duration::from_secs(3600);
    let manager = recovered(&rig, vec![plugin]).await;
    started_anew(&rig, &manager).await;
}
