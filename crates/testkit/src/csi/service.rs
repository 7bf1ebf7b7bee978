//! The gRPC services of a fake plugin: Identity, and of Controller and Node what a prober asks.

use std::collections::BTreeMap;

use longshore_csi_api::{v0, v1};
use tonic::{
    Code, Request, Response, Status, async_trait,
    transport::{Server, server::Router},
};
use tower::layer::util::{Identity as NoLayer, Stack};

use super::{Shared, listen::Origin};

#[derive(Clone, Debug)]
pub(super) struct Fake(Shared);

/// What a probe is answered with.
enum Probe {
    Ready(Option<bool>),
    Fails(Status),
    Hangs,
}

impl Fake {
    pub(super) fn routes(
        shared: &Shared,
        mut server: Server<Stack<Origin, NoLayer>>,
    ) -> Router<Stack<Origin, NoLayer>> {
        let fake = Self(shared.clone());
        let behaviour = shared.behaviour().clone();
        let (v0, v1) = (behaviour.v0, behaviour.v1);
        let on = |wanted: bool, fake: &Self| wanted.then(|| fake.clone());
        server
            .add_optional_service(on(v1, &fake).map(v1::identity_server::IdentityServer::new))
            .add_optional_service(
                on(v1 && behaviour.controller, &fake)
                    .map(v1::controller_server::ControllerServer::new),
            )
            .add_optional_service(
                on(v1 && behaviour.node, &fake).map(v1::node_server::NodeServer::new),
            )
            .add_optional_service(on(v0, &fake).map(v0::identity_server::IdentityServer::new))
            .add_optional_service(
                on(v0 && behaviour.controller, &fake)
                    .map(v0::controller_server::ControllerServer::new),
            )
            .add_optional_service(
                on(v0 && behaviour.node, &fake).map(v0::node_server::NodeServer::new),
            )
    }

    /// The script of Identity.Probe.
    fn next_probe(&self) -> Probe {
        let mut number = 0;
        self.0.seen.send_modify(|seen| {
            seen.probes += 1;
            number = seen.probes;
        });
        let mut behaviour = self.0.behaviour();
        if behaviour.hang_after.is_some_and(|n| number > n) {
            Probe::Hangs
        } else if let Some(code) = behaviour.status {
            Probe::Fails(Status::new(Code::from(code), "scripted"))
        } else if behaviour.unavailable > 0 {
            behaviour.unavailable -= 1;
            Probe::Fails(Status::unavailable("starting"))
        } else if behaviour.not_ready > 0 {
            behaviour.not_ready -= 1;
            Probe::Ready(Some(false))
        } else {
            Probe::Ready(behaviour.ready_field.then_some(true))
        }
    }

    async fn probe(&self, call: &str) -> Result<Option<bool>, Status> {
        self.0.call(call);
        match self.next_probe() {
            Probe::Ready(ready) => Ok(ready),
            Probe::Fails(status) => Err(status),
            Probe::Hangs => std::future::pending().await,
        }
    }

    fn manifest(&self) -> BTreeMap<String, String> {
        let bytes = self.0.behaviour().manifest_bytes;
        (0..bytes.div_ceil(100))
            .map(|i| (format!("key-{i:06}"), "x".repeat(90)))
            .collect()
    }
}

const VENDOR_VERSION: &str = "1.2.3";

