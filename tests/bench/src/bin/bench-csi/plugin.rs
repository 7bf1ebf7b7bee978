//! The plugin of these benches: it listens straight after `bind` and notes when.

use std::env;
use std::fs;
use std::io;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use longshore_bench::{Failure, monotonic};
use longshore_csi_api::v1::identity_server::{Identity, IdentityServer};
use longshore_csi_api::v1::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest,
    GetPluginInfoResponse, ProbeRequest, ProbeResponse,
};
use tokio_stream::wrappers::UnixListenerStream;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

/// Names the file for the moment of listening.
pub(crate) const STAMP: &str = "BENCH_STAMP";
const ENDPOINT: &str = "CSI_ENDPOINT";

/// Serves Identity on `CSI_ENDPOINT` until it is killed.
pub(crate) fn run() -> Result<(), Failure> {
    let endpoint = env::var(ENDPOINT)?;
    let socket = PathBuf::from(endpoint.trim_start_matches("unix://"));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        match fs::remove_file(&socket) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        let listener = UnixListener::bind(&socket)?;
        let listening = monotonic()?;
        if let Some(stamp) = env::var_os(STAMP) {
            fs::write(
                stamp,
                format!("{} {}", std::process::id(), listening.as_nanos()),
            )?;
        }
        listener.set_nonblocking(true)?;
        let listener = tokio::net::UnixListener::from_std(listener)?;
        Server::builder()
            .add_service(IdentityServer::new(Plugin))
            .serve_with_incoming(UnixListenerStream::new(listener))
            .await?;
        Ok(())
    })
}

struct Plugin;

#[tonic::async_trait]
impl Identity for Plugin {
    async fn get_plugin_info(
        &self,
        _request: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        Ok(Response::new(GetPluginInfoResponse {
            name: "bench.example.org".to_owned(),
            vendor_version: "1".to_owned(),
            ..GetPluginInfoResponse::default()
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _request: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        Ok(Response::new(GetPluginCapabilitiesResponse::default()))
    }

    async fn probe(
        &self,
        _request: Request<ProbeRequest>,
    ) -> Result<Response<ProbeResponse>, Status> {
        Ok(Response::new(ProbeResponse { ready: Some(true) }))
    }
}

/// Starts one as a child of this process.
pub(crate) fn spawn(socket: &Path, stamp: &Path) -> Result<Child, Failure> {
    let child = Command::new(env::current_exe()?)
        .arg("plugin")
        .env_clear()
        .env(ENDPOINT, format!("unix://{}", socket.display()))
        .env(STAMP, stamp)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()?;
    Ok(child)
}

/// Who listened last, and since when.
pub(crate) fn stamped(stamp: &Path) -> Result<(i32, Duration), Failure> {
    let text = fs::read_to_string(stamp)?;
    let (pid, nanoseconds) = text.split_once(' ').ok_or("an incomplete stamp")?;
    Ok((pid.parse()?, Duration::from_nanos(nanoseconds.parse()?)))
}
