//! The request forms: every row that was observed on a Mesos agent.

use longshore_mesos_api::v1::agent::call::Type;
use longshore_mesos_api::v1::agent::{Call, Response, response};
use proptest::prelude::*;
use prost::Message as _;

use super::raw::{Connection, JSON, call, request};
use super::serve;

const PROTOBUF: (&str, &str) = ("Content-Type", "application/x-protobuf");
const HEALTH: &[u8] = br#"{"type":"GET_HEALTH"}"#;

fn health_protobuf() -> Vec<u8> {
    Call {
        r#type: Some(Type::GetHealth.into()),
        ..Call::default()
    }
    .encode_to_vec()
}

#[tokio::test]
async fn aa9_row_1_a_client_that_comes_before_the_recovery_is_over_is_answered_after_it() {
    use longshore_agent::http::{HttpLimits, HttpServer, Listeners};
    let dir = super::private_dir();
    let socket = dir.path().join("agent.sock");
    let listeners = Listeners::bind(&socket, None).await.unwrap();
    let mut early = Connection::open(&socket).await;
    early.send(&request("POST /api/v1", &[JSON], HEALTH)).await;
    assert!(early.is_silent().await);
    let containers = std::sync::Arc::new(super::FakeContainers::default());
    let server = HttpServer::start(listeners, containers, "a".into(), HttpLimits::default());
    assert_eq!(early.reply().await.status, 200);
    server.shutdown().await;
}

