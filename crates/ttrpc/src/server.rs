//! The answering end.

use std::collections::HashMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use prost::Message;
use prost::encoding::{WireType, decode_key, decode_varint};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, timeout_at};

use crate::envelope::{KeyValue, RequestEnvelope, ResponseEnvelope};
use crate::frame::{self, Inbound};
use crate::shared::{SPARE, Shared};
use crate::status::{Code, Status};

/// The most entries of metadata in a request.
const METADATA_MAX: usize = 256;

/// What a server does with requests.
pub trait Service: Send + Sync + 'static {
    /// Answers one request with the encoded reply.
    ///
    /// Requests run side by side. The first poll is the driver's own, so that what can be answered
    /// at once is; a future that is pending then goes on in a task of its own. What takes long
    /// without awaiting holds up the trunk. The future is dropped when the deadline of the request
    /// passes or the trunk is closed. A panic is answered with status 13.
    ///
    /// # Errors
    /// What the caller is told; [`Status::unimplemented`] for methods that do not exist.
    fn call(&self, request: Request) -> impl Future<Output = Result<Bytes, Status>> + Send;
}

/// A request of the peer.
#[derive(Debug, Clone)]
pub struct Request {
    /// The full name of the service, such as `nri.pkg.api.v1alpha1.Plugin`.
    pub service: String,
    /// The bare name of the method.
    pub method: String,
    /// The encoded message. Not looked at: check what it costs before decoding it.
    pub payload: Bytes,
    /// What the peer's interceptors sent along, at most 256 entries.
    pub metadata: Vec<KeyValue>,
    /// When the peer gives up.
    pub deadline: Option<Instant>,
}

/// Answers nothing: for the asking end of plain ttrpc.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoService;

impl Service for NoService {
    async fn call(&self, request: Request) -> Result<Bytes, Status> {
        Err(Status::unimplemented(&request.service, &request.method))
    }
}

/// The requests of one trunk that are being handled.
pub(crate) struct Server<S> {
    service: Arc<S>,
    shared: Arc<Shared>,
    last_stream: u32,
    handlers: JoinSet<(u32, Result<Bytes, Status>)>,
    streams: HashMap<Id, u32>,
}

impl<S: Service> Server<S> {
    pub(crate) fn new(service: Arc<S>, shared: Arc<Shared>) -> Self {
        let (handlers, streams) = (JoinSet::new(), HashMap::new());
        Self {
            service,
            shared,
            last_stream: 0,
            handlers,
            streams,
        }
    }

    /// Takes one frame of the peer's asking end.
    pub(crate) fn take(&mut self, inbound: Inbound) {
        let (stream, refusal) = match inbound {
            Inbound::Frame {
                stream,
                kind: frame::REQUEST,
                data,
            } => (stream, self.start(stream, data).err()),
            Inbound::Oversized {
                stream,
                kind: frame::REQUEST,
                length,
            } => {
                let max = self
                    .shared
                    .request_limit
                    .load(std::sync::atomic::Ordering::Relaxed);
                let text = format!("message length {length} exceed maximum message size of {max}");
                let refusal = self.next_stream(stream).err();
                (
                    stream,
                    refusal.or(Some(Status::new(Code::ResourceExhausted, text))),
                )
            }
            Inbound::Frame {
                stream,
                kind: frame::DATA,
                ..
            } => {
                let text = format!("no stream {stream} is open");
                (stream, Some(Status::new(Code::InvalidArgument, text)))
            }
            Inbound::Frame { .. } | Inbound::Oversized { .. } => return,
        };
        if let Some(status) = refusal {
            self.answer(stream, Err(status));
        }
    }

    fn answer(&self, stream: u32, answer: Result<Bytes, Status>) {
        self.shared.send_response(stream, encode_answer(answer));
    }

    /// Whether a handler is under way.
    pub(crate) fn is_handling(&self) -> bool {
        !self.handlers.is_empty()
    }

    /// Waits for the next handler to end and sends its answer; over at once when there is none.
    pub(crate) async fn handled(&mut self) {
        match self.handlers.join_next_with_id().await {
            None => {}
            Some(Ok((id, (stream, answer)))) => {
                self.streams.remove(&id);
                self.answer(stream, answer);
            }
            Some(Err(error)) => self.panicked(&error),
        }
    }

    fn panicked(&mut self, error: &JoinError) {
        if let Some(stream) = self.streams.remove(&error.id()) {
            self.answer(stream, Err(panicked()));
        }
    }

