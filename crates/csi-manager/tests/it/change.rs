//! Another configuration while it runs.

use std::time::Duration;

use longshore_csi_manager::{ManagerError, PluginState};
use longshore_mesos_api::v1::agent::call::Type;
use longshore_paths::Service;

use crate::rig::{BOTH, Rig, changed, id, plugin, plugin_is, reach, ready, state_is};

#[tokio::test]
async fn sm10_a_plugin_added_at_run_time_is_loaded_lazily() {
    let rig = Rig::new();
    let manager = rig.manager(Vec::new());
    reach(&manager, "recovered", |status| status.recovered).await;
    manager.apply(vec![plugin("a", &[&[1]])]).await.unwrap();
    plugin_is(&manager, "a", "there", |plugin| {
        plugin.state == PluginState::Idle
    })
    .await;
    assert_eq!(rig.agent.count(Type::LaunchContainer), 0);
    ready(&manager, "a", Service::Controller).await;
}

#[tokio::test]
async fn sm11_an_invalid_configuration_leaves_the_old_one_in_force() {
    let rig = Rig::new();
    let manager = rig.manager(vec![plugin("a", &[&[1]])]);
    ready(&manager, "a", Service::Controller).await;
    let mut broken = plugin("b", &[&[1]]);
    broken.info.containers.clear();
    let error = manager
        .apply(vec![plugin("a", &[&[1]]), broken])
        .await
        .unwrap_err();
    assert!(
        matches!(error, ManagerError::NothingToRun { .. }),
        "{error}"
    );
    let names: Vec<String> = manager.status().borrow().plugins.keys().cloned().collect();
    assert_eq!(names, ["a"]);
    // Usable after the fix.
    manager
        .apply(vec![plugin("a", &[&[1]]), plugin("b", &[&[1]])])
        .await
        .unwrap();
    ready(&manager, "b", Service::Controller).await;
    assert_eq!(
        rig.agent.launches(&id("a", "CONTROLLER_SERVICE")),
        1,
        "untouched"
    );
}

#[tokio::test]
async fn a_changed_command_is_launched_and_a_changed_setting_is_not() {
    let rig = Rig::new();
    let manager = rig.manager(vec![plugin("a", &[&[1, 2]])]);
    ready(&manager, "a", Service::Node).await;
    state_is(&manager, "a", PluginState::Ready).await;
    let mut setting = plugin("a", &[&[1, 2]]);
    setting.kill_grace = Duration::from_secs(1);
    manager.apply(vec![setting.clone()]).await.unwrap();
    // Attached again: a new WAIT, and no new launch.
    let waits = |log: &[longshore_agent_client::fake::Logged]| {
        log.iter()
            .filter(|call| call.kind == Type::WaitContainer)
            .count()
            >= 2
    };
    rig.agent.wait_log(waits).await;
    ready(&manager, "a", Service::Node).await;
    assert_eq!(rig.agent.launches(&id("a", BOTH)), 1);
    manager.apply(vec![changed(setting)]).await.unwrap();
    plugin_is(&manager, "a", "changed", |_| {
        let launched = rig
            .agent
            .launched(&id("a", BOTH))
            .and_then(|launch| launch.command);
        launched.is_some_and(|command| command.value.as_deref() == Some("plugin --changed"))
    })
    .await;
    ready(&manager, "a", Service::Node).await;
}

#[tokio::test]
async fn other_services_are_other_containers_and_the_old_ones_are_cleaned() {
    let rig = Rig::new();
    let manager = rig.manager(vec![plugin("a", &[&[1, 2]])]);
    ready(&manager, "a", Service::Node).await;
    manager
        .apply(vec![plugin("a", &[&[1], &[2]])])
        .await
        .unwrap();
    plugin_is(&manager, "a", "two containers", |plugin| {
        plugin.containers.len() == 2
    })
    .await;
    ready(&manager, "a", Service::Node).await;
    assert!(!rig.agent.running().contains(&id("a", BOTH)));
    assert!(!rig.container_dir("t.a", &id("a", BOTH)).exists());
}

#[tokio::test]
async fn a_plugin_on_its_way_out_still_has_its_ids() {
    let rig = Rig::new();
    let manager = rig.manager(vec![plugin("a.b", &[&[1]])]);
    ready(&manager, "a.b", Service::Controller).await;
    rig.mount(Some(&rig.mount_root("t.a.b").join("v/target")));
    manager.apply(Vec::new()).await.unwrap();
    plugin_is(&manager, "a.b", "kept", |plugin| plugin.kept.is_some()).await;
    let error = manager.apply(vec![plugin("a-b", &[&[1]])]).await;
    let error = error.unwrap_err();
    let ManagerError::Renamed {
        old, new, leaving, ..
    } = &error
    else {
        panic!("{error}")
    };
    assert_eq!((old.as_str(), new.as_str(), *leaving), ("a.b", "a-b", true));
    assert!(
        error.to_string().contains("`csi stop a.b --force`"),
        "{error}"
    );
    // Back in the configuration, it is as if it had never left.
    manager.apply(vec![plugin("a.b", &[&[1]])]).await.unwrap();
    plugin_is(&manager, "a.b", "back", |plugin| plugin.kept.is_none()).await;
    assert_eq!(rig.agent.launches(&id("a-b", "CONTROLLER_SERVICE")), 1);
}

#[tokio::test]
async fn a_plugin_is_not_renamed_while_it_runs() {
    let rig = Rig::new();
    let manager = rig.manager(vec![plugin("a.b", &[&[1]])]);
    ready(&manager, "a.b", Service::Controller).await;
    let error = manager.apply(vec![plugin("a-b", &[&[1]])]).await;
    let error = error.unwrap_err();
    assert!(
        matches!(&error, ManagerError::Renamed { leaving: false, .. }),
        "{error}"
    );
    // The old one has not been touched, and step by step it can be done.
    ready(&manager, "a.b", Service::Controller).await;
    assert_eq!(rig.agent.launches(&id("a-b", "CONTROLLER_SERVICE")), 1);
    manager.apply(Vec::new()).await.unwrap();
    reach(&manager, "gone", |status| status.plugins.is_empty()).await;
    manager.apply(vec![plugin("a-b", &[&[1]])]).await.unwrap();
    ready(&manager, "a-b", Service::Controller).await;
}