#[tokio::test]
async fn aa9_row_2_only_post_is_allowed() {
    let served = serve().await;
    for method in ["GET", "PUT", "DELETE", "PATCH"] {
        let mut connection = Connection::open(&served.socket).await;
        connection
            .send(&request(&format!("{method} /api/v1"), &[JSON], b""))
            .await;
        let reply = connection.reply().await;
        assert_eq!(
            (reply.status, reply.header("allow")),
            (405, Some("POST")),
            "{method}"
        );
        assert!(reply.text().contains(method), "{}", reply.text());
    }
    let mut connection = Connection::open(&served.socket).await;
    connection
        .send(b"HEAD /api/v1 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        .await;
    let head = connection.head().await;
    assert!(head.starts_with("HTTP/1.1 405 "), "{head}");
    assert!(head.to_lowercase().contains("allow: post"), "{head}");
}

#[tokio::test]
async fn aa9_rows_3_to_9_and_12_the_content_headers() {
    let served = serve().await;
    let recordio = ("Content-Type", "application/recordio");
    for (headers, status) in [
        (&[][..], 400),
        (&[("Content-Type", "text/plain")][..], 415),
        (&[recordio][..], 400),
        (&[recordio, ("Message-Content-Type", "text/plain")][..], 415),
        (
            &[JSON, ("Message-Content-Type", "application/json")][..],
            415,
        ),
        (&[JSON][..], 200),
        (
            &[("Content-Type", "application/json; charset=utf-8")][..],
            200,
        ),
        (&[("Content-Type", "Application/JSON")][..], 200),
        (&[JSON, ("Accept", "*/*")][..], 200),
        (&[JSON, ("Accept", "application/json; q=0.5")][..], 200),
        (&[JSON, ("Accept", "text/html")][..], 406),
        (&[JSON, ("Accept", "application/recordio")][..], 406),
        (
            &[
                JSON,
                ("Accept", "application/recordio"),
                ("Message-Accept", "text/plain"),
            ][..],
            406,
        ),
        (
            &[
                JSON,
                ("Accept", "application/json"),
                ("Message-Accept", "application/json"),
            ][..],
            406,
        ),
    ] {
        let reply = Connection::open(&served.socket)
            .await
            .post(headers, HEALTH)
            .await;
        assert_eq!(reply.status, status, "{headers:?}: {}", reply.text());
        let media_type = if status == 200 {
            "application/json"
        } else {
            "text/plain; charset=utf-8"
        };
        assert_eq!(
            reply.header("content-type"),
            Some(media_type),
            "{headers:?}"
        );
    }
}

#[tokio::test]
async fn aa9_row_10_what_cannot_be_parsed_is_400() {
    let served = serve().await;
    for body in [
        "",
        "{",
        "[]",
        r#"["type"]"#,
        "{}",
        r#"{"type":"NO_SUCH_CALL"}"#,
        r#"{"type":"get_health"}"#,
        r#"{"type":1}"#,
        r#"{"type":"WAIT_CONTAINER"}"#,
        r#"{"type":"WAIT_CONTAINER","wait_container":{}}"#,
        r#"{"type":"WAIT_CONTAINER","wait_container":{"container_id":{}}}"#,
        r#"{"type":"WAIT_CONTAINER","wait_container":{"container_id":"c"}}"#,
        r#"{"type":"GET_HEALTH"} x"#,
    ] {
        let reply = call(&served.socket, body).await;
        assert_eq!(reply.status, 400, "{body}: {}", reply.text());
        assert_eq!(
            reply.header("content-type"),
            Some("text/plain; charset=utf-8")
        );
    }
    let broken = Connection::open(&served.socket)
        .await
        .post(&[PROTOBUF], b"\xff\xff")
        .await;
    assert_eq!(broken.status, 400);
    let text = call(
        &served.socket,
        r#"{"type":"WAIT_CONTAINER","wait_container":{}}"#,
    )
    .await;
    assert!(
        text.text().contains("wait_container.container_id"),
        "{}",
        text.text()
    );
}

#[tokio::test]
async fn aa9_row_11_a_streaming_request_is_only_for_attach_container_input() {
    let served = serve().await;
    let headers = [
        ("Content-Type", "application/recordio"),
        ("Message-Content-Type", "application/json"),
    ];
    for (body, status) in [
        (r#"{"type":"GET_HEALTH"}"#, 415),
        (
            r#"{"type":"LAUNCH_CONTAINER","launch_container":{"container_id":{"value":"c"}}}"#,
            415,
        ),
        (r#"{"type":"ATTACH_CONTAINER_INPUT"}"#, 400),
        (
            r#"{"type":"ATTACH_CONTAINER_INPUT","attach_container_input":{"type":"CONTAINER_ID","container_id":{"value":"c"}}}"#,
            501,
        ),
    ] {
        let record = format!("{}\n{body}", body.len());
        let reply = Connection::open(&served.socket)
            .await
            .post(&headers, record.as_bytes())
            .await;
        assert_eq!(reply.status, status, "{body}: {}", reply.text());
    }
    let plain = r#"{"type":"ATTACH_CONTAINER_INPUT","attach_container_input":{"type":"PROCESS_IO","process_io":{}}}"#;
    assert_eq!(call(&served.socket, plain).await.status, 415);
    assert!(served.containers.launches.lock().unwrap().is_empty());
}

#[tokio::test]
async fn aa9_row_13_unknown_and_unserved_calls_are_501() {
    let served = serve().await;
    assert_eq!(
        call(&served.socket, r#"{"type":"UNKNOWN"}"#).await.text(),
        "501 Not Implemented."
    );
    for kind in [
        "GET_STATE",
        "GET_FLAGS",
        "GET_METRICS",
        "GET_TASKS",
        "PRUNE_IMAGES",
    ] {
        let reply = call(&served.socket, &format!(r#"{{"type":"{kind}"}}"#)).await;
        assert_eq!(reply.status, 501, "{kind}");
        assert!(reply.text().contains(kind), "{}", reply.text());
    }
    let session = r#"{"type":"LAUNCH_NESTED_CONTAINER_SESSION","launch_nested_container_session":
        {"container_id":{"value":"s","parent":{"value":"c"}}}}"#;
    assert_eq!(call(&served.socket, session).await.status, 501);
    let attach = r#"{"type":"ATTACH_CONTAINER_OUTPUT","attach_container_output":{"container_id":{"value":"c"}}}"#;
    let headers = [JSON, ("Accept", "application/recordio")];
    let reply = Connection::open(&served.socket)
        .await
        .post(&headers, attach.as_bytes())
        .await;
    assert_eq!(reply.status, 501);
}

#[tokio::test]
async fn the_answer_is_json_unless_protobuf_is_accepted() {
    let served = serve().await;
    let expected = Response {
        r#type: Some(response::Type::GetHealth.into()),
        get_health: Some(response::GetHealth { healthy: true }),
        ..Response::default()
    };
    let json = r#"{"type":"GET_HEALTH","get_health":{"healthy":true}}"#;
    let protobuf = ("Accept", "application/x-protobuf");
    let body = health_protobuf();
    for (headers, body, protobuf) in [
        (&[JSON][..], HEALTH, false),
        (&[PROTOBUF][..], &body[..], false),
        (&[JSON, protobuf][..], HEALTH, true),
        (&[PROTOBUF, protobuf][..], &body[..], true),
    ] {
        let reply = Connection::open(&served.socket)
            .await
            .post(headers, body)
            .await;
        assert_eq!(reply.status, 200, "{headers:?}");
        if protobuf {
            assert_eq!(reply.header("content-type"), Some("application/x-protobuf"));
            assert_eq!(Response::decode(&reply.body[..]).unwrap(), expected);
        } else {
            assert_eq!(reply.header("content-type"), Some("application/json"));
            assert_eq!(reply.text(), json);
        }
        assert!(reply.header("date").is_some());
        assert!(reply.header("server").is_none());
    }
}

#[tokio::test]
async fn only_the_api_paths_exist() {
    let served = serve().await;
    for (path, status) in [
        ("/api/v1", 200),
        ("/api/v1/", 200),
        ("/api/v1?x=y", 200),
        ("/slave(1)/api/v1", 200),
        ("/", 404),
        ("/health", 404),
        ("/api/v1/executor", 404),
        ("/slave(2)/api/v1", 404),
    ] {
        let mut connection = Connection::open(&served.socket).await;
        connection
            .send(&request(&format!("POST {path}"), &[JSON], HEALTH))
            .await;
        let reply = connection.reply().await;
        assert_eq!(reply.status, status, "{path}");
        if status == 404 {
            assert_eq!(reply.text(), "404 Not Found.");
        }
    }
}

#[tokio::test]
async fn keep_alive_pipelining_chunks_and_old_clients_work() {
    let served = serve().await;
    let mut connection = Connection::open(&served.socket).await;
    for _ in 0..3 {
        assert_eq!(connection.post(&[JSON], HEALTH).await.status, 200);
    }
    let one = request("POST /api/v1", &[JSON], HEALTH);
    connection
        .send(&[one.clone(), one.clone(), one].concat())
        .await;
    for _ in 0..3 {
        assert_eq!(connection.reply().await.status, 200);
    }
    let head = "POST /api/v1 HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n";
    let chunks =
        "Transfer-Encoding: chunked\r\n\r\n9\r\n{\"type\":\"\r\nc\r\nGET_HEALTH\"}\r\n0\r\n\r\n";
    connection.send(format!("{head}{chunks}").as_bytes()).await;
    assert_eq!(connection.reply().await.status, 200);
    let old =
        "POST /api/v1 HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: 21\r\n\r\n";
    let mut connection = Connection::open(&served.socket).await;
    connection.send(&[old.as_bytes(), HEALTH].concat()).await;
    assert_eq!(connection.reply().await.status, 200);
    assert!(connection.is_closed_in_silence().await);
}

#[tokio::test]
async fn what_is_not_http_ends_the_connection_and_nothing_else() {
    let served = serve().await;
    for garbage in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"hello\r\n\r\n",
        b"\0\0\0\0\0\r\n\r\n",
    ] {
        let mut connection = Connection::open(&served.socket).await;
        connection.send(garbage).await;
        // Either an error or silence, then the end.
        while !connection.is_closed_in_silence().await {}
    }
    assert_eq!(
        call(&served.socket, r#"{"type":"GET_HEALTH"}"#)
            .await
            .status,
        200
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn no_body_makes_the_server_fail(body in proptest::collection::vec(any::<u8>(), 0..200), json in any::<bool>()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let status = runtime.block_on(async {
            let served = serve().await;
            let headers = [if json { JSON } else { PROTOBUF }];
            Connection::open(&served.socket).await.post(&headers, &body).await.status
        });
        prop_assert!(status < 500 || status == 501, "{status}");
    }
}
