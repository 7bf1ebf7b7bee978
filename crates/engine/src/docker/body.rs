use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use tokio::task::JoinSet;

use super::http::Call;
use crate::EngineError;

/// The body of an answer with its connection, which closes when this is dropped.
#[derive(Debug)]
pub(crate) struct Body {
    incoming: Incoming,
    /// Holds the one task that moves the bytes.
    _driver: JoinSet<()>,
}

impl Body {
    pub(crate) fn new(incoming: Incoming, driver: JoinSet<()>) -> Self {
        Self {
            incoming,
            _driver: driver,
        }
    }

    /// The next bytes, `None` at the end. May be dropped and called again.
    pub(crate) async fn chunk(&mut self) -> Option<Result<Bytes, hyper::Error>> {
        loop {
            match self.incoming.frame().await? {
                Ok(frame) => {
                    if let Ok(data) = frame.into_data()
                        && !data.is_empty()
                    {
                        return Some(Ok(data));
                    }
                }
                Err(error) => return Some(Err(error)),
            }
        }
    }

    /// All of it; refused by its announced length before a byte is read, or when the call's limit
    /// is passed.
    pub(crate) async fn whole(mut self, call: &Call) -> Result<Bytes, EngineError> {
        let announced = self.incoming.size_hint().exact();
        if announced.is_some_and(|length| length > call.limit as u64) {
            return Err(call.too_large());
        }
        let mut whole = BytesMut::new();
        while let Some(chunk) = self.chunk().await {
            let data = chunk.map_err(|error| call.gone(Some(error)))?;
            if data.len() > call.limit - whole.len() {
                return Err(call.too_large());
            }
            whole.extend_from_slice(&data);
        }
        Ok(whole.freeze())
    }

    /// Its first `limit` bytes. A cut connection is one here too: half an explanation may mean
    /// something else.
    pub(crate) async fn start(mut self, call: &Call, limit: usize) -> Result<Bytes, EngineError> {
        let mut start = BytesMut::new();
        while let Some(chunk) = self.chunk().await {
            let data = chunk.map_err(|error| call.gone(Some(error)))?;
            let room = limit - start.len();
            start.extend_from_slice(&data[..data.len().min(room)]);
            if data.len() > room {
                break;
            }
        }
        Ok(start.freeze())
    }
}
