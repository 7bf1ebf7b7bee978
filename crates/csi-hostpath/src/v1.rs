//! CSI v1.

use crate::{driver::Usage, services::services, store};

const CONTROLLER: &[v1::controller_service_capability::rpc::Type] = {
    use v1::controller_service_capability::rpc::Type;
    &[
        Type::CreateDeleteVolume,
        Type::ListVolumes,
        Type::GetCapacity,
        Type::ExpandVolume,
    ]
};

const NODE: &[v1::node_service_capability::rpc::Type] = {
    use v1::node_service_capability::rpc::Type;
    &[Type::StageUnstageVolume, Type::GetVolumeStats]
};

services!(v1,
    controller {
        async fn controller_expand_volume(
            &self,
            request: Request<v1::ControllerExpandVolumeRequest>,
        ) -> Answer<v1::ControllerExpandVolumeResponse> {
            let request = request.into_inner();
            let Some(given) = request.capacity_range else {
                return Err(Status::invalid_argument("capacity range: it is missing"));
            };
            let range = range(Some(given))?;
            let id = request.volume_id;
            let volume = self.run(move |driver| driver.expand(&id, range)).await?;
            Ok(Response::new(v1::ControllerExpandVolumeResponse {
                capacity_bytes: bytes(volume.capacity),
                node_expansion_required: false,
            }))
        }
    },
    node {
        async fn node_get_volume_stats(
            &self,
            request: Request<v1::NodeGetVolumeStatsRequest>,
        ) -> Answer<v1::NodeGetVolumeStatsResponse> {
            use v1::volume_usage::Unit;
            let request = request.into_inner();
            let (space, inodes) =
                self.run(move |driver| driver.stats(&request.volume_id, &request.volume_path)).await?;
            let usage = vec![usage(space, Unit::Bytes), usage(inodes, Unit::Inodes)];
            Ok(Response::new(v1::NodeGetVolumeStatsResponse { usage, volume_condition: None }))
        }
    }
);

fn usage(usage: Usage, unit: v1::volume_usage::Unit) -> v1::VolumeUsage {
    v1::VolumeUsage {
        available: bytes(usage.available),
        total: bytes(usage.total),
        used: bytes(usage.used),
        unit: unit.into(),
    }
}

fn volume(driver: &Driver, volume: store::Volume) -> v1::Volume {
    v1::Volume {
        capacity_bytes: bytes(volume.capacity),
        volume_id: volume.id.as_str().to_owned(),
        volume_context: driver.context(),
        content_source: None,
        accessible_topology: vec![topology(driver)],
    }
}

fn entry(volume: v1::Volume) -> v1::list_volumes_response::Entry {
    v1::list_volumes_response::Entry {
        volume: Some(volume),
        status: None,
    }
}

fn capacity(available_capacity: i64) -> v1::GetCapacityResponse {
    v1::GetCapacityResponse {
        available_capacity,
        ..Default::default()
    }
}

fn validated(
    request: v1::ValidateVolumeCapabilitiesRequest,
    unsupported: Option<String>,
) -> v1::ValidateVolumeCapabilitiesResponse {
    match unsupported {
        Some(message) => v1::ValidateVolumeCapabilitiesResponse {
            confirmed: None,
            message,
        },
        None => v1::ValidateVolumeCapabilitiesResponse {
            confirmed: Some(v1::validate_volume_capabilities_response::Confirmed {
                volume_context: request.volume_context,
                volume_capabilities: request.volume_capabilities,
                parameters: request.parameters,
                mutable_parameters: request.mutable_parameters,
            }),
            message: String::new(),
        },
    }
}

fn plugin_capabilities() -> Vec<v1::PluginCapability> {
    use v1::plugin_capability::{Service, Type, VolumeExpansion, service, volume_expansion};
    let service = |service: service::Type| {
        Type::Service(Service {
            r#type: service.into(),
        })
    };
    [
        service(service::Type::ControllerService),
        service(service::Type::VolumeAccessibilityConstraints),
        Type::VolumeExpansion(VolumeExpansion {
            r#type: volume_expansion::Type::Online.into(),
        }),
    ]
    .map(|capability| v1::PluginCapability {
        r#type: Some(capability),
    })
    .to_vec()
}
