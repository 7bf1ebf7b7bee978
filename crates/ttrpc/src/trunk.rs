//! A trunk: one stream, its driver, and the two ends on it.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::{Bytes, BytesMut};
use prost::Message;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadHalf};
use tokio::time::sleep_until;

use crate::client::Client;
use crate::envelope::ResponseEnvelope;
use crate::error::{CallError, CloseReason};
use crate::frame::{self, FrameDecoder, Inbound};
use crate::mux;
use crate::options::{Layout, Options};
use crate::server::{Server, Service};
use crate::shared::{Shared, io_reason};

/// How much is read at once while nothing larger is under way, in bytes.
const READ: usize = 8 << 10;

/// Starts ttrpc over a stream.
///
/// Returns the asking end, and the driver, which has to be polled (spawned) for anything to
/// happen: it reads, handles the peer's requests with `service`, and ends with the reason once
/// the trunk is closed. Dropping the driver closes the trunk; dropping every [`Client`] does not.
///
/// Both ends exist before the first byte is read, so an eager peer loses nothing.
pub fn start<T, S>(
    stream: T,
    layout: Layout,
    service: S,
    options: Options,
) -> (Client, impl Future<Output = CloseReason> + Send)
where
    T: AsyncRead + AsyncWrite + Send + 'static,
    S: Service,
{
    let (reader, writer) = tokio::io::split(stream);
    let shared = Shared::new(Box::pin(writer), layout, options);
    let client = Client::new(Arc::clone(&shared));
    let guard = CloseOnDrop(Arc::clone(&shared));
    let driver = async move {
        let server = Server::new(Arc::new(service), Arc::clone(&shared));
        let mut inbox = Inbox {
            shared: Arc::clone(&shared),
            server,
            asking: FrameDecoder::default(),
            answering: FrameDecoder::default(),
        };
        let reason = inbox.run(reader).await;
        shared.close(reason);
        drop(guard);
        shared.closed().await
    };
    (client, driver)
}

struct CloseOnDrop(Arc<Shared>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0
            .close(CloseReason::Local("the driver was dropped".into()));
    }
}

/// The way in: cuts the stream into messages and hands them out.
struct Inbox<S> {
    shared: Arc<Shared>,
    server: Server<S>,
    /// What comes in answer to this end's calls.
    asking: FrameDecoder,
    /// What the peer asks.
    answering: FrameDecoder,
}

impl<S: Service> Inbox<S> {
    async fn run<T: AsyncRead>(&mut self, mut reader: ReadHalf<T>) -> CloseReason {
        let mut buffer = BytesMut::with_capacity(READ);
        let shared = Arc::clone(&self.shared);
        let mut closed = std::pin::pin!(shared.closed());
        loop {
            let stalls_at = shared.stalls_at();
            tokio::select! {
                biased;
                reason = &mut closed => return reason,
                failed = poll_fn(|cx| shared.poll_flush(cx, stalls_at)) => {
                    if let Some(reason) = failed { return reason }
                }
                () = stalled(stalls_at) => {
                    if shared.stalls_at() == stalls_at {
                        return CloseReason::WriteStalled(shared.options.write_stall);
                    }
                }
                () = self.server.handled(), if self.server.is_handling() => {}
                read = reader.read_buf(&mut buffer), if shared.reads_on() => match read {
                    Ok(0) => return self.end(&buffer),
                    Ok(_) => if let Err(reason) = self.take(&mut buffer) { return reason },
                    Err(error) => return io_reason("reading", error),
                },
            }
        }
    }

    fn end(&self, buffer: &BytesMut) -> CloseReason {
        let whole = buffer.is_empty()
            && self.asking.is_between_frames()
            && self.answering.is_between_frames();
        if whole {
            CloseReason::PeerClosed
        } else {
            CloseReason::HalfFrame
        }
    }

    fn take(&mut self, buffer: &mut BytesMut) -> Result<(), CloseReason> {
        match self.shared.layout {
            Layout::Client => self.answers(buffer.split().freeze()),
            Layout::Server => self.requests(buffer.split().freeze()),
            Layout::Mux { client, server } => {
                while let Some((connection, payload)) =
                    mux::next_frame(buffer, self.shared.frame_limit())?
                {
                    if connection == client {
                        self.answers(payload);
                    } else if connection == server {
                        self.requests(payload);
                    } else {
                        self.shared.dropped_frames.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        }
        // Room for the next read, whatever the last message left; `next_frame` made room for
        // what it waits for.
        buffer.reserve(READ.saturating_sub(buffer.len()).max(1));
        Ok(())
    }

    fn answers(&mut self, chunk: Bytes) {
        let shared = &self.shared;
        self.asking.push(
            chunk,
            |_| frame::MAX_DATA,
            |inbound| match inbound {
                Inbound::Frame {
                    stream,
                    kind: frame::RESPONSE,
                    data,
                } => {
                    let answer = match ResponseEnvelope::decode(data) {
                        Ok(envelope) => envelope.into_result().map_err(CallError::Remote),
                        Err(error) => Err(CallError::Protocol(error.to_string())),
                    };
                    shared.answer(stream, answer);
                }
                Inbound::Oversized {
                    stream,
                    kind: frame::RESPONSE,
                    length,
                } => {
                    let max = frame::MAX_DATA;
                    let text =
                        format!("message length {length} exceed maximum message size of {max}");
                    shared.answer(stream, Err(CallError::Protocol(text)));
                }
                Inbound::Frame { .. } | Inbound::Oversized { .. } => {
                    shared.dropped_frames.fetch_add(1, Ordering::Relaxed);
                }
            },
        );
    }

    fn requests(&mut self, chunk: Bytes) {
        let (shared, server) = (&self.shared, &mut self.server);
        let limit = |kind| match kind {
            frame::REQUEST => shared.request_limit.load(Ordering::Relaxed),
            _ => frame::MAX_DATA,
        };
        self.answering
            .push(chunk, limit, |inbound| server.take(inbound));
    }
}

async fn stalled(at: Option<tokio::time::Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
