//! A channel whose errors name the socket that it leads to.

use std::error::Error;
use std::fmt;
use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tonic::body::Body;
use tonic::transport::Channel;
use tower::Service;

/// A connection to what listens at a socket.
#[derive(Debug, Clone)]
pub(crate) struct Named {
    channel: Channel,
    socket: Arc<Path>,
}

impl Named {
    pub(super) fn new(channel: Channel, socket: &Path) -> Self {
        Self {
            channel,
            socket: socket.into(),
        }
    }
}

impl Service<http::Request<Body>> for Named {
    type Response = http::Response<Body>;
    type Error = Broken;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Broken>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        let socket = &self.socket;
        self.channel
            .poll_ready(cx)
            .map_err(|source| Broken::new(socket, source))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let (socket, answer) = (Arc::clone(&self.socket), self.channel.call(request));
        Box::pin(async move { answer.await.map_err(|source| Broken::new(&socket, source)) })
    }
}

/// A call that got no answer at all.
#[derive(Debug)]
pub(crate) struct Broken {
    socket: Arc<Path>,
    source: tonic::transport::Error,
}

impl Broken {
    fn new(socket: &Arc<Path>, source: tonic::transport::Error) -> Self {
        Self {
            socket: Arc::clone(socket),
            source,
        }
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The one behind an error, if there is one.
    pub(super) fn in_chain<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a Self> {
        let mut next = Some(error);
        while let Some(error) = next {
            if let Some(broken) = error.downcast_ref() {
                return Some(broken);
            }
            next = error.source();
        }
        None
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.source.fmt(f)
    }
}

impl Error for Broken {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.source()
    }
}
