//! What a plugin says about itself.
//!
//! ```text
//!   round 1 (at once):  GetPluginInfo   GetPluginCapabilities   ControllerGetCapabilities?   NodeGetCapabilities?
//!                       NodeGetInfo? ── UNIMPLEMENTED (v0.2) ──► NodeGetId?
//! ```
//!
//! A call with a question mark may be UNIMPLEMENTED: that service is not offered at this endpoint.

use std::collections::{BTreeMap, BTreeSet};

use longshore_csi_api::{v0, v1};
use tokio::time::Instant;
use tonic::transport::Channel;

use crate::{ApiVersion, Endpoint, MAX_ANSWER_BYTES, ProbeError, Probed, call::Callee};

const INFO: &str = "GetPluginInfo";

/// What a plugin says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PluginDetails {
    /// The plugin's name, never empty.
    pub name: String,
    /// The vendor's own version; may be empty in v0.
    pub vendor_version: String,
    /// Whatever else the vendor wants to say.
    pub manifest: BTreeMap<String, String>,
    /// `CONTROLLER_SERVICE`, `VOLUME_ACCESSIBILITY_CONSTRAINTS`, `VOLUME_EXPANSION_ONLINE` …
    pub plugin_capabilities: BTreeSet<String>,
    /// `CREATE_DELETE_VOLUME` …; `None` when the endpoint offers no controller service.
    pub controller_capabilities: Option<BTreeSet<String>>,
    /// `STAGE_UNSTAGE_VOLUME` …; `None` when the endpoint offers no node service.
    pub node_capabilities: Option<BTreeSet<String>>,
    /// Who this node is for the plugin; `None` when the endpoint offers no node service.
    pub node: Option<NodeDetails>,
}

/// This node, as the plugin knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeDetails {
    /// The plugin's id of this node.
    pub id: String,
    /// How many volumes it can publish here; `None` is "as many as the caller likes".
    pub max_volumes: Option<u64>,
    /// Where this node is, by topology key.
    pub topology: BTreeMap<String, String>,
}

impl Probed {
    /// Asks the probed plugin about itself: see [`describe`].
    ///
    /// # Errors
    /// As [`describe`].
    pub async fn describe(&self, deadline: Instant) -> Result<PluginDetails, ProbeError> {
        describe(&self.endpoint, self.channel.clone(), self.version, deadline).await
    }

    /// Asks the probed plugin for its name alone: whether it is still the one that it was. Cancel safe.
    ///
    /// # Errors
    /// [`ProbeError::Rpc`], [`ProbeError::BadAnswer`] for an empty name, [`ProbeError::AnswerTooLarge`],
    /// [`ProbeError::TimedOut`].
    pub async fn name(&self, deadline: Instant) -> Result<String, ProbeError> {
        let callee = Callee {
            endpoint: &self.endpoint,
            version: self.version,
            deadline,
        };
        let channel = self.channel.clone();
        let name = match self.version {
            ApiVersion::V1 => {
                let mut identity = v1::identity_client::IdentityClient::new(channel)
                    .max_decoding_message_size(MAX_ANSWER_BYTES);
                let asked = identity.get_plugin_info(v1::GetPluginInfoRequest {});
                callee.call(INFO, asked).await?.name
            }
            ApiVersion::V0 => {
                let mut identity = v0::identity_client::IdentityClient::new(channel)
                    .max_decoding_message_size(MAX_ANSWER_BYTES);
                let asked = identity.get_plugin_info(v0::GetPluginInfoRequest {});
                callee.call(INFO, asked).await?.name
            }
        };
        callee.named(name)
    }
}

impl Callee<'_> {
    /// A plugin has a name.
    fn named(&self, name: String) -> Result<String, ProbeError> {
        if name.is_empty() {
            let problem = "without a name, which the specification requires";
            return Err(self.bad(INFO, problem));
        }
        Ok(name)
    }
}

/// Asks a plugin for its info, capabilities and node info, all at once over one connection.
///
/// Capabilities are named as in the specification; a number that it does not have is shown as `UNKNOWN(n)`. Cancel safe.
///
/// # Errors
/// [`ProbeError::Rpc`] (UNIMPLEMENTED counts as "this service is not offered here", except for GetPluginInfo),
/// [`ProbeError::BadAnswer`] for an empty name or node id, [`ProbeError::AnswerTooLarge`], [`ProbeError::TimedOut`].
pub async fn describe(
    endpoint: &Endpoint,
    channel: Channel,
    version: ApiVersion,
    deadline: Instant,
) -> Result<PluginDetails, ProbeError> {
    let callee = Callee {
        endpoint,
        version,
        deadline,
    };
    // Boxed: four calls at once make a future of several KiB.
    let mut details = match version {
        ApiVersion::V1 => Box::pin(describe_v1(callee, channel)).await?,
        ApiVersion::V0 => Box::pin(describe_v0(callee, channel)).await?,
    };
    details.name = callee.named(details.name)?;
    if details.node.as_ref().is_some_and(|node| node.id.is_empty()) {
        return Err(callee.bad(
            "NodeGetInfo",
            "without a node id, which the specification requires",
        ));
    }
    Ok(details)
}

