//! The forms of requests, sent as raw bytes: rows 1 to 13 of the header matrix, and what is
//! refused before a container is looked at.

use crate::raw::{RawAnswer, request};
use crate::target::Target;

const HEALTH: &str = r#"{"type":"GET_HEALTH"}"#;
const HEALTHY: &str = r#"{"type":"GET_HEALTH","get_health":{"healthy":true}}"#;
const JSON: (&str, &str) = ("Content-Type", "application/json");
const PROTOBUF: (&str, &str) = ("Content-Type", "application/x-protobuf");

struct Row {
    name: &'static str,
    method: &'static str,
    path: &'static str,
    headers: &'static [(&'static str, &'static str)],
    status: u16,
    /// Where the embedded agent is wider than Mesos on purpose.
    embedded: Option<u16>,
    text: &'static str,
}

const ROW: Row = Row {
    name: "",
    method: "POST",
    path: "/api/v1",
    headers: &[JSON],
    status: 200,
    embedded: None,
    text: "",
};

const MATRIX: &[Row] = &[
    Row {
        name: "plain",
        text: HEALTHY,
        ..ROW
    },
    Row {
        name: "slash at the end",
        path: "/api/v1/",
        text: HEALTHY,
        ..ROW
    },
    Row {
        name: "numbered agent",
        path: "/slave(1)/api/v1",
        text: HEALTHY,
        ..ROW
    },
    Row {
        name: "other path",
        path: "/no/such/path",
        status: 404,
        text: "404 Not Found.",
        ..ROW
    },
    Row {
        name: "GET",
        method: "GET",
        status: 405,
        text: "received 'GET'",
        ..ROW
    },
    Row {
        name: "PUT",
        method: "PUT",
        status: 405,
        text: "received 'PUT'",
        ..ROW
    },
    Row {
        name: "no content type",
        headers: &[],
        status: 400,
        text: "Expecting 'Content-Type' to be present",
        ..ROW
    },
    Row {
        name: "other content type",
        headers: &[("Content-Type", "text/plain")],
        status: 415,
        text: "Expecting 'Content-Type' of application/json or application/x-protobuf or application/recordio",
        ..ROW
    },
    Row {
        name: "content type with a parameter",
        headers: &[("Content-Type", "application/json; charset=utf-8")],
        status: 415,
        embedded: Some(200),
        ..ROW
    },
    Row {
        name: "content type in capitals",
        headers: &[("Content-Type", "Application/JSON")],
        status: 415,
        embedded: Some(200),
        ..ROW
    },
    Row {
        name: "recordio without the type of its messages",
        headers: &[("Content-Type", "application/recordio")],
        status: 400,
        text: "Message-Content-Type",
        ..ROW
    },
    Row {
        name: "recordio of something else",
        headers: &[
            ("Content-Type", "application/recordio"),
            ("Message-Content-Type", "text/plain"),
        ],
        status: 415,
        text: "Message-Content-Type",
        ..ROW
    },
    Row {
        name: "type of messages on a plain request",
        headers: &[JSON, ("Message-Content-Type", "application/json")],
        status: 415,
        text: "Message-Content-Type",
        ..ROW
    },
    Row {
        name: "accepts anything",
        headers: &[JSON, ("Accept", "*/*")],
        text: HEALTHY,
        ..ROW
    },
    Row {
        name: "accepts with a weight",
        headers: &[JSON, ("Accept", "application/json; q=0.5")],
        text: HEALTHY,
        ..ROW
    },
    Row {
        name: "accepts html",
        headers: &[JSON, ("Accept", "text/html")],
        status: 406,
        text: "Expecting 'Accept' to allow application/json or application/x-protobuf or application/recordio",
        ..ROW
    },
    Row {
        name: "accepts recordio on a plain call",
        headers: &[JSON, ("Accept", "application/recordio")],
        status: 406,
        text: "Streaming response is not supported for GET_HEALTH call",
        ..ROW
    },
    Row {
        name: "accepts recordio of something else",
        headers: &[
            JSON,
            ("Accept", "application/recordio"),
            ("Message-Accept", "text/plain"),
        ],
        status: 406,
        text: "Message-Accept",
        ..ROW
    },
    Row {
        name: "accepts messages on a plain call",
        headers: &[
            JSON,
            ("Accept", "application/json"),
            ("Message-Accept", "application/json"),
        ],
        status: 406,
        text: "Message-Accept",
        ..ROW
    },
];

pub(crate) async fn aa9_header_matrix(t: &mut Target) {
    for row in MATRIX {
        let bytes = request(row.method, row.path, row.headers, HEALTH.as_bytes());
        let answer = t.raw().send(&bytes).await;
        let expected = row.embedded.filter(|_| !t.is_real()).unwrap_or(row.status);
        assert_eq!(answer.status, expected, "{}: {}", row.name, answer.text());
        assert!(
            answer.text().contains(row.text),
            "{}: {}",
            row.name,
            answer.text()
        );
        if expected >= 400 {
            assert_plain_text(row.name, &answer);
        }
        if expected == 405 {
            assert_eq!(
                answer.header("Allow").as_deref(),
                Some("POST"),
                "{}",
                row.name
            );
        }
    }
}

