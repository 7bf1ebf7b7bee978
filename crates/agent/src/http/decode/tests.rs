use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::body::Frame;
use longshore_mesos_api::v1::agent::call::Type;
use proptest::prelude::*;
use prost::Message as _;

use super::*;

const FORM: Negotiated = Negotiated {
    request: Codec::Json,
    streaming_request: false,
    answer: Codec::Json,
    streaming_answer: false,
};

/// A body that gives its chunks and then ends, breaks or stalls.
struct Chunks {
    left: VecDeque<Bytes>,
    end: End,
}

#[derive(Clone, Copy)]
enum End {
    Whole,
    Broken,
    Stalled,
}

impl Body for Chunks {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, std::io::Error>>> {
        match (self.left.pop_front(), self.end) {
            (Some(chunk), _) => Poll::Ready(Some(Ok(Frame::data(chunk)))),
            (None, End::Whole) => Poll::Ready(None),
            (None, End::Broken) => {
                Poll::Ready(Some(Err(std::io::ErrorKind::ConnectionReset.into())))
            }
            (None, End::Stalled) => Poll::Pending,
        }
    }
}

fn small() -> HttpLimits {
    HttpLimits {
        max_body: 4096,
        max_call_elements: 200,
        ..HttpLimits::default()
    }
}

fn health() -> Call {
    Call {
        r#type: Some(Type::GetHealth.into()),
        ..Call::default()
    }
}

async fn read(form: Negotiated, chunks: &[&[u8]], end: End) -> Result<Call, Refusal> {
    let left = chunks
        .iter()
        .map(|chunk| Bytes::copy_from_slice(chunk))
        .collect();
    read_call(form, Chunks { left, end }, &small()).await
}

async fn status(form: Negotiated, chunks: &[&[u8]], end: End) -> u16 {
    read(form, chunks, end).await.unwrap_err().status.as_u16()
}

#[tokio::test]
async fn a_body_may_come_in_pieces() {
    for chunks in [
        &[br#"{"type":"GET_HEALTH"}"#.as_slice()][..],
        &[b"{\"type\":".as_slice(), b"\"GET_", b"HEALTH\"}"][..],
        &[b"".as_slice(), br#"{"type":"GET_HEALTH"}"#, b" \n"][..],
    ] {
        assert_eq!(read(FORM, chunks, End::Whole).await, Ok(health()));
    }
    let protobuf = Negotiated {
        request: Codec::Protobuf,
        ..FORM
    };
    assert_eq!(
        read(protobuf, &[&health().encode_to_vec()], End::Whole).await,
        Ok(health())
    );
}

#[tokio::test]
async fn what_cannot_be_read_is_400() {
    let protobuf = Negotiated {
        request: Codec::Protobuf,
        ..FORM
    };
    for body in [
        "",
        "{",
        "[]",
        "7",
        r#"{"type":4}"#,
        r#"{"type":1.0}"#,
        r#"{"wait_container":{"container_id":"x"}}"#,
    ] {
        let refusal = read(FORM, &[body.as_bytes()], End::Whole)
            .await
            .unwrap_err();
        assert_eq!(refusal.status, 400, "{body}");
        assert!(!refusal.text.is_empty(), "{body}");
    }
    assert_eq!(status(protobuf, &[b"\xff\xff\xff"], End::Whole).await, 400);
    assert_eq!(status(FORM, &[b"{\"type\":"], End::Broken).await, 400);
}

#[tokio::test]
async fn a_missing_required_field_is_named() {
    let refusal = read(
        FORM,
        &[br#"{"type":"WAIT_CONTAINER","wait_container":{}}"#],
        End::Whole,
    )
    .await
    .unwrap_err();
    assert!(
        refusal.text.contains("wait_container.container_id"),
        "{}",
        refusal.text
    );
}

#[tokio::test]
async fn a_body_over_the_limit_is_413_and_never_buffered() {
    let piece = [b' '; 1000];
    assert_eq!(
        status(FORM, &[piece.as_slice(); 5], End::Stalled).await,
        413
    );
    let refusal = read(FORM, &[&[b' '; 5000]], End::Whole).await.unwrap_err();
    assert_eq!(refusal.status, 413);
    assert_eq!(refusal.header.unwrap().0, http::header::CONNECTION);
    let declared = http_body_util::Full::new(Bytes::from(vec![b' '; 5000]));
    assert_eq!(
        read_call(FORM, declared, &small())
            .await
            .unwrap_err()
            .status,
        413
    );
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stalls_is_408() {
    assert_eq!(status(FORM, &[b"{"], End::Stalled).await, 408);
    let stream = Negotiated {
        streaming_request: true,
        ..FORM
    };
    assert_eq!(status(stream, &[b"12"], End::Stalled).await, 408);
}

#[tokio::test]
async fn a_small_body_cannot_decode_to_much() {
    let many = format!(r#"{{"type":"GET_HEALTH","x":[{}0]}}"#, "0,".repeat(300));
    assert_eq!(status(FORM, &[many.as_bytes()], End::Whole).await, 400);
    // `resources` is field 3 of field 13: two bytes for each empty one.
    let mut launch = [0x1a, 0x00].repeat(1500);
    let mut call = vec![0x6a];
    prost::encoding::encode_varint(u64::try_from(launch.len()).unwrap(), &mut call);
    call.append(&mut launch);
    let protobuf = Negotiated {
        request: Codec::Protobuf,
        ..FORM
    };
    assert_eq!(status(protobuf, &[&call], End::Whole).await, 400);
}

#[tokio::test]
async fn only_the_first_record_of_a_stream_is_read() {
    let stream = Negotiated {
        streaming_request: true,
        ..FORM
    };
    let json = r#"{"type":"GET_HEALTH"}"#;
    let record = format!("{}\n{json}", json.len());
    assert_eq!(
        read(stream, &[record.as_bytes()], End::Stalled).await,
        Ok(health())
    );
    let (head, tail) = record.split_at(9);
    assert_eq!(
        read(stream, &[head.as_bytes(), tail.as_bytes()], End::Stalled).await,
        Ok(health())
    );
    for bad in ["x\n", "", "5\n{", "99999\n"] {
        assert_eq!(
            status(stream, &[bad.as_bytes()], End::Whole).await,
            400,
            "{bad:?}"
        );
    }
}

proptest! {
    #[test]
    fn garbage_is_refused_without_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        for codec in [Codec::Json, Codec::Protobuf] {
            if let Err(refusal) = parse(codec, &bytes, &small()) {
                prop_assert_eq!(refusal.status.as_u16(), 400);
                prop_assert!(refusal.text.len() < 2048);
            }
        }
    }

    #[test]
    fn mangled_calls_are_refused_without_a_panic(at in 0usize..80, byte in any::<u8>()) {
        let mut json = br#"{"type":"KILL_CONTAINER","kill_container":{"container_id":{"value":"c"},"signal":15}}"#.to_vec();
        let at = at % json.len();
        json[at] = byte;
        let call = parse(Codec::Json, &json, &small());
        if let Ok(call) = call {
            let bytes = call.encode_to_vec();
            prop_assert!(parse(Codec::Protobuf, &bytes, &small()).is_ok());
        }
    }
}