/// The two versions have the same calls in different packages; only the topology of capabilities differs.
macro_rules! describe {
    ($name:ident, $csi:ident, $plugin_capability:path, $node:path) => {
        async fn $name(callee: Callee<'_>, channel: Channel) -> Result<PluginDetails, ProbeError> {
            use $csi::{
                controller_service_capability as controller_cap,
                node_service_capability as node_cap,
            };

            let identity = $csi::identity_client::IdentityClient::new(channel.clone())
                .max_decoding_message_size(MAX_ANSWER_BYTES);
            let controller = $csi::controller_client::ControllerClient::new(channel.clone())
                .max_decoding_message_size(MAX_ANSWER_BYTES);
            let node = $csi::node_client::NodeClient::new(channel)
                .max_decoding_message_size(MAX_ANSWER_BYTES);
            let (mut identity_2, mut node_2, mut identity, mut controller, mut node) =
                (identity.clone(), node.clone(), identity, controller, node);

            let (info, plugin, controller, node_capabilities, node) = tokio::try_join!(
                callee.call(
                    INFO,
                    identity.get_plugin_info($csi::GetPluginInfoRequest {})
                ),
                callee.call_optional(
                    "GetPluginCapabilities",
                    identity_2.get_plugin_capabilities($csi::GetPluginCapabilitiesRequest {}),
                ),
                callee.call_optional(
                    "ControllerGetCapabilities",
                    controller
                        .controller_get_capabilities($csi::ControllerGetCapabilitiesRequest {}),
                ),
                callee.call_optional(
                    "NodeGetCapabilities",
                    node.node_get_capabilities($csi::NodeGetCapabilitiesRequest {}),
                ),
                $node(callee, &mut node_2),
            )?;
            Ok(PluginDetails {
                name: info.name,
                vendor_version: info.vendor_version,
                manifest: info.manifest,
                plugin_capabilities: plugin
                    .into_iter()
                    .flat_map(|answer| answer.capabilities)
                    .filter_map($plugin_capability)
                    .collect(),
                controller_capabilities: controller.map(|answer| {
                    answer
                        .capabilities
                        .into_iter()
                        .filter_map(|capability| capability.r#type)
                        .map(|controller_cap::Type::Rpc(rpc)| {
                            name(
                                controller_cap::rpc::Type::try_from(rpc.r#type)
                                    .map(|t| t.as_str_name()),
                                rpc.r#type,
                            )
                        })
                        .collect()
                }),
                node_capabilities: node_capabilities.map(|answer| {
                    answer
                        .capabilities
                        .into_iter()
                        .filter_map(|capability| capability.r#type)
                        .map(|node_cap::Type::Rpc(rpc)| {
                            name(
                                node_cap::rpc::Type::try_from(rpc.r#type).map(|t| t.as_str_name()),
                                rpc.r#type,
                            )
                        })
                        .collect()
                }),
                node,
            })
        }
    };
}

describe!(describe_v1, v1, plugin_capability_v1, node_v1);
describe!(describe_v0, v0, plugin_capability_v0, node_v0);

async fn node_v1(
    callee: Callee<'_>,
    client: &mut v1::node_client::NodeClient<Channel>,
) -> Result<Option<NodeDetails>, ProbeError> {
    let asked = client.node_get_info(v1::NodeGetInfoRequest {});
    let info = callee.call_optional("NodeGetInfo", asked).await?;
    Ok(info.map(|info| NodeDetails {
        id: info.node_id,
        max_volumes: limit(info.max_volumes_per_node),
        topology: info
            .accessible_topology
            .map(|t| t.segments)
            .unwrap_or_default(),
    }))
}

/// 0.3 has `NodeGetInfo`, 0.2 only `NodeGetId`.
async fn node_v0(
    callee: Callee<'_>,
    client: &mut v0::node_client::NodeClient<Channel>,
) -> Result<Option<NodeDetails>, ProbeError> {
    let asked = client.node_get_info(v0::NodeGetInfoRequest {});
    if let Some(info) = callee.call_optional("NodeGetInfo", asked).await? {
        return Ok(Some(NodeDetails {
            id: info.node_id,
            max_volumes: limit(info.max_volumes_per_node),
            topology: info
                .accessible_topology
                .map(|t| t.segments)
                .unwrap_or_default(),
        }));
    }
    let asked = client.node_get_id(v0::NodeGetIdRequest {});
    let id = callee.call_optional("NodeGetId", asked).await?;
    Ok(id.map(|answer| NodeDetails {
        id: answer.node_id,
        ..NodeDetails::default()
    }))
}

fn plugin_capability_v1(capability: v1::PluginCapability) -> Option<String> {
    use v1::plugin_capability::{Type, service, volume_expansion};
    Some(match capability.r#type? {
        Type::Service(s) => name(
            service::Type::try_from(s.r#type).map(|t| t.as_str_name()),
            s.r#type,
        ),
        Type::VolumeExpansion(v) => format!(
            "VOLUME_EXPANSION_{}",
            name(
                volume_expansion::Type::try_from(v.r#type).map(|t| t.as_str_name()),
                v.r#type
            )
        ),
    })
}

fn plugin_capability_v0(capability: v0::PluginCapability) -> Option<String> {
    use v0::plugin_capability::{Type, service};
    let Type::Service(s) = capability.r#type?;
    Some(name(
        service::Type::try_from(s.r#type).map(|t| t.as_str_name()),
        s.r#type,
    ))
}

fn name<E>(known: Result<&'static str, E>, number: i32) -> String {
    known.map_or_else(|_| format!("UNKNOWN({number})"), str::to_owned)
}

/// 0 is "no limit" in the specification; a negative number is nonsense and taken for the same.
fn limit(max_volumes: i64) -> Option<u64> {
    u64::try_from(max_volumes).ok().filter(|n| *n > 0)
}
