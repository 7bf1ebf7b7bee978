//! Calls between two ends of ours.

use std::time::Duration;

use longshore_ttrpc::{
    CallError, CallOptions, Client, CloseReason, Code, KeyValue, Layout, MAX_DATA, Options,
};
use tokio::task::JoinSet;

use crate::raw::{Behaviours, spawn};

const NEAR: Layout = Layout::Mux {
    client: 1,
    server: 2,
};
const FAR: Layout = Layout::Mux {
    client: 2,
    server: 1,
};

fn pair(near: Layout, far: Layout) -> (Client, Client) {
    let (a, b) = tokio::io::duplex(16 << 10);
    let (near, _) = spawn(a, near, Behaviours::default(), Options::default());
    let (far, _) = spawn(b, far, Behaviours::default(), Options::default());
    (near, far)
}

async fn echo(client: &Client, text: String) -> Result<String, CallError> {
    client
        .call(
            "s",
            "Echo",
            &text,
            &CallOptions::timeout(Duration::from_secs(60)),
        )
        .await
}

#[tokio::test(start_paused = true)]
async fn both_ends_of_a_multiplexed_trunk_ask_and_answer() {
    let (near, far) = pair(NEAR, FAR);
    for length in [0, 1, 4070, 4096, 5000, 100_000, 3_900_000] {
        let text = "x".repeat(length);
        let (one, other) = tokio::join!(echo(&near, text.clone()), echo(&far, text.clone()));
        assert!(one.unwrap() == text && other.unwrap() == text, "{length}");
    }
}

#[tokio::test(start_paused = true)]
async fn row_248_a_burst_of_600_calls_is_answered_whole() {
    for (near, far) in [(NEAR, FAR), (Layout::Client, Layout::Server)] {
        let (near, _far) = pair(near, far);
        let mut calls = JoinSet::new();
        for n in 0..600 {
            let near = near.clone();
            calls.spawn(async move { (n.to_string(), echo(&near, n.to_string()).await.unwrap()) });
        }
        let answers = calls.join_all().await;
        assert_eq!(answers.len(), 600);
        assert!(answers.iter().all(|(asked, answered)| asked == answered));
    }
}

#[tokio::test(start_paused = true)]
async fn failures_keep_their_code_and_text() {
    let (near, _far) = pair(NEAR, FAR);
    for (method, code, text) in [
        ("Fail", Code::NotFound, "nothing here"),
        ("Missing", Code::Unimplemented, "Missing"),
        ("Huge", Code::ResourceExhausted, "4194304"),
        ("Panic", Code::Internal, "panicked"),
        ("PanicLater", Code::Internal, "panicked"),
    ] {
        let options = CallOptions::default();
        match near
            .call::<String>("s", method, &String::new(), &options)
            .await
        {
            Err(CallError::Remote(status)) => {
                assert_eq!(status.code, code, "{method}");
                assert!(status.message.contains(text), "{method}: {status}");
            }
            other => panic!("{method}: {other:?}"),
        }
    }
    assert_eq!(
        echo(&near, "still here".into()).await.unwrap(),
        "still here"
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_over_the_limit_is_refused_here_with_both_lengths() {
    let (near, _far) = pair(NEAR, FAR);
    let refused = echo(&near, "x".repeat(MAX_DATA)).await;
    assert!(
        matches!(refused, Err(CallError::Oversized { length, max: MAX_DATA }) if length > MAX_DATA),
        "{refused:?}"
    );
    assert!(near.close_reason().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_times_out_or_is_dropped_harms_no_other() {
    let (near, _far) = pair(NEAR, FAR);
    let short = CallOptions::timeout(Duration::from_millis(10));
    let late = near
        .call::<String>("s", "Sleep", &String::new(), &short)
        .await;
    assert!(matches!(late, Err(CallError::Timeout(_))), "{late:?}");
    let sleep = CallOptions::default();
    let asked = "answered".to_owned();
    let dropped = near.call::<String>("s", "Sleep", &asked, &sleep);
    let cut = tokio::time::timeout(Duration::from_millis(10), dropped).await;
    assert!(cut.is_err(), "dropped while it waits");
    let kept: String = near.call("s", "Sleep", &asked, &sleep).await.unwrap();
    assert_eq!(kept, "answered");
    assert!(near.dropped_frames() >= 1, "the late answer was dropped");
}

#[tokio::test(start_paused = true)]
async fn calls_over_the_bound_wait_and_their_deadline_counts_the_wait() {
    let (a, b) = tokio::io::duplex(16 << 10);
    let mut options = Options::default();
    options.calls_in_flight = 1;
    let (near, _) = spawn(a, NEAR, Behaviours::default(), options);
    let (_far, _) = spawn(b, FAR, Behaviours::default(), Options::default());
    let first = near.clone();
    let mut calls = JoinSet::new();
    calls.spawn(async move {
        first
            .call::<String>("s", "Sleep", &String::new(), &CallOptions::default())
            .await
    });
    tokio::task::yield_now().await;
    let half = CallOptions::timeout(Duration::from_millis(500));
    let second = near
        .call::<String>("s", "Echo", &String::new(), &half)
        .await;
    assert!(matches!(second, Err(CallError::Timeout(_))), "{second:?}");
    assert!(calls.join_next().await.unwrap().unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn closing_ends_every_call_with_the_reason_on_both_ends() {
    let (near, far) = pair(NEAR, FAR);
    let waiting = near.clone();
    let mut calls = JoinSet::new();
    calls.spawn(async move {
        waiting
            .call::<String>("s", "Hang", &String::new(), &CallOptions::default())
            .await
    });
    tokio::task::yield_now().await;
    near.close("test over");
    let pending = calls.join_next().await.unwrap().unwrap();
    assert!(
        matches!(&pending, Err(CallError::Closed(CloseReason::Local(why))) if &**why == "test over"),
        "{pending:?}"
    );
    let later = echo(&near, String::new()).await;
    assert!(
        matches!(later, Err(CallError::Closed(CloseReason::Local(_)))),
        "{later:?}"
    );
    assert!(matches!(far.closed().await, CloseReason::PeerClosed));
}

#[tokio::test(start_paused = true)]
async fn metadata_is_passed_on() {
    let (near, _far) = pair(NEAR, FAR);
    let entry = KeyValue {
        key: "traceparent".into(),
        value: "00".into(),
    };
    let options = CallOptions {
        metadata: vec![entry.clone(), entry],
        ..CallOptions::default()
    };
    let count: String = near
        .call("s", "Metadata", &String::new(), &options)
        .await
        .unwrap();
    assert_eq!(count, "2");
}
