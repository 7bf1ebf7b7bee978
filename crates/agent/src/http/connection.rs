//! One connection: who is at the other end, and how long it may dawdle.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};
use tokio_util::sync::CancellationToken;

use super::auth::BearerToken;
use super::dispatch::Front;
use crate::service::ContainerService;

/// Longest head of a request: request line and headers.
const HEAD_MAX: usize = 64 << 10;
const HEADERS_MAX: usize = 64;

/// Serves one connection to its end: the client closes it, it breaks a bound, or the agent stops.
///
/// On `front.stop` no further request is read; the one under way is answered (a pending WAIT is not). On `abort` the
/// connection is dropped at once.
pub(crate) async fn serve<S, I>(
    front: Arc<Front<S>>,
    token: Option<Arc<BearerToken>>,
    io: I,
    abort: CancellationToken,
) where
    S: ContainerService,
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let io = TokioIo::new(WriteDeadline::new(io, front.limits.write_timeout));
    let service = service_fn(|request| {
        let (front, token) = (Arc::clone(&front), token.clone());
        async move { front.respond(token.as_deref(), request).await }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(front.limits.header_timeout)
        .max_headers(HEADERS_MAX)
        .max_buf_size(HEAD_MAX)
        .pipeline_flush(true)
        .serve_connection(io, service);
    let mut connection = std::pin::pin!(connection);
    let served = tokio::select! {
        served = connection.as_mut() => served,
        () = abort.cancelled() => return,
        () = front.stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::select! {
                served = connection => served,
                () = abort.cancelled() => return,
            }
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection ended with an error");
    }
}

/// A stream whose writes fail when the other end takes nothing for `limit`.
#[derive(Debug)]
struct WriteDeadline<I> {
    inner: I,
    limit: Duration,
    /// Runs while a write is pending.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl<I> WriteDeadline<I> {
    const fn new(inner: I, limit: Duration) -> Self {
        Self {
            inner,
            limit,
            stalled: None,
        }
    }

    fn bound<T>(&mut self, cx: &mut Context<'_>, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if poll.is_ready() {
            self.stalled = None;
            return poll;
        }
        let limit = self.limit;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(limit)));
        match stalled.as_mut().poll(cx) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for WriteDeadline<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(cx, buffer)
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for WriteDeadline<I> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write(cx, bytes);
        self.bound(cx, poll)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write_vectored(cx, slices);
        self.bound(cx, poll)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.inner).poll_flush(cx);
        self.bound(cx, poll)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.inner).poll_shutdown(cx);
        self.bound(cx, poll)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_reader_that_takes_nothing_ends_the_connection() {
        let (ours, mut theirs) = duplex(16);
        let mut ours = WriteDeadline::new(ours, Duration::from_secs(30));
        ours.write_all(&[0; 16]).await.unwrap();
        let start = tokio::time::Instant::now();
        let error = ours.write_all(&[0; 16]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(start.elapsed(), Duration::from_secs(30));
        let mut read = [0; 16];
        theirs.read_exact(&mut read).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_reader_is_served_as_long_as_it_takes_something() {
        let (ours, mut theirs) = duplex(8);
        let mut ours = WriteDeadline::new(ours, Duration::from_secs(30));
        let reader = tokio::spawn(async move {
            let mut byte = [0; 8];
            for _ in 0..8 {
                tokio::time::sleep(Duration::from_secs(20)).await;
                theirs.read_exact(&mut byte).await.unwrap();
            }
        });
        ours.write_all(&[0; 64]).await.unwrap();
        reader.await.unwrap();
    }
}
