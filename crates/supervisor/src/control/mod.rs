//! The control service: what the daemon tells and does for `longshore` on the same machine.

mod access;
pub(crate) mod convert;
mod follow;
mod listener;
mod nri;
mod service;
mod tasks;

pub(crate) use access::Access;
pub(crate) use listener::ControlSocket;
pub use nri::{NriControl, NriLedger};
pub(crate) use service::{ControlService, Facts};
pub use tasks::LocalTasks;
pub(crate) use tasks::{TaskControl, Tasks, shown};

use std::time::Duration;

use longshore_control_api::{MAX_MESSAGE, v1::control_server::ControlServer};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::service::Routes;

use listener::Source;

/// How often a connection that says nothing is asked whether it is there, and for how long.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(10);

/// Calls that one connection may have open at a time.
const CALLS: usize = 32;

/// Serves on `socket` until `stop`.
pub(crate) async fn serve(
    socket: ControlSocket,
    service: ControlService,
    nri: NriControl,
    tasks: TaskControl,
    stop: CancellationToken,
) {
    let server = ControlServer::new(service)
        // Requests are names and numbers; answers hold a status.
        .max_decoding_message_size(64 * 1024)
        .max_encoding_message_size(MAX_MESSAGE);
    let routes = Routes::new(server)
        .add_service(nri.server())
        .add_service(tasks.server());
    serve_routes(socket, routes, stop).await;
}

/// Serves to those who come from `source` until `stop`.
async fn serve_routes(source: impl Source, routes: Routes, stop: CancellationToken) {
    let (connections, incoming) = mpsc::channel(1);
    let stopped = stop.clone().cancelled_owned();
    let serving = tonic::transport::Server::builder()
        .concurrency_limit_per_connection(CALLS)
        .http2_keepalive_interval(Some(PING))
        .http2_keepalive_timeout(Some(PONG))
        .max_concurrent_streams(u32::try_from(CALLS).ok())
        .add_routes(routes)
        .serve_with_incoming_shutdown(ReceiverStream::new(incoming), stopped);
    let accepting = async {
        tokio::select! {
            () = listener::accept(source, connections) => {}
            () = stop.cancelled() => {}
        }
    };
    let (served, ()) = tokio::join!(serving, accepting);
    if let Err(error) = served {
        tracing::error!(%error, "the control service ended");
    }
}