fn assert_plain_text(name: &str, answer: &RawAnswer) {
    let content_type = answer.header("Content-Type").unwrap_or_default();
    assert!(
        content_type.starts_with("text/plain"),
        "{name}: {content_type}"
    );
}

pub(crate) async fn aa9_bodies_that_are_no_call(t: &mut Target) {
    for (body, status, text) in [
        ("", 400, "JSON"),
        ("{", 400, "JSON"),
        ("not json", 400, "JSON"),
        ("[]", 400, "JSON"),
        ("{}", 400, "Expecting 'type' to be present"),
        (
            r#"{"type":"get_health"}"#,
            400,
            "Expecting 'type' to be present",
        ),
        (
            r#"{"type":"NO_SUCH_CALL"}"#,
            400,
            "Expecting 'type' to be present",
        ),
        (r#"{"type":"UNKNOWN"}"#, 501, "501 Not Implemented."),
        (r#"{"type":3}"#, 400, ""),
        (
            r#"{"type":"WAIT_CONTAINER","wait_container":{"container_id":"a"}}"#,
            400,
            "",
        ),
        (
            r#"{"type":"GET_HEALTH","getHealth":7,"extra":[{}]}"#,
            200,
            HEALTHY,
        ),
    ] {
        let answer = t.post(body).await;
        assert_eq!(answer.status, status, "{body}: {}", answer.text());
        assert!(answer.text().contains(text), "{body}: {}", answer.text());
    }
    for body in [&b"\xff\xff\xff"[..], b"{\"type\":\"GET_HEALTH\"}"] {
        let answer = t
            .raw()
            .send(&request("POST", "/api/v1", &[PROTOBUF], body))
            .await;
        assert_eq!(answer.status, 400);
        assert!(answer.text().contains("protobuf"), "{}", answer.text());
    }
}

pub(crate) async fn aa9_calls_that_are_not_valid(t: &mut Target) {
    for (body, text) in [
        (
            r#"{"type":"LAUNCH_CONTAINER"}"#,
            "Expecting 'launch_container' to be present",
        ),
        (
            r#"{"type":"WAIT_CONTAINER"}"#,
            "Expecting 'wait_container' to be present",
        ),
        (
            r#"{"type":"KILL_CONTAINER"}"#,
            "Expecting 'kill_container' to be present",
        ),
        (
            r#"{"type":"LAUNCH_CONTAINER","launch_container":{}}"#,
            "launch_container.container_id",
        ),
        (
            r#"{"type":"WAIT_CONTAINER","wait_container":{"container_id":{}}}"#,
            "wait_container.container_id.value",
        ),
        (
            r#"{"type":"LAUNCH_NESTED_CONTAINER","launch_nested_container":{"container_id":{"value":"a"}}}"#,
            "Expecting 'launch_nested_container.container_id.parent' to be present",
        ),
        (
            r#"{"type":"WAIT_NESTED_CONTAINER","wait_nested_container":{"container_id":{"value":"a"}}}"#,
            "Expecting 'wait_nested_container.container_id.parent' to be present",
        ),
        (
            r#"{"type":"LAUNCH_CONTAINER","launch_container":{"container_id":{"value":"a"},
            "command":{"value":"true"},"resources":[{"name":"cpus","type":"SCALAR","scalar":{"value":-1}}]}}"#,
            "cpus:-1",
        ),
        (
            r#"{"type":"LAUNCH_CONTAINER","launch_container":{"container_id":{"value":"a"},
            "command":{"value":"true"},"resources":[{"name":"cpus","type":"SCALAR"}]}}"#,
            "cpus",
        ),
        (
            r#"{"type":"LAUNCH_CONTAINER","launch_container":{"container_id":{"value":"a"},
            "command":{"value":"true","environment":{"variables":[{"name":"A"}]}}}}"#,
            "Environment variable 'A'",
        ),
        (
            r#"{"type":"LAUNCH_CONTAINER","launch_container":{"container_id":{"value":"a"},
            "command":{"value":"true"},"container":{"type":"DOCKER","docker":{"image":"busybox"}}}}"#,
            "",
        ),
        (
            r#"{"type":"LAUNCH_CONTAINER","launch_container":{"container_id":{"value":"a"},
            "command":{"value":"true"},"container":{"type":"MESOS","mesos":{"image":
            {"type":"DOCKER","docker":{"name":"busybox"}}}}}}"#,
            "",
        ),
    ] {
        let answer = t.post(body).await;
        assert_eq!(answer.status, 400, "{body}: {}", answer.text());
        assert!(answer.text().contains(text), "{body}: {}", answer.text());
        assert_plain_text(body, &answer);
    }
}

