//! The calls in CSI v0.

use anyhow::Result;
use longshore_csi_api::v0 as csi;

use super::{ANSWER_MAX, Capability, Create, Pairs, Use, VolumeClient, VolumeInfo};

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
            })
        }),
    }
}

fn info(volume: csi::Volume) -> VolumeInfo {
    VolumeInfo {
        id: volume.id,
        capacity_bytes: volume.capacity_bytes,
        context: volume.attributes,
    }
}

impl VolumeClient {
    fn controller_v0(&self) -> csi::controller_client::ControllerClient<super::Channel> {
        csi::controller_client::ControllerClient::new(self.channel.clone())
            .max_decoding_message_size(ANSWER_MAX)
    }

    fn node_v0(&self) -> csi::node_client::NodeClient<super::Channel> {
        csi::node_client::NodeClient::new(self.channel.clone())
            .max_decoding_message_size(ANSWER_MAX)
    }

    pub(super) async fn create_v0(&self, create: Create) -> Result<Option<VolumeInfo>> {
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
            controller_create_secrets: create.secrets,
            ..Default::default()
        };
        let answer = self
            .call("CreateVolume", self.controller_v0().create_volume(request))
            .await?;
        Ok(answer.volume.map(info))
    }

    pub(super) async fn delete_v0(&self, volume_id: String, secrets: Pairs) -> Result<()> {
        let request = csi::DeleteVolumeRequest {
            volume_id,
            controller_delete_secrets: secrets,
        };
        self.call("DeleteVolume", self.controller_v0().delete_volume(request))
            .await?;
        Ok(())
    }

    pub(super) async fn list_v0(
        &self,
        starting_token: String,
    ) -> Result<(Vec<VolumeInfo>, String)> {
        let request = csi::ListVolumesRequest {
            starting_token,
            ..Default::default()
        };
        let answer = self
            .call("ListVolumes", self.controller_v0().list_volumes(request))
            .await?;
        let volumes = answer
            .entries
            .into_iter()
            .filter_map(|entry| entry.volume)
            .map(info);
        Ok((volumes.collect(), answer.next_token))
    }

    pub(super) async fn stage_v0(&self, stage: Use) -> Result<()> {
        let request = csi::NodeStageVolumeRequest {
            volume_id: stage.volume_id,
            publish_info: stage.publish_context,
            staging_target_path: stage.staging_path,
            volume_capability: Some(capability(stage.capability)),
            node_stage_secrets: stage.secrets,
            volume_attributes: stage.context,
        };
        self.call("NodeStageVolume", self.node_v0().node_stage_volume(request))
            .await?;
        Ok(())
    }

    pub(super) async fn unstage_v0(&self, volume_id: String, staging_path: String) -> Result<()> {
        let request = csi::NodeUnstageVolumeRequest {
            volume_id,
            staging_target_path: staging_path,
        };
        self.call(
            "NodeUnstageVolume",
            self.node_v0().node_unstage_volume(request),
        )
        .await?;
        Ok(())
    }

    pub(super) async fn publish_v0(&self, publish: Use) -> Result<()> {
        let request = csi::NodePublishVolumeRequest {
            volume_id: publish.volume_id,
            publish_info: publish.publish_context,
            staging_target_path: publish.staging_path,
            target_path: publish.target_path,
            volume_capability: Some(capability(publish.capability)),
            readonly: publish.readonly,
            node_publish_secrets: publish.secrets,
            volume_attributes: publish.context,
        };
        self.call(
            "NodePublishVolume",
            self.node_v0().node_publish_volume(request),
        )
        .await?;
        Ok(())
    }

    pub(super) async fn unpublish_v0(&self, volume_id: String, target_path: String) -> Result<()> {
        let request = csi::NodeUnpublishVolumeRequest {
            volume_id,
            target_path,
        };
        self.call(
            "NodeUnpublishVolume",
            self.node_v0().node_unpublish_volume(request),
        )
        .await?;
        Ok(())
    }
}
