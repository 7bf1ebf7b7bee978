//! A peer that speaks raw frames, and a service with behaviours to pick by method name.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use longshore_ttrpc::{
    Client, CloseReason, Code, KeyValue, Layout, Options, Request, Service, Status, start,
};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;

pub(crate) const REQUEST: u8 = 1;
pub(crate) const RESPONSE: u8 = 2;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WireRequest {
    #[prost(string, tag = "1")]
    pub(crate) service: String,
    #[prost(string, tag = "2")]
    pub(crate) method: String,
    #[prost(bytes = "vec", tag = "3")]
    pub(crate) payload: Vec<u8>,
    #[prost(int64, tag = "4")]
    pub(crate) timeout_nano: i64,
    #[prost(message, repeated, tag = "5")]
    pub(crate) metadata: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WireStatus {
    #[prost(int32, tag = "1")]
    pub(crate) code: i32,
    #[prost(string, tag = "2")]
    pub(crate) message: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WireResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) status: Option<WireStatus>,
    #[prost(bytes = "vec", tag = "2")]
    pub(crate) payload: Vec<u8>,
}

impl WireResponse {
    pub(crate) fn code(&self) -> i32 {
        self.status.as_ref().map_or(0, |status| status.code)
    }
}

/// A message as it goes over plain ttrpc.
pub(crate) fn frame(stream: u32, kind: u8, data: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(data.len()).unwrap().to_be_bytes().to_vec();
    bytes.extend(stream.to_be_bytes());
    bytes.extend([kind, 0]);
    bytes.extend(data);
    bytes
}

pub(crate) fn mux_frame(connection: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = connection.to_be_bytes().to_vec();
    bytes.extend(u32::try_from(payload.len()).unwrap().to_be_bytes());
    bytes.extend(payload);
    bytes
}

/// The far end of a plain stream, by hand.
pub(crate) struct RawPeer(pub(crate) DuplexStream);

impl RawPeer {
    pub(crate) async fn read_frame(&mut self) -> (u32, u8, Vec<u8>) {
        let length = self.0.read_u32().await.unwrap();
        let stream = self.0.read_u32().await.unwrap();
        let kind = self.0.read_u8().await.unwrap();
        assert_eq!(
            self.0.read_u8().await.unwrap(),
            0,
            "unary frames have no flags"
        );
        let mut data = vec![0; length as usize];
        self.0.read_exact(&mut data).await.unwrap();
        (stream, kind, data)
    }

    pub(crate) async fn request(&mut self, stream: u32, request: &WireRequest) {
        self.0
            .write_all(&frame(stream, REQUEST, &request.encode_to_vec()))
            .await
            .unwrap();
    }

    pub(crate) async fn answer(&mut self, stream: u32, payload: &[u8]) {
        let response = WireResponse {
            status: None,
            payload: payload.to_vec(),
        };
        self.0
            .write_all(&frame(stream, RESPONSE, &response.encode_to_vec()))
            .await
            .unwrap();
    }

    pub(crate) async fn response(&mut self) -> (u32, WireResponse) {
        let (stream, kind, data) = self.read_frame().await;
        assert_eq!(kind, RESPONSE);
        (stream, WireResponse::decode(data.as_slice()).unwrap())
    }
}

/// Answers by method name.
#[derive(Clone, Default)]
pub(crate) struct Behaviours {
    pub(crate) running: Arc<AtomicUsize>,
}

struct Running(Arc<AtomicUsize>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Service for Behaviours {
    async fn call(&self, request: Request) -> Result<Bytes, Status> {
        self.running.fetch_add(1, Ordering::SeqCst);
        let _running = Running(Arc::clone(&self.running));
        match request.method.as_str() {
            "Echo" => Ok(request.payload),
            "Metadata" => Ok(Bytes::from(
                request.metadata.len().to_string().encode_to_vec(),
            )),
            "Hang" => std::future::pending().await,
            "Sleep" => {
                tokio::time::sleep(Duration::from_secs(1)).await;
                Ok(request.payload)
            }
            "Fail" => Err(Status::new(Code::NotFound, "nothing here")),
            "Huge" => Ok(Bytes::from(vec![0; longshore_ttrpc::MAX_DATA])),
            "Panic" => panic!("as asked"),
            "PanicLater" => {
                tokio::task::yield_now().await;
                panic!("as asked")
            }
            method => Err(Status::unimplemented(&request.service, method)),
        }
    }
}

pub(crate) fn spawn(
    stream: DuplexStream,
    layout: Layout,
    service: impl Service,
    options: Options,
) -> (Client, JoinHandle<CloseReason>) {
    let (client, driver) = start(stream, layout, service, options);
    (client, tokio::spawn(driver))
}

/// An asking end and a raw peer.
pub(crate) fn asking(options: Options) -> (Client, RawPeer, JoinHandle<CloseReason>) {
    let (near, far) = tokio::io::duplex(64 << 10);
    let (client, driver) = spawn(near, Layout::Client, Behaviours::default(), options);
    (client, RawPeer(far), driver)
}

/// An answering end and a raw peer.
pub(crate) fn answering(
    options: Options,
) -> (Client, RawPeer, JoinHandle<CloseReason>, Behaviours) {
    let (near, far) = tokio::io::duplex(64 << 10);
    let service = Behaviours::default();
    let (client, driver) = spawn(near, Layout::Server, service.clone(), options);
    (client, RawPeer(far), driver, service)
}

pub(crate) fn wire_request(method: &str) -> WireRequest {
    WireRequest {
        service: "s".into(),
        method: method.into(),
        ..WireRequest::default()
    }
}
