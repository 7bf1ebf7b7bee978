//! The socket of a fake plugin, and what a connection meets there.

use std::{
    fs, io,
    os::fd::AsRawFd,
    path::{Path, PathBuf},
    pin::Pin,
    task::{Context, Poll},
};

use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket,
};
use tokio::{
    io::AsyncWriteExt,
    net::{UnixListener, UnixStream},
    task::JoinSet,
    time::sleep,
};
use tokio_stream::{StreamExt, wrappers::UnixListenerStream};
use tonic::transport::Server;
use tower::{Layer, Service};

use super::{Behaviour, Listen, Shared, Speak, service::Fake};

/// Serves a fake plugin on `socket` until it is dropped.
///
/// # Errors
/// Whatever `bind` and `listen` say.
pub async fn serve(socket: PathBuf, shared: Shared) -> io::Result<()> {
    let behaviour = shared.behaviour().clone();
    let path = match &behaviour.listen {
        Listen::Never => return std::future::pending().await,
        Listen::Endpoint | Listen::BindOnly => socket,
        Listen::Elsewhere(path) => path.clone(),
    };
    sleep_unless_zero(behaviour.bind_delay).await;
    let listener = open(&path, &behaviour).await?;
    match behaviour.speak {
        Speak::Grpc => grpc(listener, shared).await,
        other => raw(listener, other, &shared).await,
    }
}

async fn open(path: &Path, behaviour: &Behaviour) -> io::Result<UnixListener> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let fd = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    bind(fd.as_raw_fd(), &UnixAddr::new(path)?)?;
    if behaviour.listen == Listen::BindOnly {
        std::future::pending::<()>().await;
    }
    sleep_unless_zero(behaviour.listen_delay).await;
    listen(&fd, Backlog::new(128)?)?;
    UnixListener::from_std(fd.into())
}

/// tokio's timer rounds up to a millisecond, which a plugin that listens straight after `bind` does not have.
async fn sleep_unless_zero(delay: std::time::Duration) {
    if !delay.is_zero() {
        sleep(delay).await;
    }
}

async fn grpc(listener: UnixListener, shared: Shared) -> io::Result<()> {
    let counting = shared.clone();
    let incoming = UnixListenerStream::new(listener).map(move |stream| {
        counting.seen.send_modify(|seen| seen.connections += 1);
        stream
    });
    Fake::routes(&shared, Server::builder().layer(Origin(shared.clone())))
        .serve_with_incoming(incoming)
        .await
        .map_err(io::Error::other)
}

async fn raw(listener: UnixListener, speak: Speak, shared: &Shared) -> io::Result<()> {
    let mut open = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await?;
        shared.seen.send_modify(|seen| seen.connections += 1);
        open.spawn(answer(stream, speak));
        while open.try_join_next().is_some() {}
    }
}

async fn answer(mut stream: UnixStream, speak: Speak) -> io::Result<()> {
    match speak {
        Speak::Grpc | Speak::Close => Ok(()),
        Speak::Nothing => std::future::pending().await,
        Speak::Garbage => {
            stream.write_all(&[0xfe; 256]).await?;
            std::future::pending().await
        }
        Speak::Http1 => {
            let refusal =
                b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            stream.write_all(refusal).await?;
            std::future::pending().await
        }
    }
}

/// Records `:scheme` and `:authority`, which a gRPC service does not see.
#[derive(Clone, Debug)]
pub(super) struct Origin(Shared);

/// See [`Origin`].
#[derive(Clone, Debug)]
pub(super) struct Recorded<S> {
    inner: S,
    shared: Shared,
}

impl<S> Layer<S> for Origin {
    type Service = Recorded<S>;

    fn layer(&self, inner: S) -> Recorded<S> {
        Recorded {
            inner,
            shared: self.0.clone(),
        }
    }
}

impl<S, B> Service<http::Request<B>> for Recorded<S>
where
    S: Service<http::Request<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        let uri = request.uri();
        let origin = (
            uri.scheme_str().unwrap_or_default().to_owned(),
            uri.authority().map(ToString::to_string).unwrap_or_default(),
        );
        self.shared
            .seen
            .send_modify(|seen| seen.origin = Some(origin));
        Box::pin(self.inner.call(request))
    }
}
