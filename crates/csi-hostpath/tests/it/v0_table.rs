//! v0 has no csi-sanity any more: our own table, one row a call.

use longshore_csi_api::v0::{
    self,
    controller_client::ControllerClient,
    node_client::NodeClient,
    volume_capability::{
        AccessMode, AccessType, BlockVolume, MountVolume, access_mode::Mode as Access,
    },
};
use longshore_csi_hostpath::Mode;
use longshore_csi_probe::Probed;
use tonic::{Code, Status};

use crate::{Rig, whatever_works};

fn writer() -> v0::VolumeCapability {
    v0::VolumeCapability {
        access_mode: Some(AccessMode {
            mode: Access::SingleNodeWriter.into(),
        }),
        access_type: Some(AccessType::Mount(MountVolume::default())),
    }
}

fn create(
    name: &str,
    required_bytes: i64,
    capabilities: Vec<v0::VolumeCapability>,
) -> v0::CreateVolumeRequest {
    v0::CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: Some(v0::CapacityRange {
            required_bytes,
            limit_bytes: 0,
        }),
        volume_capabilities: capabilities,
        ..Default::default()
    }
}

pub(crate) async fn created(plugin: &Probed, name: &str) -> String {
    let mut controller = ControllerClient::new(plugin.channel.clone());
    let answer = controller
        .create_volume(create(name, 1 << 20, vec![writer()]))
        .await
        .unwrap();
    answer.into_inner().volume.unwrap().id
}

fn publication(id: &str, staging: &str, target: &str) -> v0::NodePublishVolumeRequest {
    v0::NodePublishVolumeRequest {
        volume_id: id.to_owned(),
        staging_target_path: staging.to_owned(),
        target_path: target.to_owned(),
        volume_capability: Some(writer()),
        ..Default::default()
    }
}

pub(crate) async fn publish(
    plugin: &Probed,
    id: &str,
    staging: &str,
    target: &str,
) -> Result<(), Status> {
    let mut node = NodeClient::new(plugin.channel.clone());
    node.node_publish_volume(publication(id, staging, target))
        .await
        .map(drop)
}

pub(crate) async fn unpublish(plugin: &Probed, id: &str, target: &str) -> Result<(), Status> {
    let request = v0::NodeUnpublishVolumeRequest {
        volume_id: id.to_owned(),
        target_path: target.to_owned(),
    };
    NodeClient::new(plugin.channel.clone())
        .node_unpublish_volume(request)
        .await
        .map(drop)
}

fn code<T>(result: Result<T, Status>) -> Code {
    result.err().map_or(Code::Ok, |status| status.code())
}

#[tokio::test]
async fn v0_controller_table() {
    let mut rig = Rig::new(Mode::V0, whatever_works());
    let plugin = rig.start().await;
    let mut controller = ControllerClient::new(plugin.channel.clone());
    let block = v0::VolumeCapability {
        access_type: Some(AccessType::Block(BlockVolume {})),
        ..writer()
    };
    for (what, request, want) in [
        (
            "no name",
            create("", 1, vec![writer()]),
            Code::InvalidArgument,
        ),
        (
            "no capabilities",
            create("a", 1, vec![]),
            Code::InvalidArgument,
        ),
        (
            "a block device",
            create("a", 1, vec![block.clone()]),
            Code::InvalidArgument,
        ),
        ("new", create("a", 1 << 20, vec![writer()]), Code::Ok),
        ("again", create("a", 1 << 20, vec![writer()]), Code::Ok),
        (
            "again, larger",
            create("a", 2 << 20, vec![writer()]),
            Code::AlreadyExists,
        ),
        (
            "128 bytes of name",
            create(&"n".repeat(128), 1, vec![writer()]),
            Code::Ok,
        ),
        (
            "too much",
            create("b", i64::MAX, vec![writer()]),
            Code::OutOfRange,
        ),
    ] {
        assert_eq!(
            code(controller.create_volume(request).await),
            want,
            "CreateVolume: {what}"
        );
    }
    let id = created(&plugin, "a").await;
    let validate = |id: &str, capabilities| v0::ValidateVolumeCapabilitiesRequest {
        volume_id: id.to_owned(),
        volume_capabilities: capabilities,
        ..Default::default()
    };
    for (what, request, want) in [
        (
            "no id",
            validate("", vec![writer()]),
            Err(Code::InvalidArgument),
        ),
        (
            "no capabilities",
            validate(&id, vec![]),
            Err(Code::InvalidArgument),
        ),
        (
            "no such volume",
            validate("nonesuch", vec![writer()]),
            Err(Code::NotFound),
        ),
        ("supported", validate(&id, vec![writer()]), Ok(true)),
        (
            "unsupported",
            validate(&id, vec![writer(), block]),
            Ok(false),
        ),
    ] {
        let got = controller.validate_volume_capabilities(request).await;
        let got = got
            .map(|answer| answer.get_ref().supported)
            .map_err(|status| status.code());
        assert_eq!(got, want, "ValidateVolumeCapabilities: {what}");
    }
    let list = |max_entries, token: &str| v0::ListVolumesRequest {
        max_entries,
        starting_token: token.to_owned(),
    };
    for (what, request, want) in [
        ("all", list(0, ""), Ok(2)),
        ("a page", list(1, ""), Ok(1)),
        ("a bad token", list(0, "invalid-token"), Err(Code::Aborted)),
        ("a negative page", list(-1, ""), Err(Code::InvalidArgument)),
    ] {
        let got = controller.list_volumes(request).await;
        let got = got
            .map(|answer| answer.get_ref().entries.len())
            .map_err(|status| status.code());
        assert_eq!(got, want, "ListVolumes: {what}");
    }
    let capacity = controller
        .get_capacity(v0::GetCapacityRequest::default())
        .await
        .unwrap()
        .into_inner();
    assert!(capacity.available_capacity > 0 && capacity.available_capacity < 64 << 30);
    for (what, id, want) in [
        ("no id", "", Code::InvalidArgument),
        ("no such volume", "nonesuch", Code::Ok),
        ("there", id.as_str(), Code::Ok),
        ("again", id.as_str(), Code::Ok),
    ] {
        let request = v0::DeleteVolumeRequest {
            volume_id: id.to_owned(),
            ..Default::default()
        };
        assert_eq!(
            code(controller.delete_volume(request).await),
            want,
            "DeleteVolume: {what}"
        );
    }
    // What v0 does not have here is UNIMPLEMENTED, as the capabilities say.
    let request = v0::ControllerPublishVolumeRequest::default();
    assert_eq!(
        code(controller.controller_publish_volume(request).await),
        Code::Unimplemented
    );
    let request = v0::CreateSnapshotRequest::default();
    assert_eq!(
        code(controller.create_snapshot(request).await),
        Code::Unimplemented
    );
}

