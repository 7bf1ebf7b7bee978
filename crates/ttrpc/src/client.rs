//! The asking end.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use prost::Message;
use tokio::time::{Instant, timeout_at};

use crate::eager;
use crate::envelope::{KeyValue, Outgoing};
use crate::error::{CallError, CloseReason};
use crate::frame;
use crate::shared::{SPARE, Shared};

/// Asks the peer of a trunk. Clones ask over the same trunk.
///
/// Dropping the future of a call, or its deadline, harms nothing but that call: what is already
/// being written is written to its end, the other calls go on, and a late answer is dropped. The
/// peer is told nothing: ttrpc has no message for that.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

/// What goes along with one call.
#[derive(Debug, Clone, Default)]
pub struct CallOptions {
    /// How long to wait, from now, for room, the write and the answer together; it is sent along,
    /// so that the peer can give up too. `None` waits without limit.
    pub timeout: Option<Duration>,
    /// Entries for the peer's interceptors, such as trace headers.
    pub metadata: Vec<KeyValue>,
    /// How long the calling thread looks for the answer before it sleeps, where this has paid with this peer of late: some tens
    /// of microseconds where answers come faster than a thread wakes. The runtime's other tasks go on meanwhile. Zero, the
    /// default, sleeps at once.
    pub eager: Duration,
}

impl CallOptions {
    /// No metadata, and this deadline.
    #[must_use]
    pub fn timeout(timeout: Duration) -> Self {
        Self {
            timeout: Some(timeout),
            ..Self::default()
        }
    }
}

impl Client {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Calls a method and decodes its answer.
    ///
    /// # Errors
    /// [`CallError`]; an answer that is no message of the type is [`CallError::Protocol`].
    pub async fn call<Reply: Message + Default>(
        &self,
        service: &str,
        method: &str,
        request: &impl Message,
        options: &CallOptions,
    ) -> Result<Reply, CallError> {
        let payload = self.call_raw(service, method, request, options).await?;
        Reply::decode(payload).map_err(|error| CallError::Protocol(error.to_string()))
    }

    /// Calls a method and returns the bytes of its answer, so that they can be looked at before
    /// they are decoded.
    ///
    /// # Errors
    /// [`CallError`]. Everything but `Protocol`.
    pub async fn call_raw(
        &self,
        service: &str,
        method: &str,
        request: &impl Message,
        options: &CallOptions,
    ) -> Result<Bytes, CallError> {
        let Some(timeout) = options.timeout else {
            return self.exchange(service, method, request, options, None).await;
        };
        let deadline = Instant::now() + timeout;
        timeout_at(
            deadline,
            self.exchange(service, method, request, options, Some(deadline)),
        )
        .await
        .unwrap_or(Err(CallError::Timeout(timeout)))
    }

    async fn exchange(
        &self,
        service: &str,
        method: &str,
        request: &impl Message,
        options: &CallOptions,
        deadline: Option<Instant>,
    ) -> Result<Bytes, CallError> {
        let payload = request.encoded_len();
        let mut envelope = Outgoing {
            service,
            method,
            timeout_nano: 0,
            metadata: &options.metadata,
        };
        // The deadline adds at most 11 bytes.
        let length = envelope.encoded_len(payload) + deadline.map_or(0, |_| 11);
        if length > frame::MAX_DATA {
            return Err(CallError::Oversized {
                length,
                max: frame::MAX_DATA,
            });
        }
        let Ok(_permit) = self.shared.permits.acquire().await else {
            return Err(self.shared.closed().await.into());
        };
        self.shared.room().await;
        envelope.timeout_nano = deadline.map_or(0, remaining_nanos);
        let mut message = BytesMut::with_capacity(SPARE + length);
        message.resize(SPARE, 0);
        envelope.encode(&mut message, payload, |buffer| request.encode_raw(buffer));
        let (stream, answer) = self.shared.send_request(message)?;
        let call = PendingCall {
            shared: &self.shared,
            stream,
        };
        let answer = eager::receive(answer, options.eager, &self.shared.eagerness).await;
        std::mem::forget(call);
        answer.unwrap_or_else(|| Err(CallError::Protocol("the call was lost".to_owned())))
    }

    /// Sets the largest request of the peer that is accepted, in bytes; larger ones are answered
    /// with status 8 and never stored.
    pub fn set_request_limit(&self, bytes: usize) {
        self.shared
            .request_limit
            .store(bytes.min(frame::MAX_DATA), Ordering::Relaxed);
    }

    /// Closes the trunk; pending calls of both directions end.
    pub fn close(&self, why: impl Into<Arc<str>>) {
        self.shared.close(CloseReason::Local(why.into()));
    }

    /// Waits until the trunk is closed, and tells why.
    pub async fn closed(&self) -> CloseReason {
        self.shared.closed().await
    }

    /// Why the trunk is closed; `None` while it is open.
    #[must_use]
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.shared.check_open().err()
    }

    /// How many frames belonged to nothing: unknown connections, answers that came too late.
    #[must_use]
    pub fn dropped_frames(&self) -> u64 {
        self.shared.dropped_frames.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("closed", &self.close_reason())
            .finish_non_exhaustive()
    }
}

/// Takes a call that is dropped out of the pending ones.
struct PendingCall<'a> {
    shared: &'a Shared,
    stream: u32,
}

impl Drop for PendingCall<'_> {
    fn drop(&mut self) {
        self.shared.forget(self.stream);
    }
}

fn remaining_nanos(deadline: Instant) -> i64 {
    let left = deadline
        .saturating_duration_since(Instant::now())
        .as_nanos();
    // 0 would mean that there is no deadline.
    i64::try_from(left).unwrap_or(i64::MAX).max(1)
}
