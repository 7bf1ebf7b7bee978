//! Never hurt a mount: what changed or left is kept while a volume is mounted.

use longshore_csi_manager::PluginState;
use longshore_paths::Service;

use crate::rig::{BOTH, Rig, changed, id, plugin, plugin_is, reach, ready, state_is};

#[tokio::test]
async fn a_removed_plugin_is_kept_until_the_mount_is_gone() {
    let rig = Rig::new();
    let manager = rig.manager(vec![plugin("a", &[&[1, 2]])]);
    ready(&manager, "a", Service::Node).await;
    let target = rig.mount_root("t.a").join("vol1/target");
    rig.mount(Some(&target));
    manager.apply(Vec::new()).await.unwrap();
    let status = plugin_is(&manager, "a", "kept", |plugin| plugin.kept.is_some()).await;
    let kept = status.kept.clone().unwrap();
    assert!(kept.contains("removed from the configuration"), "{kept}");
    assert!(kept.contains(target.to_str().unwrap()), "{kept}");
    assert_eq!(rig.agent.running(), [id("a", BOTH)]);
    ready(&manager, "a", Service::Node).await;
    rig.mount(None);
    reach(&manager, "gone", |status| status.plugins.is_empty()).await;
    assert!(rig.agent.running().is_empty());
    assert!(!rig.container_dir("t.a", &id("a", BOTH)).exists());
    assert!(rig.sockets().is_empty(), "{:?}", rig.sockets());
}

#[tokio::test]
async fn a_changed_plugin_is_kept_until_the_mount_is_gone_or_force() {
    for force in [false, true] {
        let rig = Rig::new();
        let manager = rig.manager(vec![plugin("a", &[&[1, 2]])]);
        ready(&manager, "a", Service::Node).await;
        state_is(&manager, "a", PluginState::Ready).await;
        rig.mount(Some(&rig.mount_root("t.a").join("vol1/target")));
        manager
            .apply(vec![changed(plugin("a", &[&[1, 2]]))])
            .await
            .unwrap();
        plugin_is(&manager, "a", "kept", |plugin| plugin.kept.is_some()).await;
        assert_eq!(rig.agent.launches(&id("a", BOTH)), 1);
        if force {
            manager.restart("a", false, true).await.unwrap();
        } else {
            rig.mount(None);
        }
        plugin_is(&manager, "a", "changed", |plugin| {
            plugin.kept.is_none() && plugin.state == PluginState::Ready
        })
        .await;
        let command = rig.agent.launched(&id("a", BOTH)).unwrap().command.unwrap();
        assert_eq!(command.value.as_deref(), Some("plugin --changed"));
    }
}

#[tokio::test]
async fn recover_keeps_a_changed_plugin_whose_volume_is_mounted() {
    let rig = Rig::new();
    let manager = rig.manager(vec![plugin("a", &[&[1, 2]])]);
    ready(&manager, "a", Service::Node).await;
    manager.shutdown().await;
    rig.mount(Some(&rig.mount_root("t.a").join("vol1/target")));
    let manager = rig.manager(vec![changed(plugin("a", &[&[1, 2]]))]);
    plugin_is(&manager, "a", "kept", |plugin| plugin.kept.is_some()).await;
    // It is supervised as it was.
    ready(&manager, "a", Service::Node).await;
    let command = rig.agent.launched(&id("a", BOTH)).unwrap().command.unwrap();
    assert_eq!(command.value.as_deref(), Some("plugin"));
    rig.mount(None);
    plugin_is(&manager, "a", "changed", |plugin| plugin.kept.is_none()).await;
    state_is(&manager, "a", PluginState::Ready).await;
    let command = rig.agent.launched(&id("a", BOTH)).unwrap().command.unwrap();
    assert_eq!(command.value.as_deref(), Some("plugin --changed"));
}

#[tokio::test]
async fn recover_keeps_a_removed_plugin_whose_volume_is_mounted() {
    let rig = Rig::new();
    let manager = rig.manager(vec![plugin("a", &[&[1, 2]])]);
    ready(&manager, "a", Service::Node).await;
    manager.shutdown().await;
    rig.mount(Some(&rig.mount_root("t.a").join("vol1/target")));
    let manager = rig.manager(Vec::new());
    let status = plugin_is(&manager, "a", "kept", |plugin| plugin.kept.is_some()).await;
    assert_eq!(status.plugin_type, "t.a");
    assert_eq!(rig.agent.running(), [id("a", BOTH)]);
    manager.stop("a", true).await.unwrap();
    reach(&manager, "gone", |status| status.plugins.is_empty()).await;
    assert!(rig.agent.running().is_empty());
}
