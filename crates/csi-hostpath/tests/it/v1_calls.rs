//! v1, call by call, where csi-sanity does not look.

use longshore_csi_api::v1::{
    self,
    controller_client::ControllerClient,
    node_client::NodeClient,
    volume_capability::{
        AccessMode, AccessType, BlockVolume, MountVolume, access_mode::Mode as Access,
    },
};
use longshore_csi_hostpath::{Mode, PublishBy};
use longshore_csi_probe::Probed;
use tonic::{Code, Status};

use crate::{Rig, whatever_works};

pub(crate) fn capability(mode: Access, flags: &[&str]) -> v1::VolumeCapability {
    let mount_flags = flags.iter().map(|&flag| flag.to_owned()).collect();
    v1::VolumeCapability {
        access_mode: Some(AccessMode { mode: mode.into() }),
        access_type: Some(AccessType::Mount(MountVolume {
            mount_flags,
            ..Default::default()
        })),
    }
}

fn writer() -> v1::VolumeCapability {
    capability(Access::SingleNodeWriter, &[])
}

async fn create(plugin: &Probed, request: v1::CreateVolumeRequest) -> Result<v1::Volume, Status> {
    let answer = ControllerClient::new(plugin.channel.clone())
        .create_volume(request)
        .await?;
    Ok(answer.into_inner().volume.unwrap())
}

fn request(name: &str, required_bytes: i64, limit_bytes: i64) -> v1::CreateVolumeRequest {
    v1::CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: Some(v1::CapacityRange {
            required_bytes,
            limit_bytes,
        }),
        volume_capabilities: vec![writer()],
        ..Default::default()
    }
}

pub(crate) async fn created(plugin: &Probed, name: &str) -> String {
    create(plugin, request(name, 1 << 20, 0))
        .await
        .unwrap()
        .volume_id
}

pub(crate) async fn stage(plugin: &Probed, id: &str, path: &str) -> Result<(), Status> {
    let request = v1::NodeStageVolumeRequest {
        volume_id: id.to_owned(),
        staging_target_path: path.to_owned(),
        volume_capability: Some(writer()),
        ..Default::default()
    };
    NodeClient::new(plugin.channel.clone())
        .node_stage_volume(request)
        .await
        .map(drop)
}

pub(crate) async fn unstage(plugin: &Probed, id: &str, path: &str) -> Result<(), Status> {
    let request = v1::NodeUnstageVolumeRequest {
        volume_id: id.to_owned(),
        staging_target_path: path.to_owned(),
    };
    NodeClient::new(plugin.channel.clone())
        .node_unstage_volume(request)
        .await
        .map(drop)
}

pub(crate) async fn publish(
    plugin: &Probed,
    id: &str,
    staging: &str,
    path: &str,
    readonly: bool,
) -> Result<(), Status> {
    let request = v1::NodePublishVolumeRequest {
        volume_id: id.to_owned(),
        staging_target_path: staging.to_owned(),
        target_path: path.to_owned(),
        volume_capability: Some(writer()),
        readonly,
        ..Default::default()
    };
    NodeClient::new(plugin.channel.clone())
        .node_publish_volume(request)
        .await
        .map(drop)
}

