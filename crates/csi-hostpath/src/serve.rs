//! The server: the socket, the services, the end.

use std::{
    fs,
    future::Future,
    io,
    os::unix::fs::{FileTypeExt, MetadataExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use longshore_csi_api::{v0, v1};
use longshore_csi_probe::Endpoint;
use tokio::net::UnixListener;
use tokio_stream::wrappers::UnixListenerStream;
use tonic::{Status, transport::Server};

use crate::{HostPathError, PublishBy, driver::Driver, mounts::may_mount, store::Store};

/// The most bytes of a request. A list of capabilities or secrets is far smaller.
const MAX_REQUEST: usize = 1024 * 1024;

/// Which API version is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// `csi.v0` (0.3).
    V0,
    /// `csi.v1`.
    V1,
}

/// How to serve.
#[derive(Clone, Debug)]
pub struct HostPathOptions {
    /// Where to listen (`CSI_ENDPOINT`): a Unix socket. A socket that is there already is replaced.
    pub endpoint: Endpoint,
    /// Where the volumes are; made with mode 0700 when it does not exist.
    pub state_dir: PathBuf,
    /// This node's id, as the caller knows it.
    pub node_id: String,
    /// The API version.
    pub mode: Mode,
    /// All volumes together may have so many bytes; `None`: as many as the file system has.
    pub capacity: Option<u64>,
    /// `None`: by bind mounts where CAP_SYS_ADMIN is there, else by symbolic links.
    pub publish_by: Option<PublishBy>,
}

impl HostPathOptions {
    /// v1, with what the machine allows.
    #[must_use]
    pub fn new(
        endpoint: Endpoint,
        state_dir: impl Into<PathBuf>,
        node_id: impl Into<String>,
    ) -> Self {
        Self {
            endpoint,
            state_dir: state_dir.into(),
            node_id: node_id.into(),
            mode: Mode::V1,
            capacity: None,
            publish_by: None,
        }
    }
}

/// The services of one driver; calls are made one at a time.
#[derive(Clone, Debug)]
pub(crate) struct Plugin(Arc<Mutex<Driver>>);

impl Plugin {
    /// Runs a call on a blocking thread. A caller that hangs up does not interrupt it.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Driver) -> Result<T, Status> + Send + 'static,
    ) -> Result<T, Status> {
        let driver = self.0.clone();
        tokio::task::spawn_blocking(move || {
            call(&driver.lock().unwrap_or_else(PoisonError::into_inner))
        })
        .await
        .map_err(|error| Status::internal(format!("the call panicked: {error}")))?
    }
}

/// Serves until `shutdown` is ready, then ends the calls under way and removes its socket. What is published stays so.
///
/// # Errors
/// [`HostPathError`], before anything is served but for [`HostPathError::Serve`].
pub async fn serve(
    options: HostPathOptions,
    shutdown: impl Future<Output = ()> + Send,
) -> Result<(), HostPathError> {
    let path = options.endpoint.socket().map(Path::to_owned);
    let path = path.ok_or_else(|| HostPathError::NotUnix {
        endpoint: options.endpoint.clone(),
    })?;
    let (state, by) = (options.state_dir.clone(), options.publish_by);
    let opened =
        tokio::task::spawn_blocking(move || Ok((Store::open(&state)?, by.unwrap_or_else(detect))));
    let (store, by) = opened
        .await
        .unwrap_or_else(|error| Err(io::Error::other(error)))
        .map_err(|source| HostPathError::State {
            path: options.state_dir,
            source,
        })?;
    if by == PublishBy::SymbolicLink {
        tracing::warn!("without CAP_SYS_ADMIN volumes are published by symbolic links");
    }
    let plugin = Plugin(Arc::new(Mutex::new(Driver {
        store,
        node_id: options.node_id,
        by,
        capacity: options.capacity,
        keep_target: options.mode == Mode::V0,
    })));
    let listener = listen(&path)?;
    let socket = fs::symlink_metadata(&path)
        .ok()
        .map(|meta| (meta.dev(), meta.ino()));
    tracing::info!(endpoint = %options.endpoint, mode = ?options.mode, published_by = by.as_str(), "listening");

    let mut server = Server::builder();
    let routes = match options.mode {
        Mode::V1 => server
            .add_service(
                v1::identity_server::IdentityServer::new(plugin.clone())
                    .max_decoding_message_size(MAX_REQUEST),
            )
            .add_service(
                v1::controller_server::ControllerServer::new(plugin.clone())
                    .max_decoding_message_size(MAX_REQUEST),
            )
            .add_service(
                v1::node_server::NodeServer::new(plugin).max_decoding_message_size(MAX_REQUEST),
            ),
        Mode::V0 => server
            .add_service(
                v0::identity_server::IdentityServer::new(plugin.clone())
                    .max_decoding_message_size(MAX_REQUEST),
            )
            .add_service(
                v0::controller_server::ControllerServer::new(plugin.clone())
                    .max_decoding_message_size(MAX_REQUEST),
            )
            .add_service(
                v0::node_server::NodeServer::new(plugin).max_decoding_message_size(MAX_REQUEST),
            ),
    };
    let served = routes
        .serve_with_incoming_shutdown(UnixListenerStream::new(listener), shutdown)
        .await;
    // Only our own: a successor may have put its socket there.
    if fs::symlink_metadata(&path)
        .ok()
        .map(|meta| (meta.dev(), meta.ino()))
        == socket
    {
        drop(fs::remove_file(&path));
    }
    served.map_err(|source| HostPathError::Serve { path, source })
}

fn detect() -> PublishBy {
    if may_mount() {
        PublishBy::BindMount
    } else {
        PublishBy::SymbolicLink
    }
}

fn listen(path: &Path) -> Result<UnixListener, HostPathError> {
    let failed = |source: io::Error| HostPathError::Listen {
        path: path.to_owned(),
        source,
    };
    match fs::symlink_metadata(path) {
        Ok(meta) if meta.file_type().is_socket() => fs::remove_file(path).map_err(failed)?,
        Ok(_) => {
            return Err(HostPathError::InTheWay {
                path: path.to_owned(),
            });
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    UnixListener::bind(path).map_err(failed)
}
