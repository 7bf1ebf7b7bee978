//! The `ttrpc` crate as a hostile peer: its ids can fall on the wire, its status codes are others.
//!
//! Its tasks run on several threads in real time: that is where the ids race.

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use longshore_ttrpc::{CallError, CallOptions, Client, Code, Layout, NoService, Options, start};
use tokio::net::UnixStream;
use tokio::task::JoinSet;
use ttrpc::r#async::transport::Socket;
use ttrpc::r#async::{MethodHandler, Server, Service, TtrpcContext};

use crate::raw::{Behaviours, spawn};

const SERVICE: &str = "example.Echo";
const LONG: Duration = Duration::from_secs(30);

/// Their client, and our server.
fn asked() -> (ttrpc::r#async::Client, Client) {
    let (near, far) = tokio::io::duplex(64 << 10);
    let service = Behaviours::default();
    let (ours, _driver) = spawn(near, Layout::Server, service, Options::default());
    (ttrpc::r#async::Client::new(Socket::new(far)), ours)
}

async fn ask(
    client: &ttrpc::r#async::Client,
    method: &str,
    payload: Vec<u8>,
    timeout: Duration,
) -> Result<Vec<u8>, ttrpc::Error> {
    let request = ttrpc::Request {
        service: SERVICE.to_owned(),
        method: method.to_owned(),
        payload,
        timeout_nano: i64::try_from(timeout.as_nanos()).unwrap(),
        ..ttrpc::Request::default()
    };
    let response = client.request(request).await?;
    Ok(response.payload)
}

fn code(error: &ttrpc::Error) -> i32 {
    match error {
        ttrpc::Error::RpcStatus(status) => status.code.value(),
        other => panic!("{other}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_client_whose_ids_race_is_answered_and_harms_itself_alone() {
    let (client, ours) = asked();
    let mut calls = JoinSet::new();
    for n in 0..60_u8 {
        let client = client.clone();
        calls.spawn(async move { (n, ask(&client, "Echo", vec![n; 100], LONG).await) });
    }
    let mut echoed = 0;
    while let Some(call) = calls.join_next().await {
        match call.unwrap() {
            (n, Ok(payload)) => {
                assert_eq!(payload, vec![n; 100]);
                echoed += 1;
            }
            // An id that is not greater than the last one.
            (_, Err(error)) => assert_eq!(code(&error), 3, "{error}"),
        }
    }
    assert!(echoed > 0);
    // One after another they rise.
    for n in 0..10 {
        let answer = ask(&client, "Echo", vec![n], LONG).await;
        assert_eq!(answer.unwrap(), [n]);
    }
    assert!(ours.close_reason().is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_gets_our_codes_and_large_answers() {
    let (client, ours) = asked();
    for (method, expected) in [
        ("Missing", Code::Unimplemented),
        ("Fail", Code::NotFound),
        ("Panic", Code::Internal),
        ("Huge", Code::ResourceExhausted),
    ] {
        let failed = ask(&client, method, Vec::new(), LONG).await.unwrap_err();
        assert_eq!(code(&failed), expected.number(), "{method}");
    }
    let large = vec![7; 3_900_000];
    assert!(ask(&client, "Echo", large.clone(), LONG).await.unwrap() == large);
    let late = ask(&client, "Hang", Vec::new(), Duration::from_millis(50)).await;
    assert!(late.is_err());
    assert_eq!(ask(&client, "Echo", vec![1], LONG).await.unwrap(), [1]);
    drop(client);
    let closed = tokio::time::timeout(LONG, ours.closed()).await;
    assert!(closed.is_ok(), "their end closes ours");
}

struct Echo;

impl MethodHandler for Echo {
    fn handler<'life0, 'async_trait>(
        &'life0 self,
        _context: TtrpcContext,
        request: ttrpc::Request,
    ) -> Pin<Box<dyn Future<Output = ttrpc::Result<ttrpc::Response>> + Send + 'async_trait>>
    where
        'life0: 'async_trait,
        Self: 'async_trait,
    {
        Box::pin(async move {
            Ok(ttrpc::Response {
                payload: request.payload,
                ..ttrpc::Response::default()
            })
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_server_answers_our_client_and_its_other_codes_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ttrpc.sock");
    let handler: Box<dyn MethodHandler + Send + Sync> = Box::new(Echo);
    let service = Service {
        methods: HashMap::from([("Echo".to_owned(), handler)]),
        streams: HashMap::new(),
    };
    let server = Server::new().bind(&format!("unix://{}", path.display()));
    let services = HashMap::from([(SERVICE.to_owned(), service)]);
    let mut server = server.unwrap().register_service(services);
    server.start().await.unwrap();
    let stream = UnixStream::connect(&path).await.unwrap();
    let (client, driver) = start(stream, Layout::Client, NoService, Options::default());
    let mut tasks = JoinSet::new();
    tasks.spawn(driver);

    let options = CallOptions::timeout(LONG);
    let mut calls = JoinSet::new();
    for n in 0..200 {
        let (client, options) = (client.clone(), options.clone());
        calls.spawn(async move {
            let text = format!("{n}:{}", "x".repeat(n * 50));
            let answer: Result<String, _> = client.call(SERVICE, "Echo", &text, &options).await;
            answer.is_ok_and(|answer| answer == text)
        });
    }
    assert!(calls.join_all().await.into_iter().all(|echoed| echoed));
    let large = Bytes::from(vec![b'x'; 3_900_000]);
    let answer: Bytes = client
        .call(SERVICE, "Echo", &large, &options)
        .await
        .unwrap();
    assert!(answer == large);
    for (service, method) in [(SERVICE, "Missing"), ("example.Other", "Echo")] {
        let empty = String::new();
        let failed = client.call::<String>(service, method, &empty, &options);
        let failed = failed.await.unwrap_err();
        assert!(matches!(failed, CallError::Remote(_)), "{failed:?}");
    }
    let echo: String = client
        .call(SERVICE, "Echo", &"still".to_owned(), &options)
        .await
        .unwrap();
    assert_eq!(echo, "still");
    assert!(client.close_reason().is_none());
}
