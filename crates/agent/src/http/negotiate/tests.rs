use http::{HeaderMap, HeaderName, HeaderValue, Method};
use proptest::prelude::*;

use super::*;

const JSON_ONE: Negotiated = Negotiated {
    request: Codec::Json,
    streaming_request: false,
    answer: Codec::Json,
    streaming_answer: false,
};

fn headers(pairs: &[(&str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        map.append(
            HeaderName::from_bytes(name.as_bytes()).unwrap(),
            HeaderValue::from_str(value).unwrap(),
        );
    }
    map
}

fn post(pairs: &[(&str, &str)]) -> Result<Negotiated, u16> {
    negotiate(&Method::POST, &headers(pairs)).map_err(|refusal| refusal.status.as_u16())
}

#[test]
fn aa9_row_2_anything_but_post_is_405_with_allow() {
    for method in [
        Method::GET,
        Method::PUT,
        Method::HEAD,
        Method::DELETE,
        Method::OPTIONS,
    ] {
        let refusal = negotiate(&method, &headers(&[("content-type", JSON)])).unwrap_err();
        assert_eq!(refusal.status, 405, "{method}");
        assert_eq!(
            refusal.header.unwrap(),
            (header::ALLOW, HeaderValue::from_static("POST"))
        );
    }
}

#[test]
fn aa9_rows_3_to_6_the_request_form() {
    let recordio = Negotiated {
        streaming_request: true,
        ..JSON_ONE
    };
    let protobuf = Negotiated {
        request: Codec::Protobuf,
        ..JSON_ONE
    };
    for (pairs, expected) in [
        (&[][..], Err(400)),
        (&[("content-type", "text/plain")][..], Err(415)),
        (&[("content-type", "")][..], Err(415)),
        (&[("content-type", "application/jsonx")][..], Err(415)),
        (&[("content-type", JSON)][..], Ok(JSON_ONE)),
        (&[("content-type", PROTOBUF)][..], Ok(protobuf)),
        (
            &[("content-type", "application/json; charset=utf-8")][..],
            Ok(JSON_ONE),
        ),
        (&[("content-type", "Application/JSON")][..], Ok(JSON_ONE)),
        (
            &[("content-type", "application/x-protobuf;messageType=Call")][..],
            Ok(protobuf),
        ),
        (&[("content-type", RECORDIO)][..], Err(400)),
        (
            &[
                ("content-type", RECORDIO),
                ("message-content-type", "text/plain"),
            ][..],
            Err(415),
        ),
        (
            &[
                ("content-type", RECORDIO),
                ("message-content-type", RECORDIO),
            ][..],
            Err(415),
        ),
        (
            &[("content-type", RECORDIO), ("message-content-type", JSON)][..],
            Ok(recordio),
        ),
        (
            &[
                ("content-type", RECORDIO),
                ("message-content-type", PROTOBUF),
            ][..],
            Ok(Negotiated {
                request: Codec::Protobuf,
                ..recordio
            }),
        ),
        (
            &[("content-type", JSON), ("message-content-type", JSON)][..],
            Err(415),
        ),
    ] {
        assert_eq!(post(pairs), expected, "{pairs:?}");
    }
}

#[test]
fn aa9_rows_7_to_9_the_answer_form() {
    let protobuf = Negotiated {
        answer: Codec::Protobuf,
        ..JSON_ONE
    };
    let streaming = Negotiated {
        streaming_answer: true,
        ..JSON_ONE
    };
    for (pairs, expected) in [
        (&[][..], Ok(JSON_ONE)),
        (&[("accept", "*/*")][..], Ok(JSON_ONE)),
        (&[("accept", "application/*")][..], Ok(JSON_ONE)),
        (&[("accept", JSON)][..], Ok(JSON_ONE)),
        (&[("accept", "application/json; q=0.5")][..], Ok(JSON_ONE)),
        (&[("accept", PROTOBUF)][..], Ok(protobuf)),
        (
            &[("accept", "application/x-protobuf, application/json")][..],
            Ok(JSON_ONE),
        ),
        (
            &[("accept", "text/html, application/x-protobuf")][..],
            Ok(protobuf),
        ),
        (
            &[("accept", "text/html"), ("accept", PROTOBUF)][..],
            Ok(protobuf),
        ),
        (
            &[("accept", "application/json;q=0, application/x-protobuf")][..],
            Ok(protobuf),
        ),
        (&[("accept", "text/html")][..], Err(406)),
        (&[("accept", "")][..], Err(406)),
        (&[("accept", "foo")][..], Err(406)),
        (&[("accept", "application/json;q=0")][..], Err(406)),
        (&[("accept", RECORDIO)][..], Ok(streaming)),
        (
            &[("accept", RECORDIO), ("message-accept", JSON)][..],
            Ok(streaming),
        ),
        (
            &[("accept", RECORDIO), ("message-accept", PROTOBUF)][..],
            Ok(Negotiated {
                answer: Codec::Protobuf,
                ..streaming
            }),
        ),
        (
            &[("accept", RECORDIO), ("message-accept", "text/plain")][..],
            Err(406),
        ),
        (&[("accept", JSON), ("message-accept", JSON)][..], Err(406)),
        (&[("message-accept", JSON)][..], Err(406)),
    ] {
        let mut with_type = vec![("content-type", JSON)];
        with_type.extend_from_slice(pairs);
        assert_eq!(post(&with_type), expected, "{pairs:?}");
    }
}

#[test]
fn aa9_rows_11_and_12_streams_only_for_the_calls_that_stream() {
    let streaming_request = Negotiated {
        streaming_request: true,
        ..JSON_ONE
    };
    let streaming_answer = Negotiated {
        streaming_answer: true,
        ..JSON_ONE
    };
    for (form, call, expected) in [
        (JSON_ONE, CallType::GetHealth, Ok(())),
        (JSON_ONE, CallType::AttachContainerInput, Err(415)),
        (JSON_ONE, CallType::AttachContainerOutput, Ok(())),
        (streaming_request, CallType::AttachContainerInput, Ok(())),
        (streaming_request, CallType::GetHealth, Err(415)),
        (streaming_request, CallType::LaunchContainer, Err(415)),
        (streaming_answer, CallType::GetHealth, Err(406)),
        (streaming_answer, CallType::Unknown, Err(406)),
        (streaming_answer, CallType::AttachContainerOutput, Ok(())),
        (
            streaming_answer,
            CallType::LaunchNestedContainerSession,
            Ok(()),
        ),
    ] {
        let admitted = form.admit(call).map_err(|refusal| refusal.status.as_u16());
        assert_eq!(admitted, expected, "{form:?} {call:?}");
    }
}

#[test]
fn only_the_api_paths_exist() {
    for path in [
        "/api/v1",
        "/api/v1/",
        "/slave(1)/api/v1",
        "/slave(1)/api/v1/",
    ] {
        assert!(is_api_path(path), "{path}");
    }
    for path in [
        "/",
        "",
        "*",
        "/api",
        "/api/v1/executor",
        "/slave(2)/api/v1",
        "/API/V1",
        "/api/v1//",
    ] {
        assert!(!is_api_path(path), "{path}");
    }
}

proptest! {
    #[test]
    fn any_header_values_are_answered_without_a_panic(
        content in proptest::collection::vec(any::<u8>(), 0..40),
        accept in "[ -~]{0,60}",
        message in proptest::option::of("[ -~]{0,40}"),
    ) {
        let mut map = HeaderMap::new();
        if let Ok(value) = HeaderValue::from_bytes(&content) {
            map.insert(header::CONTENT_TYPE, value);
        }
        map.insert(header::ACCEPT, HeaderValue::from_str(&accept).unwrap());
        if let Some(message) = message {
            map.insert(MESSAGE_ACCEPT, HeaderValue::from_str(&message).unwrap());
        }
        if let Err(refusal) = negotiate(&Method::POST, &map) {
            prop_assert!(refusal.status.is_client_error());
        }
    }
}
