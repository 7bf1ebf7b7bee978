//! The peer: what waiting for a plugin costs with nothing around it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use hyper_util::rt::TokioIo;
use longshore_bench::{Failure, monotonic};
use longshore_csi_api::v1::ProbeRequest;
use longshore_csi_api::v1::identity_client::IdentityClient;
use nix::errno::Errno;
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::UnixStream;
use tonic::transport::Endpoint;
use tower::service_fn;

use crate::plugin;

/// What one bare start came to.
pub(crate) struct Started {
    pub(crate) start_to_listen: Duration,
    pub(crate) listen_to_ready: Duration,
}

/// Starts a plugin, waits for its socket by inotify, connects, probes, and ends it.
pub(crate) async fn start(socket: &Path, stamp: &Path) -> Result<Started, Failure> {
    let directory = socket.parent().ok_or("a socket without a directory")?;
    let name = socket.file_name().ok_or("a socket without a name")?;
    let watch = Watched(Inotify::init(
        InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC,
    )?);
    watch.0.add_watch(
        directory,
        AddWatchFlags::IN_CREATE | AddWatchFlags::IN_MOVED_TO,
    )?;
    let watch = watched(watch)?;
    let begin = monotonic()?;
    let mut child = plugin::spawn(socket, stamp)?;
    'created: loop {
        let mut ready = watch.readable().await?;
        loop {
            match watch.get_ref().0.read_events() {
                Ok(events) if events.iter().any(|it| it.name.as_deref() == Some(name)) => {
                    break 'created;
                }
                Ok(_) => {}
                Err(Errno::EAGAIN) => break,
                Err(error) => return Err(error.into()),
            }
        }
        ready.clear_ready();
    }
    probe(socket).await?;
    let ready = monotonic()?;
    let (_, listening) = plugin::stamped(stamp)?;
    child.kill()?;
    child.wait()?;
    std::fs::remove_file(socket)?;
    Ok(Started {
        start_to_listen: listening.saturating_sub(begin),
        listen_to_ready: ready.saturating_sub(listening),
    })
}

/// Connects (again while refused) and probes once.
pub(crate) async fn probe(socket: &Path) -> Result<(), Failure> {
    let mut delays = [1, 1, 2, 2, 4, 4, 8]
        .into_iter()
        .chain(std::iter::repeat_n(10, 100));
    let stream = loop {
        match UnixStream::connect(socket).await {
            Ok(stream) => break stream,
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                let delay = delays.next().ok_or("nobody listens")?;
                tokio::time::sleep(Duration::from_millis(delay)).await;
            }
            Err(error) => return Err(error.into()),
        }
    };
    let mut stream = Some(TokioIo::new(stream));
    let channel = Endpoint::from_static("http://localhost")
        .connect_with_connector(service_fn(move |_| {
            let stream = stream
                .take()
                .ok_or_else(|| io::Error::other("connected twice"));
            async move { stream }
        }))
        .await?;
    let answer = IdentityClient::new(channel).probe(ProbeRequest {}).await?;
    if answer.into_inner().ready == Some(false) {
        return Err("not ready".into());
    }
    Ok(())
}

/// One start of the shim's program, to its end: it is called without a container.
pub(crate) fn shim_spawn(longshore: &Path) -> Result<Duration, Failure> {
    let begin = Instant::now();
    Command::new(longshore)
        .arg("shim")
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    Ok(begin.elapsed())
}

#[expect(
    deprecated,
    reason = "the successor is an unsafe fn; `Watched` keeps its descriptor open and the same"
)]
fn watched(watch: Watched) -> io::Result<AsyncFd<Watched>> {
    AsyncFd::with_interest(watch, Interest::READABLE)
}

struct Watched(Inotify);

impl AsRawFd for Watched {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_fd().as_raw_fd()
    }
}
