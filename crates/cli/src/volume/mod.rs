//! One volume RPC at a time against a driver, whichever CSI version it speaks.

mod v0;
mod v1;

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use longshore_csi_probe::ApiVersion;
use serde::Serialize;
use tokio::time::{Instant, timeout_at};
use tonic::transport::Channel;

/// The largest answer of a driver that is decoded, in bytes.
const ANSWER_MAX: usize = 8 * 1024 * 1024;

/// The most volumes that `list` gathers.
const LIST_MAX: usize = 100_000;

type Pairs = BTreeMap<String, String>;

/// A driver that has been probed.
#[derive(Debug, Clone)]
pub(crate) struct VolumeClient {
    channel: Channel,
    version: ApiVersion,
    ends: Instant,
}

/// A volume as a driver describes it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct VolumeInfo {
    pub(crate) id: String,
    pub(crate) capacity_bytes: i64,
    pub(crate) context: Pairs,
}

/// How a volume is going to be used.
#[derive(Debug, Clone)]
pub(crate) struct Capability {
    /// A block device instead of a mounted file system.
    pub(crate) block: bool,
    pub(crate) fs_type: String,
    pub(crate) mount_flags: Vec<String>,
    pub(crate) access_mode: AccessMode,
}

impl Default for Capability {
    fn default() -> Self {
        Self {
            block: false,
            fs_type: String::new(),
            mount_flags: Vec::new(),
            access_mode: AccessMode::SingleNodeWriter,
        }
    }
}

/// Who may use a volume at once; the values that CSI v0 and v1 share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum AccessMode {
    SingleNodeWriter,
    SingleNodeReaderOnly,
    MultiNodeReaderOnly,
    MultiNodeSingleWriter,
    MultiNodeMultiWriter,
}

impl AccessMode {
    /// The number, the same in both versions.
    fn number(self) -> i32 {
        match self {
            Self::SingleNodeWriter => 1,
            Self::SingleNodeReaderOnly => 2,
            Self::MultiNodeReaderOnly => 3,
            Self::MultiNodeSingleWriter => 4,
            Self::MultiNodeMultiWriter => 5,
        }
    }
}

/// CreateVolume.
#[derive(Debug, Clone, Default)]
pub(crate) struct Create {
    pub(crate) name: String,
    pub(crate) required_bytes: i64,
    pub(crate) limit_bytes: i64,
    pub(crate) capability: Capability,
    pub(crate) parameters: Pairs,
    pub(crate) secrets: Pairs,
}

/// NodeStageVolume and NodePublishVolume.
#[derive(Debug, Clone, Default)]
pub(crate) struct Use {
    pub(crate) volume_id: String,
    /// For publish: empty when the volume was not staged.
    pub(crate) staging_path: String,
    /// For publish alone.
    pub(crate) target_path: String,
    pub(crate) readonly: bool,
    pub(crate) capability: Capability,
    pub(crate) context: Pairs,
    pub(crate) publish_context: Pairs,
    pub(crate) secrets: Pairs,
}

/// One line of NodeGetVolumeStats.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Usage {
    pub(crate) unit: &'static str,
    pub(crate) available: i64,
    pub(crate) total: i64,
    pub(crate) used: i64,
}

impl VolumeClient {
    /// A client on an answering driver, whose calls have ended at `ends`.
    pub(crate) fn new(channel: Channel, version: ApiVersion, ends: Instant) -> Self {
        Self {
            channel,
            version,
            ends,
        }
    }

    async fn call<T>(
        &self,
        rpc: &str,
        future: impl Future<Output = Result<tonic::Response<T>, tonic::Status>>,
    ) -> Result<T> {
        match timeout_at(self.ends, future).await {
            Ok(Ok(response)) => Ok(response.into_inner()),
            Ok(Err(status)) => {
                bail!(
                    "{rpc} was answered with {:?}: {}",
                    status.code(),
                    one_line(status.message())
                )
            }
            Err(_) => bail!("{rpc} was not answered in time; give it longer with --deadline"),
        }
    }

    pub(crate) async fn create(&self, create: Create) -> Result<VolumeInfo> {
        let volume = match self.version {
            ApiVersion::V0 => self.create_v0(create).await?,
            ApiVersion::V1 => self.create_v1(create).await?,
        };
        volume.context("CreateVolume was answered without a volume")
    }

    pub(crate) async fn delete(&self, volume_id: String, secrets: Pairs) -> Result<()> {
        match self.version {
            ApiVersion::V0 => self.delete_v0(volume_id, secrets).await,
            ApiVersion::V1 => self.delete_v1(volume_id, secrets).await,
        }
    }

    /// Every volume, page by page.
    pub(crate) async fn list(&self) -> Result<Vec<VolumeInfo>> {
        let mut volumes = Vec::new();
        let mut token = String::new();
        loop {
            let (page, next) = match self.version {
                ApiVersion::V0 => self.list_v0(token.clone()).await?,
                ApiVersion::V1 => self.list_v1(token.clone()).await?,
            };
            let empty = page.is_empty();
            volumes.extend(page);
            if next.is_empty() {
                return Ok(volumes);
            }
            if empty || next == token || volumes.len() > LIST_MAX {
                bail!(
                    "ListVolumes does not come to an end after {} volumes",
                    volumes.len()
                );
            }
            token = next;
        }
    }

    pub(crate) async fn stage(&self, stage: Use) -> Result<()> {
        match self.version {
            ApiVersion::V0 => self.stage_v0(stage).await,
            ApiVersion::V1 => self.stage_v1(stage).await,
        }
    }

    pub(crate) async fn unstage(&self, volume_id: String, staging_path: String) -> Result<()> {
        match self.version {
            ApiVersion::V0 => self.unstage_v0(volume_id, staging_path).await,
            ApiVersion::V1 => self.unstage_v1(volume_id, staging_path).await,
        }
    }

    pub(crate) async fn publish(&self, publish: Use) -> Result<()> {
        match self.version {
            ApiVersion::V0 => self.publish_v0(publish).await,
            ApiVersion::V1 => self.publish_v1(publish).await,
        }
    }

    pub(crate) async fn unpublish(&self, volume_id: String, target_path: String) -> Result<()> {
        match self.version {
            ApiVersion::V0 => self.unpublish_v0(volume_id, target_path).await,
            ApiVersion::V1 => self.unpublish_v1(volume_id, target_path).await,
        }
    }

    pub(crate) async fn stats(&self, volume_id: String, path: String) -> Result<Vec<Usage>> {
        match self.version {
            ApiVersion::V0 => bail!("the driver speaks CSI v0, which has no NodeGetVolumeStats"),
            ApiVersion::V1 => self.stats_v1(volume_id, path).await,
        }
    }
}

/// A driver's words on one line of bounded length.
fn one_line(text: &str) -> String {
    text.split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .take(1_000)
        .collect()
}
