//! The calls in CSI v1.

use anyhow::Result;
use longshore_csi_api::v1 as csi;

use super::{ANSWER_MAX, Capability, Create, Pairs, Usage, Use, VolumeClient, VolumeInfo};

fn capability(capability: Capability) -> csi::VolumeCapability {
    use csi::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
    csi::VolumeCapability {
        access_mode: Some(AccessMode {
            mode: capability.access_mode.number(),
        }),
        access_type: Some(if capability.block {
            AccessType::Block(BlockVolume {})
        } else {
            AccessType::Mount(MountVolume {
                fs_type: capability.fs_type,
                mount_flags: capability.mount_flags,
                ..Default::default()
            })
        }),
    }
}

fn info(volume: csi::Volume) -> VolumeInfo {
    VolumeInfo {
        id: volume.volume_id,
        capacity_bytes: volume.capacity_bytes,
        context: volume.volume_context,
    }
}

impl VolumeClient {
    fn controller_v1(&self) -> csi::controller_client::ControllerClient<super::Channel> {
        csi::controller_client::ControllerClient::new(self.channel.clone())
            .max_decoding_message_size(ANSWER_MAX)
    }

    fn node_v1(&self) -> csi::node_client::NodeClient<super::Channel> {
        csi::node_client::NodeClient::new(self.channel.clone())
            .max_decoding_message_size(ANSWER_MAX)
    }

    pub(super) async fn create_v1(&self, create: Create) -> Result<Option<VolumeInfo>> {
        let request = csi::CreateVolumeRequest {
            name: create.name,
            capacity_range: (create.required_bytes > 0 || create.limit_bytes > 0).then_some(
                csi::CapacityRange {
                    required_bytes: create.required_bytes,
                    limit_bytes: create.limit_bytes,
                },
            ),
            volume_capabilities: vec![capability(create.capability)],
            parameters: create.parameters,
            secrets: create.secrets,
            ..Default::default()
        };
        let answer = self
            .call("CreateVolume", self.controller_v1().create_volume(request))
            .await?;
        Ok(answer.volume.map(info))
    }

    pub(super) async fn delete_v1(&self, volume_id: String, secrets: Pairs) -> Result<()> {
        let request = csi::DeleteVolumeRequest { volume_id, secrets };
        self.call("DeleteVolume", self.controller_v1().delete_volume(request))
            .await?;
        Ok(())
    }

    pub(super) async fn list_v1(
        &self,
        starting_token: String,
    ) -> Result<(Vec<VolumeInfo>, String)> {
        let request = csi::ListVolumesRequest {
            starting_token,
            ..Default::default()
        };
        let answer = self
            .call("ListVolumes", self.controller_v1().list_volumes(request))
            .await?;
        let volumes = answer
            .entries
            .into_iter()
            .filter_map(|entry| entry.volume)
            .map(info);
        Ok((volumes.collect(), answer.next_token))
    }

    pub(super) async fn stage_v1(&self, stage: Use) -> Result<()> {
        let request = csi::NodeStageVolumeRequest {
            volume_id: stage.volume_id,
            publish_context: stage.publish_context,
            staging_target_path: stage.staging_path,
            volume_capability: Some(capability(stage.capability)),
            secrets: stage.secrets,
            volume_context: stage.context,
        };
        self.call("NodeStageVolume", self.node_v1().node_stage_volume(request))
            .await?;
        Ok(())
    }

    pub(super) async fn unstage_v1(&self, volume_id: String, staging_path: String) -> Result<()> {
        let request = csi::NodeUnstageVolumeRequest {
            volume_id,
            staging_target_path: staging_path,
        };
        self.call(
            "NodeUnstageVolume",
            self.node_v1().node_unstage_volume(request),
        )
        .await?;
        Ok(())
    }

    pub(super) async fn publish_v1(&self, publish: Use) -> Result<()> {
        let request = csi::NodePublishVolumeRequest {
            volume_id: publish.volume_id,
            publish_context: publish.publish_context,
            staging_target_path: publish.staging_path,
            target_path: publish.target_path,
            volume_capability: Some(capability(publish.capability)),
            readonly: publish.readonly,
            secrets: publish.secrets,
            volume_context: publish.context,
        };
        self.call(
            "NodePublishVolume",
            self.node_v1().node_publish_volume(request),
        )
        .await?;
        Ok(())
    }

    pub(super) async fn unpublish_v1(&self, volume_id: String, target_path: String) -> Result<()> {
        let request = csi::NodeUnpublishVolumeRequest {
            volume_id,
            target_path,
        };
        self.call(
            "NodeUnpublishVolume",
            self.node_v1().node_unpublish_volume(request),
        )
        .await?;
        Ok(())
    }

    pub(super) async fn stats_v1(&self, volume_id: String, path: String) -> Result<Vec<Usage>> {
        let request = csi::NodeGetVolumeStatsRequest {
            volume_id,
            volume_path: path,
            ..Default::default()
        };
        let answer = self
            .call(
                "NodeGetVolumeStats",
                self.node_v1().node_get_volume_stats(request),
            )
            .await?;
        let usage = answer.usage.into_iter().map(|usage| Usage {
            unit: match usage.unit() {
                csi::volume_usage::Unit::Bytes => "bytes",
                csi::volume_usage::Unit::Inodes => "inodes",
                csi::volume_usage::Unit::Unknown => "unknown",
            },
            available: usage.available,
            total: usage.total,
            used: usage.used,
        });
        Ok(usage.collect())
    }
}
