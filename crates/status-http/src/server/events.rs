//! The stream of changes for one listener: the sections of the page that are no longer as it has them.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::body::{Body, Frame};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_util::task::AbortOnDropHandle;

use super::Shared;
use crate::page::{self, Sections};

/// A body; whoever drops it ends what feeds it.
pub(super) struct Events {
    receiver: mpsc::Receiver<Bytes>,
    _feeder: AbortOnDropHandle<()>,
    _slot: OwnedSemaphorePermit,
}

impl Events {
    pub(super) fn start(shared: &Arc<Shared>, slot: OwnedSemaphorePermit) -> Self {
        // One event: a slow listener gets the newest when it takes the next.
        let (sender, receiver) = mpsc::channel(1);
        let feeder = tokio::spawn(feed(Arc::clone(shared), sender));
        Self {
            receiver,
            _feeder: AbortOnDropHandle::new(feeder),
            _slot: slot,
        }
    }
}

async fn feed(shared: Arc<Shared>, sender: mpsc::Sender<Bytes>) {
    let limits = shared.limits;
    let mut changes = shared.source.changes();
    let mut has = Sections::default();
    loop {
        // Made once there is room for it, so that it is never old.
        let Ok(room) = sender.reserve().await else {
            return;
        };
        let now = page::sections(&shared.source.snapshot());
        let event = page::event(&has, &now);
        has = now;
        // A comment, so that a listener that is gone is found out.
        room.send(Bytes::from(event.unwrap_or_else(|| ":\n\n".to_owned())));
        tokio::time::sleep(limits.pause).await;
        match tokio::time::timeout(limits.refresh, changes.changed()).await {
            Ok(true) | Err(_) => {}
            Ok(false) => return,
        }
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let next = self.receiver.poll_recv(cx);
        next.map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}