pub(crate) async fn identifiers_are_validated(t: &mut Target) {
    let launch = |value: &str| {
        format!(
            r#"{{"type":"LAUNCH_CONTAINER","launch_container":{{"container_id":{{"value":{value:?}}},"command":{{"value":"true"}}}}}}"#
        )
    };
    for value in ["", "a/b", "a b", "a.b", ".", "..", &"x".repeat(243)] {
        let answer = t.post(&launch(value)).await;
        assert_eq!(answer.status, 400, "{value:?}: {}", answer.text());
        let text = "Failed to validate agent::Call: 'launch_container.container_id' is invalid: ";
        assert!(
            answer.text().starts_with(text),
            "{value:?}: {}",
            answer.text()
        );
    }
    let longest = format!("{}{}", t.id("l").value, "x".repeat(242));
    for value in ["a:b", "a_b", "a-b", "\u{e9}", &longest[..242]] {
        let answer = t.post(&launch(value)).await;
        assert_eq!(answer.status, 200, "{value:?}: {}", answer.text());
        assert_eq!(answer.body, b"");
        assert_eq!(answer.header("Content-Type"), None);
        assert_eq!(answer.header("Content-Length").as_deref(), Some("0"));
        // Ended, or not any more: either way it is gone afterwards.
        let id = longshore_mesos_api::v1::ContainerId {
            value: value.to_owned(),
            ..Default::default()
        };
        t.client().wait_container(&id).await.unwrap();
    }
}

pub(crate) async fn answers_are_in_the_form_that_is_accepted(t: &mut Target) {
    // The call GET_HEALTH and its answer in protobuf.
    let (call, healthy) = (&b"\x08\x01"[..], &b"\x08\x01\x12\x02\x08\x01"[..]);
    let protobuf = ("Accept", "application/x-protobuf");
    for (headers, body, expected, content_type) in [
        (
            &[PROTOBUF, protobuf][..],
            call,
            healthy,
            "application/x-protobuf",
        ),
        (
            &[JSON, protobuf],
            HEALTH.as_bytes(),
            healthy,
            "application/x-protobuf",
        ),
        (&[PROTOBUF], call, HEALTHY.as_bytes(), "application/json"),
        (
            &[JSON],
            HEALTH.as_bytes(),
            HEALTHY.as_bytes(),
            "application/json",
        ),
    ] {
        let answer = t
            .raw()
            .send(&request("POST", "/api/v1", headers, body))
            .await;
        assert_eq!(answer.status, 200);
        assert_eq!(answer.body, expected, "{headers:?}: {}", answer.text());
        assert_eq!(answer.header("Content-Type").as_deref(), Some(content_type));
    }
}

pub(crate) async fn several_requests_on_one_connection(t: &mut Target) {
    let one = request("POST", "/api/v1", &[JSON], HEALTH.as_bytes());
    let chunked = b"POST /api/v1 HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n\
        Transfer-Encoding: chunked\r\n\r\n8\r\n{\"type\":\r\nd\r\n\"GET_HEALTH\"}\r\n0\r\n\r\n";
    let mut connection = t.raw().connect().await;
    // One after the other, then several at once.
    connection.write(&one).await;
    assert_eq!(connection.read_answer().await.text(), HEALTHY);
    connection.write(chunked).await;
    assert_eq!(connection.read_answer().await.text(), HEALTHY);
    connection.write(&[&one[..], &one, &one].concat()).await;
    for _ in 0..3 {
        assert_eq!(connection.read_answer().await.text(), HEALTHY);
    }
}

pub(crate) async fn http_1_0_is_answered_and_closed(t: &mut Target) {
    let request = format!(
        "POST /api/v1 HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{HEALTH}",
        HEALTH.len()
    );
    let mut connection = t.raw().connect().await;
    connection.write(request.as_bytes()).await;
    assert_eq!(connection.read_answer().await.text(), HEALTHY);
    assert_eq!(connection.read_to_end().await, b"");
}

pub(crate) async fn what_is_not_http_is_not_served(t: &mut Target) {
    let mut connection = t.raw().connect().await;
    connection.write(b"SSH-2.0-OpenSSH_9.6\r\n\r\n").await;
    // A real agent says nothing, the embedded one may say 400.
    let answer = connection.read_to_end().await;
    let answer = String::from_utf8_lossy(&answer);
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 400"),
        "{answer}"
    );
    assert!(t.client().get_health().await.unwrap());
}

pub(crate) async fn agent_version_and_health_are_told(t: &mut Target) {
    let client = t.client();
    assert!(client.get_health().await.unwrap());
    let version = client.get_version().await.unwrap();
    assert_eq!(longshore_agent_client::is_longshore(&version), !t.is_real());
    let agent = client.get_agent().await.unwrap().agent_info.unwrap();
    assert!(!agent.id.unwrap().value.is_empty());
}
