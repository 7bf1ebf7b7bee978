//! What an agent may send, and what of it is read.

use std::time::Duration;

use longshore_agent_client::fake::Failpoint;
use longshore_agent_client::{AgentError, Show};
use longshore_mesos_api::DecodeLimits;
use longshore_mesos_api::v1::agent::call::Type;

use crate::helpers::{chain, fixture, id, soon};

#[tokio::test]
async fn an_answer_of_a_gigabyte_is_refused_by_its_announced_length() {
    let fixture = fixture();
    fixture
        .agent
        .fail(Type::GetContainers, 1, Failpoint::Announce(1 << 30));
    let client = fixture.agent.client();
    // The body never comes, so an answer now means that nobody waited for it.
    let error = soon(client.get_containers(Show::ALL)).await.unwrap_err();
    assert!(
        matches!(error, AgentError::TooLarge { announced: Some(length), .. } if length == 1 << 30),
        "{error:?}"
    );
    assert!(!error.is_retryable());
    // The client is still good.
    client.get_containers(Show::ALL).await.unwrap();
}

#[tokio::test]
async fn an_endless_answer_is_refused_when_the_limit_is_passed() {
    let fixture = fixture();
    let client = fixture.client_with(|config| {
        config.answer = DecodeLimits {
            max_bytes: 100_000,
            max_elements: 100,
        };
    });
    fixture
        .agent
        .fail(Type::GetContainers, 1, Failpoint::Flood(u64::MAX));
    let error = soon(client.get_containers(Show::ALL)).await.unwrap_err();
    assert!(
        matches!(
            error,
            AgentError::TooLarge {
                announced: None,
                limit: 100_000,
                ..
            }
        ),
        "{error:?}"
    );
}

#[tokio::test]
async fn an_answer_that_would_decode_to_too_much_is_refused() {
    let fixture = fixture();
    let body = format!(
        r#"{{"get_containers":{{"containers":[{}{{}}]}}}}"#,
        "{},".repeat(60_000)
    );
    fixture.agent.fail(
        Type::GetContainers,
        1,
        Failpoint::body("application/json", body.as_bytes()),
    );
    let client = fixture.agent.client();
    let error = client.get_containers(Show::ALL).await.unwrap_err();
    assert!(
        chain(&error).contains("more than 50000 elements"),
        "{}",
        chain(&error)
    );
}

#[tokio::test]
async fn the_text_of_an_error_is_kept_up_to_a_limit() {
    let fixture = fixture();
    let client = fixture.agent.client();
    let long = "x".repeat(1 << 20);
    fixture
        .agent
        .fail(Type::GetHealth, 1, Failpoint::status(500, &long));
    let Err(AgentError::Status { status, body, .. }) = client.get_health().await else {
        panic!("a 500 is an error");
    };
    assert_eq!(
        (status, body.len()),
        (500, longshore_agent_client::MAX_ERROR_BODY)
    );
    assert!(client.get_health().await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn garbage_is_an_error_and_not_an_answer() {
    let fixture = fixture();
    let client = fixture.client_with(|config| config.deadlines.get = Duration::from_secs(1));
    for garbage in [
        &b"SSH-2.0-OpenSSH_9.6\r\n"[..],
        b"\x00\x01\x02\xff",
        b"HTTP/1.1 200 OK\r\nContent-Length: abc\r\n\r\n",
        b"HTTP/1.1 2000 OK\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 3\r\n\r\n\xff\xff\xff",
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1\r\n\r\n{",
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1\r\n\r\n<",
    ] {
        for _ in 0..200 {
            // Closed connections are tried again until the deadline: all get the same.
            fixture.agent.fail(Type::GetHealth, 1, Failpoint::Raw(garbage.to_vec()));
        }
        let error = soon(client.get_health()).await.unwrap_err();
        assert!(
            matches!(
                error,
                AgentError::Decode { .. } | AgentError::Closed { .. } | AgentError::Timeout { .. }
            ),
            "{garbage:?}: {error:?}"
        );
        fixture.agent.fail_no_more();
    }
}

#[tokio::test]
async fn a_head_without_end_is_refused() {
    let fixture = fixture();
    let client = fixture.client_with(|config| {
        config.retry = longshore_agent_client::RetryPolicy::never();
    });
    let mut head = b"HTTP/1.1 200 OK\r\n".to_vec();
    head.extend(b"X-Long: ".iter().chain(&vec![b'a'; 1 << 20]));
    fixture
        .agent
        .fail(Type::WaitContainer, 1, Failpoint::Raw(head));
    let error = soon(client.wait_container(&id("c"))).await.unwrap_err();
    assert!(matches!(error, AgentError::Closed { .. }), "{error:?}");
}
