//! What the two directions of a trunk share: the way out, and the calls that await an answer.
//!
//! One lock guards both, so that stream ids rise in the order in which requests are written. It
//! is never held across an await. A message is written at once, by whoever sends it, when the
//! socket takes it; otherwise it is queued, and the trunk's driver writes on:
//!
//! ```text
//!   idle ──send──▶ written at once ──▶ idle
//!                  │ socket is full
//!                  ▼
//!               queued ──driver: writable──▶ … ──▶ idle
//!                  │ nothing read for `write_stall`
//!                  ▼
//!               closed
//! ```

use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::AsyncWrite;
use tokio::sync::{Notify, Semaphore, oneshot, watch};
use tokio::time::Instant;

use crate::eager::Eagerness;
use crate::error::{CallError, CloseReason};
use crate::frame::{self, Header};
use crate::mux;
use crate::options::{Layout, Options};

/// Bytes before the data of a message that is being encoded: room for both headers.
pub(crate) const SPARE: usize = mux::HEADER + frame::HEADER;

/// How much larger than a request a frame may be, so that one which is somewhat too large is
/// answered rather than the end of the trunk; and the least that a frame may hold, in bytes.
const FRAME_TO_REQUEST: usize = 4;
const FRAME_MIN: usize = 64 << 10;

type Writer = Pin<Box<dyn AsyncWrite + Send>>;
type Answer = Result<Bytes, CallError>;

/// Which way a message goes; the two take turns when both wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Request,
    Response,
}

pub(crate) struct Shared {
    state: Mutex<State>,
    pub(crate) options: Options,
    pub(crate) layout: Layout,
    pub(crate) permits: Semaphore,
    pub(crate) request_limit: AtomicUsize,
    /// Notified when `queued` has fallen to the limit.
    drained: Notify,
    closed: watch::Sender<Option<CloseReason>>,
    /// Frames that belong to nothing: unknown connections, answers to no call.
    pub(crate) dropped_frames: AtomicU64,
    pub(crate) eagerness: Eagerness,
}

struct State {
    writer: Option<Writer>,
    /// The rest of the message being written.
    current: VecDeque<Bytes>,
    requests: VecDeque<BytesMut>,
    responses: VecDeque<BytesMut>,
    /// Who goes first when both wait.
    turn: Direction,
    queued: usize,
    /// Bytes of answers whose writing has not begun.
    unsent_answers: usize,
    blocked_since: Option<Instant>,
    next_stream: u32,
    pending: HashMap<u32, oneshot::Sender<Answer>>,
    driver: Option<Waker>,
}

