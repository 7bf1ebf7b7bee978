//! A peer that writes bytes as it likes.

use bytes::{Buf, BytesMut};
use longshore_nri_adaptation::Adaptation;
use longshore_nri_api::{ConfigureResponse, RegisterPluginRequest, SynchronizeResponse, service};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use crate::fake::soon;

/// ttrpc's `Request`, as far as NRI uses it.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Envelope {
    #[prost(string, tag = "1")]
    pub(crate) service: String,
    #[prost(string, tag = "2")]
    pub(crate) method: String,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) payload: Vec<u8>,
}

/// ttrpc's `Response`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Answer {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<AnswerStatus>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) payload: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AnswerStatus {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
}

pub(crate) const REQUEST: u8 = 1;
pub(crate) const RESPONSE: u8 = 2;

/// One frame of the multiplexer.
pub(crate) fn mux(connection: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap();
    [
        &connection.to_be_bytes()[..],
        &length.to_be_bytes(),
        payload,
    ]
    .concat()
}

/// One message of ttrpc.
pub(crate) fn message(stream: u32, kind: u8, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap();
    [
        &length.to_be_bytes()[..],
        &stream.to_be_bytes(),
        &[kind, 0],
        data,
    ]
    .concat()
}

/// A request to the runtime, framed.
pub(crate) fn request(stream: u32, method: &str, payload: Vec<u8>) -> Vec<u8> {
    let envelope = Envelope {
        service: service::RUNTIME.to_owned(),
        method: method.to_owned(),
        payload,
    };
    mux(
        service::RUNTIME_CONNECTION,
        &message(stream, REQUEST, &envelope.encode_to_vec()),
    )
}

/// An answer to the runtime, framed.
pub(crate) fn response(stream: u32, payload: Vec<u8>) -> Vec<u8> {
    let answer = Answer {
        status: None,
        payload,
    };
    mux(
        service::PLUGIN_CONNECTION,
        &message(stream, RESPONSE, &answer.encode_to_vec()),
    )
}

pub(crate) fn registration(full: &str) -> Vec<u8> {
    let (index, name) = full.split_once('-').unwrap();
    let request_ = RegisterPluginRequest {
        plugin_name: name.to_owned(),
        plugin_idx: index.to_owned(),
        nri_version: String::new(),
    };
    request_.encode_to_vec()
}

pub(crate) struct Raw {
    pub(crate) stream: DuplexStream,
    buffer: BytesMut,
}

impl Raw {
    pub(crate) fn attach(adaptation: &Adaptation) -> Self {
        let (stream, far) = tokio::io::duplex(64 << 10);
        adaptation.attach(far);
        Self {
            stream,
            buffer: BytesMut::new(),
        }
    }

    /// Writes; the other end may close meanwhile.
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        drop(soon(self.stream.write_all(bytes)).await);
    }

    /// Connection, stream, kind and data of the next message; `None` at the end. Messages of this
    /// test are at most one frame long.
    pub(crate) async fn next(&mut self) -> Option<(u32, u32, u8, Vec<u8>)> {
        loop {
            if self.buffer.len() >= 8 {
                let length = u32::from_be_bytes(self.buffer[4..8].try_into().unwrap()) as usize;
                if self.buffer.len() >= 8 + length {
                    let connection = self.buffer.get_u32();
                    let frame_length = self.buffer.get_u32() as usize;
                    let mut frame = self.buffer.split_to(frame_length);
                    let (data, stream, kind) = (frame.get_u32(), frame.get_u32(), frame.get_u8());
                    frame.advance(1);
                    assert_eq!(frame.len(), data as usize);
                    return Some((connection, stream, kind, frame.to_vec()));
                }
            }
            if soon(self.stream.read_buf(&mut self.buffer))
                .await
                .unwrap_or(0)
                == 0
            {
                return None;
            }
        }
    }

    /// The status of the next answer to a request of this end, if it is a failure.
    pub(crate) async fn status(&mut self) -> Option<AnswerStatus> {
        loop {
            let (connection, _, kind, data) = self.next().await.unwrap();
            // Configure may come before the answer to RegisterPlugin.
            if connection == service::RUNTIME_CONNECTION {
                assert_eq!(kind, RESPONSE);
                return Answer::decode(&data[..]).unwrap().status;
            }
        }
    }

    /// Reads until the other end closes.
    pub(crate) async fn closed(mut self) {
        let mut rest = Vec::new();
        drop(soon(self.stream.read_to_end(&mut rest)).await);
    }

    /// Registers, and answers Configure and Synchronize.
    pub(crate) async fn join(adaptation: &Adaptation, full: &str, events: i32) -> Self {
        let mut raw = Self::attach(adaptation);
        raw.send(&request(1, "RegisterPlugin", registration(full)))
            .await;
        let configured = ConfigureResponse { events }.encode_to_vec();
        let synchronized = SynchronizeResponse::default().encode_to_vec();
        let mut answers = [configured, synchronized].into_iter();
        while let Some((connection, stream, _, _)) = raw.next().await {
            if connection == service::PLUGIN_CONNECTION {
                let answer = answers.next().unwrap();
                raw.send(&response(stream, answer)).await;
            }
            if answers.len() == 0 {
                break;
            }
        }
        soon(adaptation.active(full)).await;
        raw
    }
}