macro_rules! fake {
    ($csi:ident, $version:literal, $expansion:expr, { $($extra:tt)* }) => {
        #[async_trait]
        impl $csi::identity_server::Identity for Fake {
            async fn get_plugin_info(
                &self,
                _: Request<$csi::GetPluginInfoRequest>,
            ) -> Result<Response<$csi::GetPluginInfoResponse>, Status> {
                self.0.call(concat!($version, " GetPluginInfo"));
                let name = self.0.behaviour().name.clone();
                Ok(Response::new($csi::GetPluginInfoResponse {
                    name,
                    vendor_version: VENDOR_VERSION.to_owned(),
                    manifest: self.manifest(),
                }))
            }

            async fn get_plugin_capabilities(
                &self,
                _: Request<$csi::GetPluginCapabilitiesRequest>,
            ) -> Result<Response<$csi::GetPluginCapabilitiesResponse>, Status> {
                use $csi::plugin_capability::{Service, Type, service};
                self.0.call(concat!($version, " GetPluginCapabilities"));
                let mut capabilities = Vec::new();
                if self.0.behaviour().controller {
                    let r#type = service::Type::ControllerService.into();
                    capabilities.push($csi::PluginCapability {
                        r#type: Some(Type::Service(Service { r#type })),
                    });
                }
                capabilities.extend($expansion);
                Ok(Response::new($csi::GetPluginCapabilitiesResponse {
                    capabilities,
                }))
            }

            async fn probe(
                &self,
                _: Request<$csi::ProbeRequest>,
            ) -> Result<Response<$csi::ProbeResponse>, Status> {
                let ready = Fake::probe(self, concat!($version, " Probe")).await?;
                Ok(Response::new($csi::ProbeResponse { ready }))
            }
        }

        #[async_trait]
        impl $csi::controller_server::Controller for Fake {
            async fn controller_get_capabilities(
                &self,
                _: Request<$csi::ControllerGetCapabilitiesRequest>,
            ) -> Result<Response<$csi::ControllerGetCapabilitiesResponse>, Status> {
                use $csi::controller_service_capability::{Rpc, Type, rpc};
                self.0.call(concat!($version, " ControllerGetCapabilities"));
                // The second one is a number that no version of the specification has.
                let capabilities = [rpc::Type::CreateDeleteVolume.into(), 4711]
                    .map(|r#type| $csi::ControllerServiceCapability {
                        r#type: Some(Type::Rpc(Rpc { r#type })),
                    })
                    .to_vec();
                Ok(Response::new($csi::ControllerGetCapabilitiesResponse {
                    capabilities,
                }))
            }
        }

        #[async_trait]
        impl $csi::node_server::Node for Fake {
            async fn node_get_capabilities(
                &self,
                _: Request<$csi::NodeGetCapabilitiesRequest>,
            ) -> Result<Response<$csi::NodeGetCapabilitiesResponse>, Status> {
                use $csi::node_service_capability::{Rpc, Type, rpc};
                self.0.call(concat!($version, " NodeGetCapabilities"));
                let r#type = rpc::Type::StageUnstageVolume.into();
                let capability = $csi::NodeServiceCapability {
                    r#type: Some(Type::Rpc(Rpc { r#type })),
                };
                Ok(Response::new($csi::NodeGetCapabilitiesResponse {
                    capabilities: vec![capability] }))
            }

            async fn node_get_info(
                &self,
                _: Request<$csi::NodeGetInfoRequest>,
            ) -> Result<Response<$csi::NodeGetInfoResponse>, Status> {
                self.0.call(concat!($version, " NodeGetInfo"));
                let behaviour = self.0.behaviour();
                if !behaviour.node_get_info {
                    return Err(Status::unimplemented("no NodeGetInfo"));
                }
                let segments = BTreeMap::from([("zone".to_owned(), "z1".to_owned())]);
                Ok(Response::new($csi::NodeGetInfoResponse {
                    node_id: behaviour.node_id.clone(),
                    max_volumes_per_node: 16,
                    accessible_topology: Some($csi::Topology { segments }),
                }))
            }

            $($extra)*
        }
    };
}

fake!(v0, "v0", std::iter::empty::<v0::PluginCapability>(), {
    async fn node_get_id(
        &self,
        _: Request<v0::NodeGetIdRequest>,
    ) -> Result<Response<v0::NodeGetIdResponse>, Status> {
        self.0.call("v0 NodeGetId");
        let node_id = self.0.behaviour().node_id.clone();
        Ok(Response::new(v0::NodeGetIdResponse { node_id }))
    }
});
fake!(v1, "v1", [online_expansion()], {});

fn online_expansion() -> v1::PluginCapability {
    use v1::plugin_capability::{Type, VolumeExpansion, volume_expansion};
    let r#type = volume_expansion::Type::Online.into();
    v1::PluginCapability {
        r#type: Some(Type::VolumeExpansion(VolumeExpansion { r#type })),
    }
}
