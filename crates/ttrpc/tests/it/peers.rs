//! Peers that are strange, slow or hostile.

use std::sync::atomic::Ordering;
use std::time::Duration;

use longshore_ttrpc::{CallError, CallOptions, CloseReason, Code, KeyValue, Layout, Options};
use prost::Message;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::raw::{
    Behaviours, REQUEST, RESPONSE, WireRequest, answering, asking, frame, mux_frame, spawn,
    wire_request,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn stream_ids_rise_on_the_wire_under_concurrency() {
    let (client, mut peer, _driver) = asking(Options::default());
    let mut calls = JoinSet::new();
    for _ in 0..200 {
        let client = client.clone();
        calls.spawn(async move {
            client
                .call::<String>("s", "m", &String::new(), &CallOptions::default())
                .await
        });
    }
    for expected in (1..).step_by(2).take(200) {
        let (stream, kind, _) = peer.read_frame().await;
        assert_eq!((stream, kind), (expected, REQUEST));
        peer.answer(stream, &[]).await;
    }
    assert!(calls.join_all().await.iter().all(Result::is_ok));
}

#[tokio::test(start_paused = true)]
async fn no_more_calls_than_the_bound_are_on_the_wire() {
    let (client, mut peer, _driver) = asking(Options::default());
    let mut calls = JoinSet::new();
    for _ in 0..100 {
        let client = client.clone();
        calls.spawn(async move {
            client
                .call::<String>("s", "m", &String::new(), &CallOptions::default())
                .await
        });
    }
    for _ in 0..64 {
        peer.read_frame().await;
    }
    let more = tokio::time::timeout(Duration::from_secs(1), peer.0.read_u8()).await;
    assert!(more.is_err(), "the 65th waits for an answer");
}

#[tokio::test(start_paused = true)]
async fn the_deadline_goes_along() {
    let (client, mut peer, _driver) = asking(Options::default());
    let options = CallOptions::timeout(Duration::from_secs(2));
    let empty = String::new();
    let call = client.call::<String>("s", "m", &empty, &options);
    let (answer, sent) = tokio::join!(call, async {
        let (stream, _, data) = peer.read_frame().await;
        peer.answer(stream, &[]).await;
        WireRequest::decode(data.as_slice()).unwrap()
    });
    assert!(answer.is_ok());
    assert_eq!(
        (sent.timeout_nano, sent.service.as_str()),
        (2_000_000_000, "s")
    );
}

#[tokio::test(start_paused = true)]
async fn malformed_answers_fail_their_call_alone() {
    let (client, mut peer, _driver) = asking(Options::default());
    let call = |method: &'static str| {
        let client = client.clone();
        async move {
            client
                .call::<String>("s", method, &String::new(), &CallOptions::default())
                .await
        }
    };
    let garbage = tokio::join!(call("a"), async {
        let (stream, ..) = peer.read_frame().await;
        peer.0
            .write_all(&frame(stream + 100, RESPONSE, b""))
            .await
            .unwrap();
        peer.0
            .write_all(&frame(stream, RESPONSE, &[0xff; 9]))
            .await
            .unwrap();
    });
    assert!(
        matches!(garbage.0, Err(CallError::Protocol(_))),
        "{:?}",
        garbage.0
    );
    let wrong_type = tokio::join!(call("b"), async {
        let (stream, ..) = peer.read_frame().await;
        peer.answer(stream, &[0xff; 3]).await;
    });
    assert!(
        matches!(wrong_type.0, Err(CallError::Protocol(_))),
        "{:?}",
        wrong_type.0
    );
    let oversized = tokio::join!(call("c"), async {
        let (stream, ..) = peer.read_frame().await;
        let mut bytes = (5_u32 << 20).to_be_bytes().to_vec();
        bytes.extend(stream.to_be_bytes());
        bytes.extend([RESPONSE, 0]);
        bytes.resize(bytes.len() + (5 << 20), 0);
        peer.0.write_all(&bytes).await.unwrap();
    });
    assert!(
        matches!(oversized.0, Err(CallError::Protocol(_))),
        "{:?}",
        oversized.0
    );
    let good = tokio::join!(call("d"), async {
        let (stream, ..) = peer.read_frame().await;
        peer.answer(stream, &[]).await;
    });
    assert!(good.0.is_ok());
    assert_eq!(client.dropped_frames(), 1, "the answer to nobody");
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_stream_tells_whole_from_half() {
    for (bytes, half) in [
        (&b""[..], false),
        (&[0, 0, 0][..], true),
        (&[0, 0, 0, 9, 0, 0, 0, 1, 2, 0, 7], true),
    ] {
        let (client, mut peer, driver) = asking(Options::default());
        peer.0.write_all(bytes).await.unwrap();
        drop(peer);
        let reason = driver.await.unwrap();
        assert_eq!(matches!(reason, CloseReason::HalfFrame), half, "{reason}");
        assert!(client.close_reason().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn requests_with_wrong_ids_are_answered_with_status_3() {
    let (_client, mut peer, _driver, _) = answering(Options::default());
    for (stream, code) in [(3, 0), (2, 3), (3, 3), (1, 3), (5, 0)] {
        peer.request(stream, &wire_request("Echo")).await;
        let (answered, response) = peer.response().await;
        assert_eq!((answered, response.code()), (stream, code));
    }
    peer.0.write_all(&frame(99, 3, b"data")).await.unwrap();
    assert_eq!(
        peer.response().await.1.code(),
        3,
        "data of a stream that is not open"
    );
    peer.0.write_all(&frame(101, 9, b"?")).await.unwrap();
    peer.0
        .write_all(&frame(103, REQUEST, &[0xff; 4]))
        .await
        .unwrap();
    let (stream, response) = peer.response().await;
    assert_eq!(
        (stream, response.code()),
        (103, 3),
        "an unknown type is ignored, garbage is not"
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_over_the_limit_is_answered_with_status_8_and_skipped() {
    let (client, mut peer, _driver, service) = answering(Options::default());
    client.set_request_limit(64);
    let large = WireRequest {
        payload: vec![0; 100],
        ..wire_request("Echo")
    };
    peer.request(1, &large).await;
    assert_eq!(peer.response().await.1.code(), 8);
    client.set_request_limit(1 << 20);
    peer.request(3, &large).await;
    assert_eq!(peer.response().await.1.payload.len(), 100);
    assert_eq!(service.running.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn small_requests_that_decode_large_are_refused() {
    let (_client, mut peer, _driver, _) = answering(Options::default());
    let metadata = vec![KeyValue::default(); 257];
    peer.request(
        1,
        &WireRequest {
            metadata: metadata.clone(),
            ..wire_request("Metadata")
        },
    )
    .await;
    assert_eq!(peer.response().await.1.code(), 8);
    let metadata = metadata[1..].to_vec();
    peer.request(
        3,
        &WireRequest {
            metadata,
            ..wire_request("Metadata")
        },
    )
    .await;
    assert_eq!(peer.response().await.1.code(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_handler_ends_with_the_deadline_of_its_request_or_with_the_trunk() {
    let (_client, mut peer, driver, service) = answering(Options::default());
    peer.request(
        1,
        &WireRequest {
            timeout_nano: 1_000_000,
            ..wire_request("Hang")
        },
    )
    .await;
    let (_, response) = peer.response().await;
    assert_eq!(response.code(), Code::DeadlineExceeded.number());
    assert_eq!(service.running.load(Ordering::SeqCst), 0, "dropped");
    peer.request(3, &wire_request("Hang")).await;
    peer.request(5, &wire_request("Echo")).await;
    assert_eq!(
        peer.response().await.0,
        5,
        "answers do not wait for each other"
    );
    assert_eq!(service.running.load(Ordering::SeqCst), 1);
    drop(peer);
    driver.await.unwrap();
    assert_eq!(
        service.running.load(Ordering::SeqCst),
        0,
        "dropped with the trunk"
    );
}

#[tokio::test(start_paused = true)]
async fn requests_over_the_bound_are_answered_with_status_8() {
    let mut options = Options::default();
    options.requests_in_flight = 2;
    let (_client, mut peer, _driver, service) = answering(options);
    for stream in [1, 3, 5] {
        peer.request(stream, &wire_request("Hang")).await;
    }
    let (stream, response) = peer.response().await;
    assert_eq!((stream, response.code()), (5, 8));
    assert_eq!(service.running.load(Ordering::SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_does_not_read_loses_its_trunk_alone() {
    let (client, peer, driver) = asking(Options::default());
    let text = "x".repeat(1 << 20);
    let call = client
        .call::<String>("s", "m", &text, &CallOptions::default())
        .await;
    assert!(
        matches!(call, Err(CallError::Closed(CloseReason::WriteStalled(_)))),
        "{call:?}"
    );
    assert!(matches!(
        driver.await.unwrap(),
        CloseReason::WriteStalled(_)
    ));
    drop(peer);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_stops_reading_an_idle_trunk_loses_it() {
    let (client, peer, driver) = asking(Options::default());
    // The driver has nothing to do, and waits.
    tokio::time::sleep(Duration::from_secs(60)).await;
    let text = "x".repeat(1 << 20);
    let began = Instant::now();
    let options = CallOptions::timeout(Duration::from_secs(2));
    let call = client.call::<String>("s", "m", &text, &options).await;
    assert!(matches!(call, Err(CallError::Timeout(_))), "{call:?}");
    let reason = tokio::time::timeout(Duration::from_secs(60), driver).await;
    let reason = reason.unwrap().unwrap();
    assert!(matches!(reason, CloseReason::WriteStalled(_)), "{reason}");
    assert_eq!(began.elapsed(), Duration::from_secs(10));
    drop(peer);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_asks_and_does_not_read_is_not_served_without_end() {
    let mut options = Options::default();
    options.queued_bytes = 1 << 20;
    let (_client, mut peer, driver, service) = answering(options);
    let echo = WireRequest {
        payload: vec![0; 100_000],
        ..wire_request("Echo")
    };
    let mut asked = 0;
    for stream in (1..).step_by(2) {
        let bytes = frame(stream, REQUEST, &echo.encode_to_vec());
        let sent = tokio::time::timeout(Duration::from_secs(1), peer.0.write_all(&bytes)).await;
        if sent.is_err() {
            break;
        }
        asked += 1;
        assert!(asked < 100, "10 MB were answered, and nobody read them");
    }
    assert!(asked >= 10, "{asked}");
    let reason = driver.await.unwrap();
    assert!(matches!(reason, CloseReason::WriteStalled(_)), "{reason}");
    assert_eq!(service.running.load(Ordering::SeqCst), 0);
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_reads_late_gets_every_answer() {
    let mut options = Options::default();
    options.queued_bytes = 1 << 16;
    let (_client, peer, _driver, _) = answering(options);
    let (mut reader, mut writer) = tokio::io::split(peer.0);
    let count = 50_u32;
    let echo = WireRequest {
        payload: vec![7; 20_000],
        ..wire_request("Echo")
    };
    let asks = async {
        for n in 0..count {
            let bytes = frame(2 * n + 1, REQUEST, &echo.encode_to_vec());
            writer.write_all(&bytes).await.unwrap();
        }
    };
    let reads = async {
        tokio::time::sleep(Duration::from_secs(9)).await;
        let mut total = 0;
        for _ in 0..count {
            let length = reader.read_u32().await.unwrap() as usize;
            let mut rest = vec![0; 6 + length];
            reader.read_exact(&mut rest).await.unwrap();
            total += length;
        }
        total
    };
    let (total, ()) = tokio::join!(reads, asks);
    assert!(total > 50 * 20_000, "{total}");
}

#[tokio::test(start_paused = true)]
async fn mux_frames_of_other_connections_are_dropped_and_absurd_lengths_close() {
    let (near, mut far) = tokio::io::duplex(64 << 10);
    let layout = Layout::Mux {
        client: 1,
        server: 2,
    };
    let (client, driver) = spawn(near, layout, Behaviours::default(), Options::default());
    far.write_all(&mux_frame(7, b"nobody")).await.unwrap();
    far.write_all(&mux_frame(0, b"")).await.unwrap();
    let echo = frame(1, REQUEST, &wire_request("Echo").encode_to_vec());
    for byte in &echo {
        far.write_all(&mux_frame(2, &[*byte])).await.unwrap();
    }
    let mut answer = [0; 18];
    far.read_exact(&mut answer).await.unwrap();
    assert_eq!(
        answer[..8],
        [0, 0, 0, 2, 0, 0, 0, 10],
        "the answer goes back on connection 2"
    );
    assert_eq!(answer[8..], [0, 0, 0, 0, 0, 0, 0, 1, RESPONSE, 0]);
    assert_eq!(client.dropped_frames(), 2);
    far.write_all(&[0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff])
        .await
        .unwrap();
    let reason = driver.await.unwrap();
    assert!(
        matches!(reason, CloseReason::FrameTooLarge { connection: 1, .. }),
        "{reason}"
    );
}
