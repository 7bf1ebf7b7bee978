//! CSI v0, as of 0.3.

use crate::{services::services, store};

const CONTROLLER: &[v0::controller_service_capability::rpc::Type] = {
    use v0::controller_service_capability::rpc::Type;
    &[
        Type::CreateDeleteVolume,
        Type::ListVolumes,
        Type::GetCapacity,
    ]
};

const NODE: &[v0::node_service_capability::rpc::Type] = {
    use v0::node_service_capability::rpc::Type;
    &[Type::StageUnstageVolume]
};

services!(v0,
    controller {},
    node {
        async fn node_get_id(
            &self,
            _: Request<v0::NodeGetIdRequest>,
        ) -> Answer<v0::NodeGetIdResponse> {
            let node_id = self.run(|driver| Ok(driver.node_id.clone())).await?;
            Ok(Response::new(v0::NodeGetIdResponse { node_id }))
        }
    }
);

fn volume(driver: &Driver, volume: store::Volume) -> v0::Volume {
    v0::Volume {
        capacity_bytes: bytes(volume.capacity),
        id: volume.id.as_str().to_owned(),
        attributes: driver.context(),
        content_source: None,
        accessible_topology: vec![topology(driver)],
    }
}

fn entry(volume: v0::Volume) -> v0::list_volumes_response::Entry {
    v0::list_volumes_response::Entry {
        volume: Some(volume),
    }
}

fn capacity(available_capacity: i64) -> v0::GetCapacityResponse {
    v0::GetCapacityResponse { available_capacity }
}

fn validated(
    _: v0::ValidateVolumeCapabilitiesRequest,
    unsupported: Option<String>,
) -> v0::ValidateVolumeCapabilitiesResponse {
    v0::ValidateVolumeCapabilitiesResponse {
        supported: unsupported.is_none(),
        message: unsupported.unwrap_or_default(),
    }
}

fn plugin_capabilities() -> Vec<v0::PluginCapability> {
    use v0::plugin_capability::{Service, Type, service};
    [
        service::Type::ControllerService,
        service::Type::AccessibilityConstraints,
    ]
    .map(|service| v0::PluginCapability {
        r#type: Some(Type::Service(Service {
            r#type: service.into(),
        })),
    })
    .to_vec()
}
