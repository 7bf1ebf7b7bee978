//! The HTTP front over real sockets, in front of containers that do as the test says.

mod access;
mod calls;
mod fake;
mod forms;
mod limits;
pub(crate) mod raw;
mod tls;

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use fake::FakeContainers;
use longshore_agent::TcpOptions;
use longshore_agent::http::{HttpLimits, HttpServer, Listeners};

/// A served API in a directory of its own.
struct Served {
    socket: PathBuf,
    containers: Arc<FakeContainers>,
    server: HttpServer,
    dir: tempfile::TempDir,
}

/// A private directory for a socket.
pub(crate) fn private_dir() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    dir
}

async fn serve() -> Served {
    serve_with(HttpLimits::default(), None).await
}

async fn serve_with(limits: HttpLimits, tcp: Option<&TcpOptions>) -> Served {
    let dir = private_dir();
    let socket = dir.path().join("agent.sock");
    let listeners = Listeners::bind(&socket, tcp).await.unwrap();
    let containers = Arc::new(FakeContainers::default());
    let server = HttpServer::start(listeners, Arc::clone(&containers), "node-7".into(), limits);
    Served {
        socket,
        containers,
        server,
        dir,
    }
}

/// Polls until it is so; a test that waits for nothing fails after ten seconds.
pub(crate) async fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(10);
    while !is_so() {
        assert!(tokio::time::Instant::now() < deadline, "never: {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}