#[tokio::test]
async fn v0_node_table() {
    let mut rig = Rig::new(Mode::V0, whatever_works());
    let plugin = rig.start().await;
    let mut node = NodeClient::new(plugin.channel.clone());
    let id = created(&plugin, "a").await;
    let (staging, target) = (rig.make_dir("staging"), rig.make_dir("target"));

    let info = node
        .node_get_info(v0::NodeGetInfoRequest {})
        .await
        .unwrap()
        .into_inner();
    let given = node
        .node_get_id(v0::NodeGetIdRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(
        (info.node_id.as_str(), given.node_id.as_str()),
        ("node-1", "node-1")
    );

    let stage = |id: &str, path: &str, capability| v0::NodeStageVolumeRequest {
        volume_id: id.to_owned(),
        staging_target_path: path.to_owned(),
        volume_capability: capability,
        ..Default::default()
    };
    for (what, request, want) in [
        (
            "no id",
            stage("", &staging, Some(writer())),
            Code::InvalidArgument,
        ),
        (
            "no path",
            stage(&id, "", Some(writer())),
            Code::InvalidArgument,
        ),
        (
            "no capability",
            stage(&id, &staging, None),
            Code::InvalidArgument,
        ),
        (
            "no such volume",
            stage("nonesuch", &staging, Some(writer())),
            Code::NotFound,
        ),
        ("there", stage(&id, &staging, Some(writer())), Code::Ok),
        ("again", stage(&id, &staging, Some(writer())), Code::Ok),
    ] {
        assert_eq!(
            code(node.node_stage_volume(request).await),
            want,
            "NodeStageVolume: {what}"
        );
    }
    let no_capability = v0::NodePublishVolumeRequest {
        volume_capability: None,
        ..publication(&id, &staging, &target)
    };
    for (what, request, want) in [
        (
            "no id",
            publication("", &staging, &target),
            Code::InvalidArgument,
        ),
        (
            "no target",
            publication(&id, &staging, ""),
            Code::InvalidArgument,
        ),
        (
            "no staging path",
            publication(&id, "", &target),
            Code::FailedPrecondition,
        ),
        ("no capability", no_capability, Code::InvalidArgument),
        (
            "no such volume",
            publication("nonesuch", &staging, &target),
            Code::NotFound,
        ),
        ("there", publication(&id, &staging, &target), Code::Ok),
        ("again", publication(&id, &staging, &target), Code::Ok),
    ] {
        assert_eq!(
            code(node.node_publish_volume(request).await),
            want,
            "NodePublishVolume: {what}"
        );
    }
    std::fs::write(rig.path("target/file"), "text").unwrap();
    let in_use = v0::DeleteVolumeRequest {
        volume_id: id.clone(),
        ..Default::default()
    };
    let mut controller = ControllerClient::new(plugin.channel.clone());
    assert_eq!(
        code(controller.delete_volume(in_use.clone()).await),
        Code::FailedPrecondition
    );

    for (what, id, path, want) in [
        ("no id", "", target.as_str(), Code::InvalidArgument),
        ("no path", id.as_str(), "", Code::InvalidArgument),
        (
            "no such volume",
            "nonesuch",
            target.as_str(),
            Code::NotFound,
        ),
        ("there", id.as_str(), target.as_str(), Code::Ok),
        ("again", id.as_str(), target.as_str(), Code::Ok),
    ] {
        assert_eq!(
            code(unpublish(&plugin, id, path).await),
            want,
            "NodeUnpublishVolume: {what}"
        );
    }
    assert!(rig.path("target").is_dir() && !rig.path("target/file").exists());
    for (what, id, path, want) in [
        ("no id", "", staging.as_str(), Code::InvalidArgument),
        ("no path", id.as_str(), "", Code::InvalidArgument),
        (
            "no such volume",
            "nonesuch",
            staging.as_str(),
            Code::NotFound,
        ),
        ("there", id.as_str(), staging.as_str(), Code::Ok),
        ("again", id.as_str(), staging.as_str(), Code::Ok),
    ] {
        let request = v0::NodeUnstageVolumeRequest {
            volume_id: id.to_owned(),
            staging_target_path: path.to_owned(),
        };
        assert_eq!(
            code(node.node_unstage_volume(request).await),
            want,
            "NodeUnstageVolume: {what}"
        );
    }
    controller.delete_volume(in_use).await.unwrap();
}