pub(crate) async fn unpublish(plugin: &Probed, id: &str, path: &str) -> Result<(), Status> {
    let request = v1::NodeUnpublishVolumeRequest {
        volume_id: id.to_owned(),
        target_path: path.to_owned(),
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
async fn creating_is_idempotent_and_what_cannot_be_had_is_refused() {
    let mut rig = Rig::new(Mode::V1, whatever_works());
    rig.options.capacity = Some(10_000);
    let plugin = rig.start().await;
    let block = v1::VolumeCapability {
        access_type: Some(AccessType::Block(BlockVolume {})),
        ..writer()
    };
    let with = |capability| v1::CreateVolumeRequest {
        volume_capabilities: vec![capability],
        ..request("x", 1, 0)
    };
    let topology = |node: &str| {
        let segments = [(
            "topology.hostpath.csi.longshore/node".to_owned(),
            node.to_owned(),
        )];
        let requisite = vec![v1::Topology {
            segments: segments.into(),
        }];
        let accessibility_requirements = Some(v1::TopologyRequirement {
            requisite,
            preferred: vec![],
        });
        v1::CreateVolumeRequest {
            accessibility_requirements,
            ..request("topo", 1, 0)
        }
    };
    let clone = v1::CreateVolumeRequest {
        volume_content_source: Some(v1::VolumeContentSource::default()),
        ..request("clone", 1, 0)
    };
    for (what, request, want) in [
        ("new", request("a", 4000, 0), Code::Ok),
        ("again", request("a", 4000, 0), Code::Ok),
        (
            "again, a range that it is in",
            request("a", 1000, 5000),
            Code::Ok,
        ),
        ("again, larger", request("a", 5000, 0), Code::AlreadyExists),
        ("again, smaller", request("a", 0, 3000), Code::AlreadyExists),
        ("more than is left", request("b", 6001, 0), Code::OutOfRange),
        ("all that is left", request("b", 6000, 0), Code::Ok),
        ("an empty range", request("c", 2, 1), Code::InvalidArgument),
        (
            "a negative size",
            request("c", -1, 0),
            Code::InvalidArgument,
        ),
        (
            "a name with a newline",
            request("c\n", 0, 0),
            Code::InvalidArgument,
        ),
        (
            "a name that looks like a path",
            request("../../etc", 0, 0),
            Code::Ok,
        ),
        (
            "129 bytes of name",
            request(&"n".repeat(129), 0, 0),
            Code::InvalidArgument,
        ),
        ("a block device", with(block), Code::InvalidArgument),
        (
            "many nodes",
            with(capability(Access::MultiNodeMultiWriter, &[])),
            Code::InvalidArgument,
        ),
        (
            "no mode",
            with(capability(Access::Unknown, &[])),
            Code::InvalidArgument,
        ),
        (
            "a mount flag",
            with(capability(Access::SingleNodeWriter, &["noatime"])),
            Code::InvalidArgument,
        ),
        ("another node", topology("node-2"), Code::ResourceExhausted),
        ("a source", clone, Code::InvalidArgument),
    ] {
        assert_eq!(code(create(&plugin, request).await), want, "{what}");
    }
    rig.options.capacity = None;
}

#[tokio::test]
async fn a_volume_is_listed_expanded_validated_and_measured() {
    let mut rig = Rig::new(Mode::V1, whatever_works());
    let plugin = rig.start().await;
    let mut controller = ControllerClient::new(plugin.channel.clone());
    let mut ids = vec![];
    for name in ["a", "b", "c"] {
        ids.push(created(&plugin, name).await);
    }
    ids.sort();
    let mut listed = vec![];
    let mut starting_token = String::new();
    loop {
        let request = v1::ListVolumesRequest {
            max_entries: 2,
            starting_token,
        };
        let page = controller.list_volumes(request).await.unwrap().into_inner();
        assert!(page.entries.len() <= 2);
        listed.extend(page.entries.into_iter().map(|entry| entry.volume.unwrap()));
        starting_token = page.next_token;
        if starting_token.is_empty() {
            break;
        }
    }
    assert_eq!(
        listed
            .iter()
            .map(|v| v.volume_id.clone())
            .collect::<Vec<_>>(),
        ids
    );
    assert!(
        listed
            .iter()
            .all(|v| v.volume_context.contains_key("published-by"))
    );

    let expand = |required_bytes, limit_bytes| v1::ControllerExpandVolumeRequest {
        volume_id: ids[0].clone(),
        capacity_range: Some(v1::CapacityRange {
            required_bytes,
            limit_bytes,
        }),
        ..Default::default()
    };
    let mut expanded = async |request| controller.controller_expand_volume(request).await;
    assert_eq!(
        expanded(expand(2 << 20, 0))
            .await
            .unwrap()
            .into_inner()
            .capacity_bytes,
        2 << 20
    );
    assert_eq!(
        expanded(expand(1 << 20, 0))
            .await
            .unwrap()
            .into_inner()
            .capacity_bytes,
        2 << 20
    );
    assert_eq!(code(expanded(expand(0, 1 << 20)).await), Code::OutOfRange);
    assert_eq!(code(expanded(expand(i64::MAX, 0)).await), Code::OutOfRange);

    let staging = rig.make_dir("staging");
    let target = rig.text("target");
    stage(&plugin, &ids[0], &staging).await.unwrap();
    publish(&plugin, &ids[0], &staging, &target, false)
        .await
        .unwrap();
    let mut node = NodeClient::new(plugin.channel.clone());
    for (path, want) in [
        (&target, Code::Ok),
        (&staging, Code::Ok),
        (&rig.text("state"), Code::NotFound),
    ] {
        let request = v1::NodeGetVolumeStatsRequest {
            volume_id: ids[0].clone(),
            volume_path: path.clone(),
            ..Default::default()
        };
        let stats = node.node_get_volume_stats(request).await;
        if let Ok(stats) = &stats {
            let usage = &stats.get_ref().usage;
            assert_eq!(usage.len(), 2);
            assert!(usage[0].total > 0 && usage[0].available <= usage[0].total);
        }
        assert_eq!(code(stats), want, "{path}");
    }
    unpublish(&plugin, &ids[0], &target).await.unwrap();
    unstage(&plugin, &ids[0], &staging).await.unwrap();

    let validate = |capability| v1::ValidateVolumeCapabilitiesRequest {
        volume_id: ids[0].clone(),
        volume_capabilities: vec![capability],
        ..Default::default()
    };
    let good = controller
        .validate_volume_capabilities(validate(writer()))
        .await
        .unwrap()
        .into_inner();
    assert!(good.confirmed.is_some());
    let shared = validate(capability(Access::MultiNodeReaderOnly, &[]));
    let bad = controller
        .validate_volume_capabilities(shared)
        .await
        .unwrap()
        .into_inner();
    assert!(bad.confirmed.is_none() && !bad.message.is_empty());
}

#[tokio::test]
async fn hostile_ids_and_paths_name_nothing() {
    let mut rig = Rig::new(Mode::V1, PublishBy::SymbolicLink);
    let plugin = rig.start().await;
    let id = created(&plugin, "a").await;
    let staging = rig.make_dir("staging");
    let target = rig.text("target");
    let hostile = [
        "..",
        "../..",
        "/etc",
        "vol-../../etc",
        ".new-vol",
        "vol-\u{7f}",
        &"x".repeat(5000),
    ];
    for bad in hostile {
        assert_eq!(
            code(publish(&plugin, bad, &staging, &target, false).await),
            Code::NotFound,
            "{bad:?}"
        );
        assert_eq!(
            code(unpublish(&plugin, bad, &target).await),
            Code::NotFound,
            "{bad:?}"
        );
        assert_eq!(
            code(stage(&plugin, bad, &staging).await),
            Code::NotFound,
            "{bad:?}"
        );
        let request = v1::DeleteVolumeRequest {
            volume_id: bad.to_owned(),
            ..Default::default()
        };
        let deleted = ControllerClient::new(plugin.channel.clone())
            .delete_volume(request)
            .await;
        assert_eq!(code(deleted), Code::Ok, "{bad:?}");
    }
    for bad in ["relative", "/a/../b", "./x"] {
        assert_eq!(
            code(publish(&plugin, &id, &staging, bad, false).await),
            Code::InvalidArgument,
            "{bad}"
        );
        assert_eq!(
            code(unpublish(&plugin, &id, bad).await),
            Code::InvalidArgument,
            "{bad}"
        );
    }
    assert!(rig.path("state/volumes").join(&id).exists());
}
