//! The calls that both API versions have, under the same names in different packages.

/// Implements Identity, Controller and Node of package `$csi` for [`Plugin`](crate::serve::Plugin). The module that
/// calls it has `volume`, `entry`, `capacity`, `validated`, `plugin_capabilities`, `CONTROLLER` and `NODE` of that package in scope.
macro_rules! services {
    ($csi:ident, controller { $($controller:tt)* }, node { $($node:tt)* }) => {
        use std::collections::BTreeMap;

        use longshore_csi_api::$csi;
        use tonic::{Request, Response, Status, async_trait};

        use crate::{
            driver::{Capability, Driver, NAME, Range, Target},
            serve::Plugin,
        };

        type Answer<T> = Result<Response<T>, Status>;

        fn capability(given: &$csi::VolumeCapability) -> Capability {
            use $csi::volume_capability::{AccessType, access_mode::Mode};
            let mode = given.access_mode.as_ref().and_then(|m| Mode::try_from(m.mode).ok());
            let name = mode.map_or("", |mode| mode.as_str_name());
            let flags = match &given.access_type {
                Some(AccessType::Mount(mount)) => Some(mount.mount_flags.clone()),
                _ => None,
            };
            Capability {
                mount: flags.is_some(),
                flags: flags.unwrap_or_default(),
                single_node: name.starts_with("SINGLE_NODE_"),
                reader_only: name.ends_with("_READER_ONLY"),
            }
        }

        fn range(given: Option<$csi::CapacityRange>) -> Result<Range, Status> {
            given.map_or(Ok(Range::default()), |r| Range::new(r.required_bytes, r.limit_bytes))
        }

        fn topology(driver: &Driver) -> $csi::Topology {
            $csi::Topology { segments: driver.topology() }
        }

        fn bytes(count: u64) -> i64 {
            i64::try_from(count).unwrap_or(i64::MAX)
        }

        #[async_trait]
        impl $csi::identity_server::Identity for Plugin {
            async fn get_plugin_info(
                &self,
                _: Request<$csi::GetPluginInfoRequest>,
            ) -> Answer<$csi::GetPluginInfoResponse> {
                let manifest = self.run(|driver| Ok(driver.context())).await?;
                Ok(Response::new($csi::GetPluginInfoResponse {
                    name: NAME.to_owned(),
                    vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
                    manifest,
                }))
            }

            async fn get_plugin_capabilities(
                &self,
                _: Request<$csi::GetPluginCapabilitiesRequest>,
            ) -> Answer<$csi::GetPluginCapabilitiesResponse> {
                let capabilities = plugin_capabilities();
                Ok(Response::new($csi::GetPluginCapabilitiesResponse { capabilities }))
            }

            async fn probe(&self, _: Request<$csi::ProbeRequest>) -> Answer<$csi::ProbeResponse> {
                self.run(Driver::ready).await?;
                Ok(Response::new($csi::ProbeResponse { ready: Some(true) }))
            }
        }

        #[async_trait]
        impl $csi::controller_server::Controller for Plugin {
            async fn create_volume(
                &self,
                request: Request<$csi::CreateVolumeRequest>,
            ) -> Answer<$csi::CreateVolumeResponse> {
                let request = request.into_inner();
                if request.volume_content_source.is_some() {
                    return Err(Status::invalid_argument("volume content source: this driver makes empty volumes only"));
                }
                let range = range(request.capacity_range)?;
                let capabilities: Vec<_> = request.volume_capabilities.iter().map(capability).collect();
                let requisite: Vec<BTreeMap<_, _>> = request
                    .accessibility_requirements
                    .map(|topology| topology.requisite.into_iter().map(|t| t.segments).collect())
                    .unwrap_or_default();
                let name = request.name;
                self.run(move |driver| {
                    let made = driver.create(&name, range, &capabilities, &requisite)?;
                    let volume = Some(volume(driver, made));
                    Ok(Response::new($csi::CreateVolumeResponse { volume }))
                })
                .await
            }

            async fn delete_volume(
                &self,
                request: Request<$csi::DeleteVolumeRequest>,
            ) -> Answer<$csi::DeleteVolumeResponse> {
                let id = request.into_inner().volume_id;
                self.run(move |driver| driver.delete(&id)).await?;
                Ok(Response::new($csi::DeleteVolumeResponse {}))
            }

            async fn validate_volume_capabilities(
                &self,
                request: Request<$csi::ValidateVolumeCapabilitiesRequest>,
            ) -> Answer<$csi::ValidateVolumeCapabilitiesResponse> {
                let request = request.into_inner();
                self.run(move |driver| {
                    driver.volume(&request.volume_id)?;
                    if request.volume_capabilities.is_empty() {
                        return Err(Status::invalid_argument("volume capabilities: they are missing"));
                    }
                    let capabilities: Vec<_> = request.volume_capabilities.iter().map(capability).collect();
                    let unsupported = driver.unsupported(&capabilities);
                    Ok(Response::new(validated(request, unsupported)))
                })
                .await
            }

            async fn list_volumes(
                &self,
                request: Request<$csi::ListVolumesRequest>,
            ) -> Answer<$csi::ListVolumesResponse> {
                let request = request.into_inner();
                self.run(move |driver| {
                    let page = driver.list(request.max_entries, &request.starting_token)?;
                    let entries = page
                        .volumes
                        .into_iter()
                        .map(|listed| entry(volume(driver, listed)))
                        .collect();
                    Ok(Response::new($csi::ListVolumesResponse { entries, next_token: page.next }))
                })
                .await
            }

            async fn get_capacity(
                &self,
                request: Request<$csi::GetCapacityRequest>,
            ) -> Answer<$csi::GetCapacityResponse> {
                let request = request.into_inner();
                let capabilities: Vec<_> = request.volume_capabilities.iter().map(capability).collect();
                self.run(move |driver| {
                    let available = match driver.unsupported(&capabilities) {
                        Some(_) => 0,
                        None => driver.available()?,
                    };
                    Ok(Response::new(capacity(bytes(available))))
                })
                .await
            }

            async fn controller_get_capabilities(
                &self,
                _: Request<$csi::ControllerGetCapabilitiesRequest>,
            ) -> Answer<$csi::ControllerGetCapabilitiesResponse> {
                use $csi::controller_service_capability::{Rpc, Type};
                let capabilities = CONTROLLER
                    .iter()
                    .map(|rpc| $csi::ControllerServiceCapability {
                        r#type: Some(Type::Rpc(Rpc { r#type: (*rpc).into() })),
                    })
                    .collect();
                Ok(Response::new($csi::ControllerGetCapabilitiesResponse { capabilities }))
            }

            $($controller)*
        }

        #[async_trait]
        impl $csi::node_server::Node for Plugin {
            async fn node_stage_volume(
                &self,
                request: Request<$csi::NodeStageVolumeRequest>,
            ) -> Answer<$csi::NodeStageVolumeResponse> {
                let request = request.into_inner();
                let target = Target {
                    id: request.volume_id,
                    path: request.staging_target_path,
                    capability: request.volume_capability.as_ref().map(capability),
                    readonly: false,
                };
                self.run(move |driver| driver.stage(&target)).await?;
                Ok(Response::new($csi::NodeStageVolumeResponse {}))
            }

            async fn node_unstage_volume(
                &self,
                request: Request<$csi::NodeUnstageVolumeRequest>,
            ) -> Answer<$csi::NodeUnstageVolumeResponse> {
                let request = request.into_inner();
                self.run(move |driver| driver.unstage(&request.volume_id, &request.staging_target_path)).await?;
                Ok(Response::new($csi::NodeUnstageVolumeResponse {}))
            }

            async fn node_publish_volume(
                &self,
                request: Request<$csi::NodePublishVolumeRequest>,
            ) -> Answer<$csi::NodePublishVolumeResponse> {
                let request = request.into_inner();
                let staging = request.staging_target_path;
                let target = Target {
                    id: request.volume_id,
                    path: request.target_path,
                    capability: request.volume_capability.as_ref().map(capability),
                    readonly: request.readonly,
                };
                self.run(move |driver| driver.publish(&target, &staging)).await?;
                Ok(Response::new($csi::NodePublishVolumeResponse {}))
            }

            async fn node_unpublish_volume(
                &self,
                request: Request<$csi::NodeUnpublishVolumeRequest>,
            ) -> Answer<$csi::NodeUnpublishVolumeResponse> {
                let request = request.into_inner();
                self.run(move |driver| driver.unpublish(&request.volume_id, &request.target_path)).await?;
                Ok(Response::new($csi::NodeUnpublishVolumeResponse {}))
            }

            async fn node_get_capabilities(
                &self,
                _: Request<$csi::NodeGetCapabilitiesRequest>,
            ) -> Answer<$csi::NodeGetCapabilitiesResponse> {
                use $csi::node_service_capability::{Rpc, Type};
                let capabilities = NODE
                    .iter()
                    .map(|rpc| $csi::NodeServiceCapability {
                        r#type: Some(Type::Rpc(Rpc { r#type: (*rpc).into() })),
                    })
                    .collect();
                Ok(Response::new($csi::NodeGetCapabilitiesResponse { capabilities }))
            }

            async fn node_get_info(
                &self,
                _: Request<$csi::NodeGetInfoRequest>,
            ) -> Answer<$csi::NodeGetInfoResponse> {
                self.run(|driver| {
                    Ok(Response::new($csi::NodeGetInfoResponse {
                        node_id: driver.node_id.clone(),
                        max_volumes_per_node: 0,
                        accessible_topology: Some(topology(driver)),
                    }))
                })
                .await
            }

            $($node)*
        }
    };
}

pub(crate) use services;