impl Shared {
    pub(crate) fn new(writer: Writer, layout: Layout, options: Options) -> Arc<Self> {
        let state = State {
            writer: Some(writer),
            current: VecDeque::new(),
            requests: VecDeque::new(),
            responses: VecDeque::new(),
            turn: Direction::Response,
            queued: 0,
            unsent_answers: 0,
            blocked_since: None,
            next_stream: 1,
            pending: HashMap::new(),
            driver: None,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            permits: Semaphore::new(options.calls_in_flight.clamp(1, Semaphore::MAX_PERMITS)),
            request_limit: AtomicUsize::new(options.request_limit.min(frame::MAX_DATA)),
            options,
            layout,
            drained: Notify::new(),
            closed: watch::Sender::new(None),
            dropped_frames: AtomicU64::new(0),
            eagerness: Eagerness::default(),
        })
    }

    /// The most payload of one frame: where requests are limited, frames are, so that no more is
    /// stored for a peer than it may send.
    pub(crate) fn frame_limit(&self) -> usize {
        match self.request_limit.load(Ordering::Relaxed) {
            frame::MAX_DATA.. => mux::MAX_PAYLOAD,
            limit => (limit * FRAME_TO_REQUEST).clamp(FRAME_MIN, mux::MAX_PAYLOAD),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a request that was encoded behind [`SPARE`] bytes. The answer comes through the
    /// receiver; the id is for [`Self::forget`].
    pub(crate) fn send_request(
        &self,
        message: BytesMut,
    ) -> Result<(u32, oneshot::Receiver<Answer>), CloseReason> {
        let (sender, receiver) = oneshot::channel();
        let mut state = self.lock();
        self.check_open()?;
        let stream = state.next_stream;
        // Odd ids for ever: after 2^31 calls there are none left, and the trunk ends.
        let Some(next) = stream.checked_add(2) else {
            drop(state);
            let reason = CloseReason::Local("all stream ids are used".into());
            self.close(reason.clone());
            return Err(reason);
        };
        state.next_stream = next;
        state.pending.insert(stream, sender);
        self.send(state, Direction::Request, stream, message);
        Ok((stream, receiver))
    }

    /// Sends an answer that was encoded behind [`SPARE`] bytes.
    pub(crate) fn send_response(&self, stream: u32, message: BytesMut) {
        let state = self.lock();
        if self.check_open().is_ok() {
            self.send(state, Direction::Response, stream, message);
        }
    }

    fn send(
        &self,
        mut state: MutexGuard<'_, State>,
        direction: Direction,
        stream: u32,
        mut message: BytesMut,
    ) {
        let kind = match direction {
            Direction::Request => frame::REQUEST,
            Direction::Response => frame::RESPONSE,
        };
        // Callers refuse what is over MAX_DATA.
        let length = u32::try_from(message.len() - SPARE).unwrap_or(u32::MAX);
        let header = Header {
            length,
            stream,
            kind,
            flags: 0,
        };
        message[mux::HEADER..SPARE].copy_from_slice(&header.to_bytes());
        state.queued += message.len();
        match direction {
            Direction::Request => state.requests.push_back(message),
            Direction::Response => {
                state.unsent_answers += message.len();
                state.responses.push_back(message);
            }
        }
        if state.blocked_since.is_some() {
            return;
        }
        let mut nobody = Context::from_waker(Waker::noop());
        match state.flush(&mut nobody, self.layout) {
            Poll::Ready(Ok(())) => {}
            Poll::Ready(Err(error)) => {
                drop(state);
                self.close(io_reason("writing", error));
            }
            // The driver takes over, with a waker that somebody listens to.
            Poll::Pending => {
                let driver = state.driver.take();
                drop(state);
                wake(driver);
            }
        }
    }

    /// Writes what is queued; ready with the reason when writing failed, and with nothing when
    /// the trunk no longer stalls at `stalls_at`, or begins to be blocked.
    pub(crate) fn poll_flush(
        &self,
        cx: &mut Context<'_>,
        stalls_at: Option<Instant>,
    ) -> Poll<Option<CloseReason>> {
        let mut state = self.lock();
        state.driver = Some(cx.waker().clone());
        let result = state.flush(cx, self.layout);
        let room = state.queued <= self.options.queued_bytes;
        let changed = self.stall_of(&state) != stalls_at;
        drop(state);
        if room {
            self.drained.notify_waiters();
        }
        match result {
            Poll::Ready(Err(error)) => Poll::Ready(Some(io_reason("writing", error))),
            Poll::Ready(Ok(())) | Poll::Pending if changed => Poll::Ready(None),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Pending,
        }
    }

    /// When the trunk counts as stalled; `None` while nothing is blocked.
    pub(crate) fn stalls_at(&self) -> Option<Instant> {
        self.stall_of(&self.lock())
    }

    fn stall_of(&self, state: &State) -> Option<Instant> {
        state
            .blocked_since
            .map(|since| since + self.options.write_stall)
    }

    /// Whether the peer may ask for more: not while it leaves too many answers unread.
    pub(crate) fn reads_on(&self) -> bool {
        self.lock().unsent_answers <= self.options.queued_bytes
    }

    /// Returns once no more than the limit of bytes is queued.
    pub(crate) async fn room(&self) {
        loop {
            let drained = self.drained.notified();
            let mut drained = std::pin::pin!(drained);
            drained.as_mut().enable();
            if self.lock().queued <= self.options.queued_bytes || self.check_open().is_err() {
                return;
            }
            drained.await;
        }
    }

    /// Hands an answer to its call; an answer to no call is dropped and counted.
    pub(crate) fn answer(&self, stream: u32, answer: Answer) {
        let caller = self.lock().pending.remove(&stream);
        let taken = caller.is_some_and(|caller| caller.send(answer).is_ok());
        if !taken {
            self.dropped_frames.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The call is no longer awaited.
    pub(crate) fn forget(&self, stream: u32) {
        self.lock().pending.remove(&stream);
    }

    /// Closes the trunk; every call ends with the reason. Only the first call has an effect.
    pub(crate) fn close(&self, reason: CloseReason) {
        let mut state = self.lock();
        let first = self.closed.send_if_modified(|closed| {
            let first = closed.is_none();
            closed.get_or_insert_with(|| reason.clone());
            first
        });
        if !first {
            return;
        }
        let pending = std::mem::take(&mut state.pending);
        let writer = state.writer.take();
        state.current.clear();
        state.requests.clear();
        state.responses.clear();
        state.queued = 0;
        state.unsent_answers = 0;
        state.blocked_since = None;
        let driver = state.driver.take();
        drop(state);
        drop(writer);
        self.permits.close();
        self.drained.notify_waiters();
        for caller in pending.into_values() {
            // A caller that has gone away needs no answer.
            drop(caller.send(Err(CallError::Closed(reason.clone()))));
        }
        wake(driver);
    }

    pub(crate) fn check_open(&self) -> Result<(), CloseReason> {
        self.closed.borrow().clone().map_or(Ok(()), Err)
    }

    pub(crate) async fn closed(&self) -> CloseReason {
        let mut receiver = self.closed.subscribe();
        match receiver
            .wait_for(Option::is_some)
            .await
            .map(|reason| reason.clone())
        {
            Ok(Some(reason)) => reason,
            // The sender lives in `self`.
            Ok(None) | Err(_) => CloseReason::Local("the trunk is gone".into()),
        }
    }
}

impl State {
    /// Writes until all is written or the socket is full.
    fn flush(&mut self, cx: &mut Context<'_>, layout: Layout) -> Poll<io::Result<()>> {
        let Some(mut writer) = self.writer.take() else {
            return Poll::Ready(Ok(()));
        };
        let result = self.write_all(&mut writer, cx, layout);
        if result.is_pending() {
            self.blocked_since.get_or_insert_with(Instant::now);
        } else {
            self.blocked_since = None;
        }
        self.writer = Some(writer);
        result
    }

    fn write_all(
        &mut self,
        writer: &mut Writer,
        cx: &mut Context<'_>,
        layout: Layout,
    ) -> Poll<io::Result<()>> {
        loop {
            if self.current.is_empty() && !self.take_next(layout) {
                return Poll::Ready(Ok(()));
            }
            let mut slices = [IoSlice::new(&[]); 3];
            let mut count = 0;
            for (slice, chunk) in slices.iter_mut().zip(&self.current) {
                *slice = IoSlice::new(chunk);
                count += 1;
            }
            let written = ready!(writer.as_mut().poll_write_vectored(cx, &slices[..count]))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.blocked_since = None;
            self.advance(written);
        }
    }

    /// Makes the next message the current one; the directions take turns.
    fn take_next(&mut self, layout: Layout) -> bool {
        let (first, second) = match self.turn {
            Direction::Request => (&mut self.requests, &mut self.responses),
            Direction::Response => (&mut self.responses, &mut self.requests),
        };
        let first_message = first.pop_front();
        let from_first = first_message.is_some();
        let Some(mut message) = first_message.or_else(|| second.pop_front()) else {
            return false;
        };
        let direction = if from_first {
            self.turn
        } else {
            self.turn.other()
        };
        self.turn = direction.other();
        if direction == Direction::Response {
            self.unsent_answers = self.unsent_answers.saturating_sub(message.len());
        }
        match layout {
            Layout::Client | Layout::Server => {
                message.advance(mux::HEADER);
                self.queued = self.queued.saturating_sub(mux::HEADER);
                self.current.push_back(message.freeze());
            }
            Layout::Mux { client, server } => {
                let connection = match direction {
                    Direction::Request => client,
                    Direction::Response => server,
                };
                self.current.extend(mux::frames(connection, message));
            }
        }
        true
    }

    fn advance(&mut self, mut written: usize) {
        self.queued = self.queued.saturating_sub(written);
        while let Some(chunk) = self.current.front_mut() {
            if written < chunk.len() {
                chunk.advance(written);
                return;
            }
            written -= chunk.len();
            self.current.pop_front();
        }
    }
}

impl Direction {
    fn other(self) -> Self {
        match self {
            Self::Request => Self::Response,
            Self::Response => Self::Request,
        }
    }
}

fn wake(driver: Option<Waker>) {
    if let Some(driver) = driver {
        driver.wake();
    }
}

pub(crate) fn io_reason(operation: &'static str, source: io::Error) -> CloseReason {
    CloseReason::Io {
        operation,
        source: Arc::new(source),
    }
}