    fn start(&mut self, stream: u32, data: Bytes) -> Result<(), Status> {
        self.next_stream(stream)?;
        let max = self.shared.options.requests_in_flight.max(1);
        if self.handlers.len() >= max {
            let text = format!("{max} requests are in flight, no more are accepted");
            return Err(Status::new(Code::ResourceExhausted, text));
        }
        let request = decode_request(data)?;
        let service = Arc::clone(&self.service);
        let mut handler = Box::pin(async move {
            let Some(deadline) = request.deadline else {
                return service.call(request).await;
            };
            let late = || Err(Status::new(Code::DeadlineExceeded, "the deadline passed"));
            timeout_at(deadline, service.call(request))
                .await
                .unwrap_or_else(|_| late())
        });
        // Answers that the peer leaves unread are bounded by how many handlers there are.
        if self.shared.reads_on()
            && let Poll::Ready(answer) = first_turn(handler.as_mut())
        {
            self.answer(stream, answer);
            return Ok(());
        }
        let task = self.handlers.spawn(async move { (stream, handler.await) });
        self.streams.insert(task.id(), stream);
        Ok(())
    }

    /// Stream ids of requests are odd and rise.
    fn next_stream(&mut self, stream: u32) -> Result<(), Status> {
        if stream.is_multiple_of(2) || stream <= self.last_stream {
            let text = format!(
                "stream id {stream} is not odd and greater than {}",
                self.last_stream
            );
            return Err(Status::new(Code::InvalidArgument, text));
        }
        self.last_stream = stream;
        Ok(())
    }
}

/// Polls a handler that nobody wakes: whoever polls it next is who it wakes.
fn first_turn(
    handler: Pin<&mut impl Future<Output = Result<Bytes, Status>>>,
) -> Poll<Result<Bytes, Status>> {
    let mut nobody = Context::from_waker(Waker::noop());
    let turn = AssertUnwindSafe(|| handler.poll(&mut nobody));
    // After a panic the handler is only dropped.
    catch_unwind(turn).unwrap_or_else(|_| Poll::Ready(Err(panicked())))
}

fn panicked() -> Status {
    Status::new(Code::Internal, "the handler panicked")
}

fn decode_request(data: Bytes) -> Result<Request, Status> {
    let envelope = decode_envelope(data)?;
    let timeout = u64::try_from(envelope.timeout_nano)
        .ok()
        .filter(|nanos| *nanos > 0);
    let deadline =
        timeout.and_then(|nanos| Instant::now().checked_add(Duration::from_nanos(nanos)));
    Ok(Request {
        service: envelope.service,
        method: envelope.method,
        payload: envelope.payload,
        metadata: envelope.metadata,
        deadline,
    })
}

/// Decodes a request, after a look at its outermost fields: a small frame must not become a
/// large list.
pub(crate) fn decode_envelope(data: Bytes) -> Result<RequestEnvelope, Status> {
    let malformed =
        |error| Status::new(Code::InvalidArgument, format!("malformed request: {error}"));
    let entries = count_metadata(data.clone()).map_err(malformed)?;
    if entries > METADATA_MAX {
        let text = format!("{entries} entries of metadata, at most {METADATA_MAX} are accepted");
        return Err(Status::new(Code::ResourceExhausted, text));
    }
    RequestEnvelope::decode(data).map_err(malformed)
}

fn count_metadata(mut data: Bytes) -> Result<usize, prost::DecodeError> {
    let mut count = 0;
    while data.has_remaining() {
        let (tag, wire_type) = decode_key(&mut data)?;
        count += usize::from(tag == 5);
        let length = match wire_type {
            WireType::Varint => decode_varint(&mut data).map(|_| 0)?,
            WireType::SixtyFourBit => 8,
            WireType::ThirtyTwoBit => 4,
            WireType::LengthDelimited => decode_varint(&mut data)?,
            // Not in these messages; decoding says what is wrong.
            WireType::StartGroup | WireType::EndGroup => return Ok(count),
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        data.advance(length.min(data.remaining()));
    }
    Ok(count)
}

/// Encodes an answer behind [`SPARE`] bytes. One that is too large becomes a status that says so.
fn encode_answer(answer: Result<Bytes, Status>) -> BytesMut {
    let envelope = match answer {
        Ok(payload) => ResponseEnvelope {
            status: None,
            payload,
        },
        Err(status) => ResponseEnvelope {
            status: Some(status.into()),
            payload: Bytes::new(),
        },
    };
    let length = envelope.encoded_len();
    if length > frame::MAX_DATA {
        let max = frame::MAX_DATA;
        let text = format!("message length {length} exceed maximum message size of {max}");
        return encode_answer(Err(Status::new(Code::ResourceExhausted, text)));
    }
    let mut message = BytesMut::with_capacity(SPARE + length);
    message.resize(SPARE, 0);
    envelope.encode_raw(&mut message);
    message
}
