//! Plugins that somebody else runs.

use std::time::Duration;

use longshore_csi_manager::{PluginConfig, PluginState};
use longshore_csi_probe::{ApiVersion, LivenessPolicy};
use longshore_mesos_api::v1::agent::call::Type;
use longshore_mesos_api::v1::{CsiPluginEndpoint, CsiPluginInfo};
use longshore_paths::Service;
use longshore_testkit::csi::{Behaviour, FakePlugin};

use crate::rig::{Rig, policy, ready, state_is};

fn unmanaged(uri: &str) -> PluginConfig {
    let endpoint = |csi_service| CsiPluginEndpoint {
        csi_service,
        endpoint: uri.to_owned(),
    };
    let info = CsiPluginInfo {
        r#type: "t.u".to_owned(),
        endpoints: vec![endpoint(1), endpoint(2)],
        ..CsiPluginInfo::default()
    };
    let mut config = PluginConfig::new("u", info);
    config.restart = policy();
    config.liveness = Some(LivenessPolicy {
        interval: Duration::from_millis(50),
        timeout: Duration::from_millis(500),
        failure_threshold: std::num::NonZeroU32::MIN,
    });
    config
}

#[tokio::test]
async fn recover_row_01_an_unmanaged_plugin_is_probed_and_watched_and_never_launched() {
    let rig = Rig::new();
    let socket = rig.dir.path().join("u.sock");
    let fake = FakePlugin::start(&socket, Behaviour::v0());
    let uri = format!("unix://{}", socket.display());
    let manager = rig.manager(vec![unmanaged(&uri)]);
    let endpoint = ready(&manager, "u", Service::Node).await;
    assert_eq!((endpoint.uri, endpoint.version), (uri, ApiVersion::V0));
    ready(&manager, "u", Service::Controller).await;
    let status = state_is(&manager, "u", PluginState::Ready).await;
    assert!(!status.managed && status.containers.is_empty());
    // It goes away, and comes back.
    drop(fake);
    state_is(&manager, "u", PluginState::Unhealthy).await;
    let _fake = FakePlugin::start(&socket, Behaviour::v0());
    ready(&manager, "u", Service::Node).await;
    assert_eq!(rig.agent.count(Type::LaunchContainer), 0);
}

#[tokio::test]
async fn an_unmanaged_plugin_that_is_not_there_is_tried_again() {
    let rig = Rig::new();
    let socket = rig.dir.path().join("u.sock");
    let mut config = unmanaged(&format!("unix://{}", socket.display()));
    config.startup_timeout = Duration::from_millis(100);
    let manager = rig.manager(vec![config]);
    manager.start("u").await.unwrap();
    let status = state_is(&manager, "u", PluginState::Backoff).await;
    assert!(
        status.reason.contains("the socket did not appear"),
        "{}",
        status.reason
    );
    let _fake = FakePlugin::start(&socket, Behaviour::v1());
    ready(&manager, "u", Service::Node).await;
    manager.stop("u", false).await.unwrap();
    state_is(&manager, "u", PluginState::Stopped).await;
    manager.start("u").await.unwrap();
    ready(&manager, "u", Service::Node).await;
}
