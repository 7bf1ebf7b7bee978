//! Plugin registration v1 as a server: one for each socket.

use std::io;
use std::os::unix::net::UnixListener as StdListener;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::api;
use crate::api::registration_server::{Registration, RegistrationServer};
use crate::authority::Authority;
use crate::target::Target;

/// What kubelet calls a driver of CSI.
const TYPE: &str = "CSIPlugin";
/// The version of CSI that kubelet is told, as `node-driver-registrar` does: kubelet compares the first number.
const VERSIONS: [&str; 1] = ["1.0.0"];

const CONNECTIONS: usize = 16;
/// A request is a name and an error at most.
const MAX_REQUEST: usize = 64 * 1024;
const DEADLINE: Duration = Duration::from_secs(10);
/// How long calls under way may take to their end once the socket is given up.
const LINGER: Duration = Duration::from_secs(1);
/// The longest error of kubelet's that is kept.
const ERROR_MAX: usize = 1024;

/// What kubelet has said of the socket with this number.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) serving: u64,
    pub(crate) answer: Result<(), String>,
}

#[derive(Debug)]
struct Service {
    info: api::PluginInfo,
    serving: u64,
    told: mpsc::Sender<Told>,
}

#[tonic::async_trait]
impl Registration for Service {
    async fn get_info(
        &self,
        _: Request<api::InfoRequest>,
    ) -> Result<Response<api::PluginInfo>, Status> {
        Ok(Response::new(self.info.clone()))
    }

    async fn notify_registration_status(
        &self,
        request: Request<api::RegistrationStatus>,
    ) -> Result<Response<api::RegistrationStatusResponse>, Status> {
        let status = request.into_inner();
        let answer = if status.plugin_registered {
            Ok(())
        } else {
            Err(one_line(&status.error))
        };
        let told = Told {
            serving: self.serving,
            answer,
        };
        let gone = |_| Status::unavailable("the plugin is being taken down");
        self.told.send(told).await.map_err(gone)?;
        Ok(Response::new(api::RegistrationStatusResponse {}))
    }
}

/// Serves until `stop`, and for a moment longer what is under way. Within a runtime.
pub(crate) fn spawn(
    tasks: &TaskTracker,
    listener: StdListener,
    target: &Target,
    serving: u64,
    told: mpsc::Sender<Told>,
    stop: CancellationToken,
) -> io::Result<()> {
    let listener = UnixListener::from_std(listener)?;
    let info = api::PluginInfo {
        r#type: TYPE.to_owned(),
        name: target.driver.clone(),
        endpoint: target.endpoint.to_string_lossy().into_owned(),
        supported_versions: VERSIONS.map(str::to_owned).to_vec(),
    };
    let service = RegistrationServer::new(Service {
        info,
        serving,
        told,
    })
    .max_decoding_message_size(MAX_REQUEST);
    let (connections, accepted) = mpsc::channel(1);
    tasks.spawn(async move {
        let served = Server::builder()
            .timeout(DEADLINE)
            .add_service(service)
            .serve_with_incoming_shutdown(ReceiverStream::new(accepted), stop.cancelled());
        let ended = async {
            stop.cancelled().await;
            tokio::time::sleep(LINGER).await;
        };
        tokio::select! {
            served = served => if let Err(error) = served {
                tracing::warn!(%error, "a registration socket is not served any more");
            },
            () = accept(listener, connections) => {}
            () = ended => {}
        }
    });
    Ok(())
}

/// Until nobody takes connections any more.
async fn accept(listener: UnixListener, connections: mpsc::Sender<io::Result<Connection>>) {
    let slots = Arc::new(Semaphore::new(CONNECTIONS));
    loop {
        let Ok(slot) = Arc::clone(&slots).acquire_owned().await else {
            return;
        };
        match listener.accept().await {
            Ok((stream, _)) => {
                let connection = Authority::new(stream, slot);
                if connections.send(Ok(connection)).await.is_err() {
                    // The server ends, and with it what is under way.
                    return std::future::pending().await;
                }
            }
            Err(error) => {
                // Out of file descriptors, as a rule: let some be closed.
                tracing::warn!(%error, "cannot accept a connection of kubelet");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
}

/// A connection, counted until it is dropped.
type Connection = Authority<UnixStream, OwnedSemaphorePermit>;

/// Kubelet's words, which may hold anything.
fn one_line(error: &str) -> String {
    let mut line: String = error
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if line.trim().is_empty() {
        return "kubelet gave no reason".to_owned();
    }
    if line.len() > ERROR_MAX {
        let mut end = ERROR_MAX;
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        line.truncate(end);
        line.push_str("..");
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_a_line_of_bounded_length() {
        let long = "ä".repeat(ERROR_MAX);
        for (error, expected) in [
            ("no such\nnode\u{1b}[31m", "no such node [31m".to_owned()),
            (" \n", "kubelet gave no reason".to_owned()),
            (&long, format!("{}..", "ä".repeat(ERROR_MAX / 2))),
        ] {
            assert_eq!(one_line(error), expected);
        }
    }
}
