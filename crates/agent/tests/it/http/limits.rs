//! What a client cannot do to the agent, and how the agent stops.

use std::sync::atomic::Ordering;
use std::time::Duration;

use longshore_agent::http::HttpLimits;
use longshore_agent::service::ExitInfo;

use super::raw::{Connection, JSON, call, call_about, call_json, request};
use super::{eventually, serve, serve_with};

const HEALTH: &str = r#"{"type":"GET_HEALTH"}"#;

async fn send_call(socket: &std::path::Path, kind: &str, id: &str) -> Connection {
    let mut connection = Connection::open(socket).await;
    let body = call_json(kind, id, "");
    connection
        .send(&request("POST /api/v1", &[JSON], body.as_bytes()))
        .await;
    connection
}

#[tokio::test]
async fn a_body_over_the_limit_is_413_before_it_is_sent() {
    let limits = HttpLimits {
        max_body: 1000,
        ..HttpLimits::default()
    };
    let served = serve_with(limits, None).await;
    let mut connection = Connection::open(&served.socket).await;
    let head = "POST /api/v1 HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1001\r\n\r\n";
    connection.send(head.as_bytes()).await;
    let reply = connection.reply().await;
    assert_eq!(reply.status, 413);
    assert!(reply.text().contains("1000 bytes"), "{}", reply.text());
    assert!(connection.is_closed_in_silence().await);
    let mut chunked = Connection::open(&served.socket).await;
    let head = "POST /api/v1 HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    chunked
        .send(format!("{head}400\r\n{}\r\n", " ".repeat(1024)).as_bytes())
        .await;
    assert_eq!(chunked.reply().await.status, 413);
    assert_eq!(call(&served.socket, HEALTH).await.status, 200);
}

#[tokio::test]
async fn a_head_that_is_too_long_is_refused() {
    let served = serve().await;
    let mut connection = Connection::open(&served.socket).await;
    connection.send(b"POST /api/v1 HTTP/1.1\r\nX-Long: ").await;
    connection.send("x".repeat(70_000).as_bytes()).await;
    // The head has no end, so the server can only say 431, which may be lost, and close.
    while !connection.is_closed_in_silence().await {}
    assert_eq!(call(&served.socket, HEALTH).await.status, 200);
}

#[tokio::test]
async fn a_head_or_a_body_that_does_not_come_ends_the_connection() {
    let limits = HttpLimits {
        header_timeout: Duration::from_millis(50),
        body_timeout: Duration::from_millis(50),
        ..HttpLimits::default()
    };
    let served = serve_with(limits, None).await;
    let mut head = Connection::open(&served.socket).await;
    head.send(b"POST /api/v1 HTTP/1.1\r\nHost: x\r\nX-").await;
    assert!(head.is_closed_in_silence().await);
    let mut idle = Connection::open(&served.socket).await;
    assert!(idle.is_closed_in_silence().await);
    let mut body = Connection::open(&served.socket).await;
    body.send(b"POST /api/v1 HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{").await;
    assert_eq!(body.reply().await.status, 408);
    assert!(body.is_closed_in_silence().await);
}

#[tokio::test]
async fn pending_waits_are_bounded_and_never_keep_other_calls_out() {
    let limits = HttpLimits {
        connections: 4,
        waits: 2,
        ..HttpLimits::default()
    };
    let served = serve_with(limits, None).await;
    call_about(&served.socket, "LAUNCH_CONTAINER", "c1", "").await;
    let first = send_call(&served.socket, "WAIT_CONTAINER", "c1").await;
    let mut second = send_call(&served.socket, "WAIT_CONTAINER", "c1").await;
    eventually("two waiters", || served.containers.waiting() == 2).await;
    let refused = call_about(&served.socket, "WAIT_CONTAINER", "c1", "").await;
    assert_eq!(refused.status, 503);
    assert!(
        refused.text().contains("2 calls are waiting"),
        "{}",
        refused.text()
    );
    assert_eq!(call(&served.socket, HEALTH).await.status, 200);
    drop(first);
    eventually("one waiter", || served.containers.waiting() == 1).await;
    let mut third = send_call(&served.socket, "WAIT_CONTAINER", "c1").await;
    eventually("two waiters again", || served.containers.waiting() == 2).await;
    served.containers.end("c1", ExitInfo::default());
    assert_eq!(second.reply().await.status, 200);
    assert_eq!(third.reply().await.status, 200);
}

