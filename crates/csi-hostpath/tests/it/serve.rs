//! Starting, ending, starting again.

use std::{fs, os::unix::net::UnixListener};

use longshore_csi_api::v1::{self, controller_client::ControllerClient};
use longshore_csi_hostpath::{HostPathError, HostPathOptions, Mode, PublishBy, serve};
use longshore_csi_probe::ApiVersion;

use crate::{Rig, v1_calls};

#[tokio::test]
async fn each_mode_speaks_its_version_and_describes_itself() {
    for (mode, version) in [(Mode::V1, ApiVersion::V1), (Mode::V0, ApiVersion::V0)] {
        let mut rig = Rig::new(mode, PublishBy::SymbolicLink);
        let plugin = rig.start().await;
        assert_eq!(plugin.version, version);
        let deadline = tokio::time::Instant::now() + crate::PATIENCE;
        let details = plugin.describe(deadline).await.unwrap();
        assert_eq!(details.name, "hostpath.csi.longshore");
        assert_eq!(details.manifest["published-by"], "symbolic-link");
        assert!(details.plugin_capabilities.contains("CONTROLLER_SERVICE"));
        assert!(
            details
                .controller_capabilities
                .unwrap()
                .contains("CREATE_DELETE_VOLUME")
        );
        assert!(
            details
                .node_capabilities
                .unwrap()
                .contains("STAGE_UNSTAGE_VOLUME")
        );
        let node = details.node.unwrap();
        assert_eq!(node.id, "node-1");
        assert_eq!(
            node.topology["topology.hostpath.csi.longshore/node"],
            "node-1"
        );
        rig.stop().await;
    }
}

#[tokio::test]
async fn the_socket_is_removed_at_the_end_and_a_stale_one_replaced() {
    let mut rig = Rig::new(Mode::V1, PublishBy::SymbolicLink);
    drop(UnixListener::bind(rig.path("csi.sock")).unwrap());
    rig.start().await;
    rig.stop().await;
    assert!(!rig.path("csi.sock").exists());
}

#[tokio::test]
async fn a_successors_socket_is_left_alone_at_the_end() {
    let mut rig = Rig::new(Mode::V1, PublishBy::SymbolicLink);
    rig.start().await;
    fs::remove_file(rig.path("csi.sock")).unwrap();
    let _successor = UnixListener::bind(rig.path("csi.sock")).unwrap();
    rig.stop().await;
    assert!(rig.path("csi.sock").exists());
}

#[tokio::test]
async fn volumes_and_links_outlive_a_kill() {
    let mut rig = Rig::new(Mode::V1, PublishBy::SymbolicLink);
    let plugin = rig.start().await;
    let id = v1_calls::created(&plugin, "kept").await;
    let staging = rig.make_dir("staging");
    v1_calls::publish(&plugin, &id, &staging, &rig.text("target"), false)
        .await
        .unwrap();
    fs::write(rig.path("target/file"), "kept").unwrap();
    // As a kill does: nothing is told, the socket file stays.
    rig.running.take().unwrap().1.abort();

    let plugin = rig.start().await;
    assert_eq!(fs::read(rig.path("target/file")).unwrap(), b"kept");
    assert_eq!(v1_calls::created(&plugin, "kept").await, id);
    v1_calls::publish(&plugin, &id, &staging, &rig.text("target"), false)
        .await
        .unwrap();
    let mut controller = ControllerClient::new(plugin.channel.clone());
    let request = v1::DeleteVolumeRequest {
        volume_id: id.clone(),
        ..Default::default()
    };
    let refused = controller.delete_volume(request.clone()).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
    assert!(refused.message().contains("in use at"), "{refused}");
    v1_calls::unpublish(&plugin, &id, &rig.text("target"))
        .await
        .unwrap();
    assert!(!rig.path("target").exists());
    controller.delete_volume(request.clone()).await.unwrap();
    controller.delete_volume(request).await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_served_is_said_before_anything_is() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "x").unwrap();
    let never = std::future::pending::<()>;
    let options = |endpoint: &str, state: &std::path::Path| {
        HostPathOptions::new(endpoint.parse().unwrap(), state, "n")
    };
    let state = dir.path().join("state");
    let error = serve(options("tcp://127.0.0.1:1", &state), never())
        .await
        .unwrap_err();
    assert!(matches!(error, HostPathError::NotUnix { .. }), "{error}");
    let error = serve(options(file.to_str().unwrap(), &state), never())
        .await
        .unwrap_err();
    assert!(matches!(error, HostPathError::InTheWay { .. }), "{error}");
    assert_eq!(fs::read(&file).unwrap(), b"x");
    let socket = dir.path().join("no/such/csi.sock");
    let error = serve(options(socket.to_str().unwrap(), &state), never())
        .await
        .unwrap_err();
    assert!(matches!(error, HostPathError::Listen { .. }), "{error}");
    let socket = dir.path().join("csi.sock");
    let error = serve(options(socket.to_str().unwrap(), &file), never())
        .await
        .unwrap_err();
    assert!(matches!(error, HostPathError::State { .. }), "{error}");
}
