//! What kubelet does: calls a socket, asks who it is, and tells what became of it.

use std::path::{Path, PathBuf};

use hyper_util::rt::TokioIo;
use longshore_kubelet_registration::api;
use longshore_kubelet_registration::api::registration_client::RegistrationClient;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};

pub(crate) struct Kubelet(RegistrationClient<Channel>);

impl Kubelet {
    pub(crate) async fn call(socket: &Path) -> Result<Self, tonic::transport::Error> {
        let path: PathBuf = socket.to_owned();
        let connect = tower::service_fn(move |_| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        let channel = Endpoint::from_static("http://localhost")
            .connect_with_connector(connect)
            .await?;
        Ok(Self(RegistrationClient::new(channel)))
    }

    pub(crate) async fn info(&mut self) -> api::PluginInfo {
        let asked = self.0.get_info(api::InfoRequest {}).await;
        asked.unwrap().into_inner()
    }

    pub(crate) async fn tell(&mut self, registered: bool, error: &str) {
        let status = api::RegistrationStatus {
            plugin_registered: registered,
            error: error.to_owned(),
        };
        self.0.notify_registration_status(status).await.unwrap();
    }
}