#[tokio::test]
async fn connections_over_the_limit_wait_for_their_turn() {
    let limits = HttpLimits {
        connections: 2,
        ..HttpLimits::default()
    };
    let served = serve_with(limits, None).await;
    let mut open = Vec::new();
    for _ in 0..2 {
        let mut connection = Connection::open(&served.socket).await;
        assert_eq!(
            connection.post(&[JSON], HEALTH.as_bytes()).await.status,
            200
        );
        open.push(connection);
    }
    let mut queued = Connection::open(&served.socket).await;
    queued
        .send(&request("POST /api/v1", &[JSON], HEALTH.as_bytes()))
        .await;
    assert!(queued.is_silent().await);
    open.pop();
    assert_eq!(queued.reply().await.status, 200);
}

#[tokio::test]
async fn launches_over_the_limit_wait_for_their_turn_even_when_their_callers_leave() {
    let limits = HttpLimits {
        operations: 1,
        ..HttpLimits::default()
    };
    let served = serve_with(limits, None).await;
    let begun = || served.containers.begun.load(Ordering::SeqCst);
    drop({
        let caller = send_call(&served.socket, "LAUNCH_CONTAINER", "held").await;
        eventually("the launch", || begun() == 1).await;
        caller
    });
    let mut next = send_call(&served.socket, "LAUNCH_CONTAINER", "c2").await;
    assert!(next.is_silent().await);
    assert_eq!(begun(), 1);
    served.containers.gate.add_permits(1);
    assert_eq!(next.reply().await.status, 200);
    assert_eq!(begun(), 2);
}

#[tokio::test]
async fn an_answer_over_the_limit_is_a_500() {
    let limits = HttpLimits {
        max_answer: 100,
        ..HttpLimits::default()
    };
    let served = serve_with(limits, None).await;
    call_about(&served.socket, "LAUNCH_CONTAINER", "c1", "").await;
    let list = r#"{"type":"GET_CONTAINERS","get_containers":{"show_standalone":true}}"#;
    let reply = call(&served.socket, list).await;
    assert_eq!(reply.status, 500);
    assert!(
        reply.text().contains("over the limit of 100 bytes"),
        "{}",
        reply.text()
    );
}

#[tokio::test]
async fn a_shutdown_drops_waits_in_silence_and_lets_launches_finish() {
    let served = serve().await;
    call_about(&served.socket, "LAUNCH_CONTAINER", "c1", "").await;
    let mut waiter = send_call(&served.socket, "WAIT_CONTAINER", "c1").await;
    let mut launch = send_call(&served.socket, "LAUNCH_CONTAINER", "held").await;
    let mut idle = Connection::open(&served.socket).await;
    assert_eq!(idle.post(&[JSON], HEALTH.as_bytes()).await.status, 200);
    let containers = served.containers;
    eventually("both calls", || {
        containers.waiting() == 1 && containers.begun.load(Ordering::SeqCst) == 2
    })
    .await;
    let shutdown = tokio::spawn(served.server.shutdown());
    assert!(waiter.is_closed_in_silence().await);
    assert!(idle.is_closed_in_silence().await);
    assert!(!shutdown.is_finished());
    assert!(!served.socket.exists());
    containers.gate.add_permits(1);
    assert_eq!(launch.reply().await.status, 200);
    shutdown.await.unwrap();
}

#[tokio::test]
async fn a_shutdown_has_a_deadline() {
    let limits = HttpLimits {
        shutdown_timeout: Duration::from_millis(50),
        ..HttpLimits::default()
    };
    let served = serve_with(limits, None).await;
    let mut launch = send_call(&served.socket, "LAUNCH_CONTAINER", "held").await;
    eventually("the launch", || {
        served.containers.begun.load(Ordering::SeqCst) == 1
    })
    .await;
    tokio::time::timeout(Duration::from_secs(10), served.server.shutdown())
        .await
        .unwrap();
    assert!(launch.is_closed_in_silence().await);
}
