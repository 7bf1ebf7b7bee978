//! From a body to a call: bounded before it is buffered and before it is decoded.

use std::error::Error;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body_util::BodyExt;
use hyper::body::Body;
use longshore_mesos_api::v1::agent::Call;
use longshore_mesos_api::{DecodeLimits, json, record_io};
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::negotiate::{Codec, Negotiated};
use super::options::HttpLimits;
use super::refusal::Refusal;

/// Reads the body and decodes the call in it: the whole body, or the first record of a streaming one.
///
/// Never buffers more than [`HttpLimits::max_body`]; a body that is not complete within [`HttpLimits::body_timeout`] is
/// answered with 408.
pub(crate) async fn read_call<B>(
    form: Negotiated,
    body: B,
    limits: &HttpLimits,
) -> Result<Call, Refusal>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Error,
{
    let read = async {
        if form.streaming_request {
            first_record(body, limits.max_body).await
        } else {
            whole_body(body, limits.max_body).await
        }
    };
    let bytes = tokio::time::timeout(limits.body_timeout, read)
        .await
        .unwrap_or_else(|_| {
            let text = format!("the body did not arrive within {:?}", limits.body_timeout);
            Err(Refusal::new(StatusCode::REQUEST_TIMEOUT, text).closing())
        })?;
    parse(form.request, &bytes, limits)
}

/// Decodes one message.
pub(crate) fn parse(codec: Codec, bytes: &[u8], limits: &HttpLimits) -> Result<Call, Refusal> {
    let limits = DecodeLimits {
        max_bytes: limits.max_body,
        max_elements: limits.max_call_elements,
    };
    match codec {
        Codec::Protobuf => longshore_mesos_api::decode(bytes, &limits).map_err(|error| {
            Refusal::bad_request(format!(
                "Failed to parse body into a protobuf object: {}",
                chain(&error)
            ))
        }),
        Codec::Json => {
            let call = json::from_slice(bytes, &limits).map_err(|error| {
                Refusal::bad_request(format!("Failed to parse body into JSON: {}", chain(&error)))
            })?;
            if type_is_a_number(bytes) {
                return Err(Refusal::bad_request(
                    "Not expecting a JSON number for field 'type': give its name",
                ));
            }
            Ok(call)
        }
    }
}

/// Enumerations go by name in Mesos' JSON; the reader of it takes their numbers as well.
fn type_is_a_number(bytes: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Probe {
        r#type: Option<NameOrNumber>,
    }
    struct NameOrNumber(bool);
    impl<'de> Deserialize<'de> for NameOrNumber {
        fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            deserializer.deserialize_any(Visitor)
        }
    }
    struct Visitor;
    impl<'de> serde::de::Visitor<'de> for Visitor {
        type Value = NameOrNumber;
        fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("a name or a number")
        }
        fn visit_i64<E>(self, _: i64) -> Result<NameOrNumber, E> {
            Ok(NameOrNumber(true))
        }
        fn visit_u64<E>(self, _: u64) -> Result<NameOrNumber, E> {
            Ok(NameOrNumber(true))
        }
        fn visit_f64<E>(self, _: f64) -> Result<NameOrNumber, E> {
            Ok(NameOrNumber(true))
        }
        fn visit_str<E>(self, _: &str) -> Result<NameOrNumber, E> {
            Ok(NameOrNumber(false))
        }
        fn visit_map<A: serde::de::MapAccess<'de>>(
            self,
            mut map: A,
        ) -> Result<NameOrNumber, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(NameOrNumber(false))
        }
    }
    serde_json::from_slice::<Probe>(bytes)
        .is_ok_and(|probe| probe.r#type.is_some_and(|NameOrNumber(number)| number))
}

async fn whole_body<B>(mut body: B, max: usize) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Error,
{
    if body.size_hint().lower() > u64::try_from(max).unwrap_or(u64::MAX) {
        return Err(too_large(max));
    }
    let mut first: Option<Bytes> = None;
    let mut rest = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(broken_body)?.into_data() else {
            continue;
        };
        let length = first.as_ref().map_or(0, Bytes::len) + rest.len() + data.len();
        if length > max {
            return Err(too_large(max));
        }
        match &first {
            None => first = Some(data),
            Some(_) => rest.extend_from_slice(&data),
        }
    }
    Ok(match (first, rest.is_empty()) {
        (None, _) => Bytes::new(),
        (Some(only), true) => only,
        (Some(first), false) => {
            let mut joined = BytesMut::with_capacity(first.len() + rest.len());
            joined.extend_from_slice(&first);
            joined.extend_from_slice(&rest);
            joined.freeze()
        }
    })
}

async fn first_record<B>(mut body: B, max: usize) -> Result<Bytes, Refusal>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Error,
{
    let mut decoder = record_io::Decoder::new(max);
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(broken_body)?.into_data() else {
            continue;
        };
        let mut chunk: &[u8] = &data;
        let record = decoder.next(&mut chunk).map_err(|error| {
            Refusal::bad_request(format!("Failed to read a record: {}", chain(&error))).closing()
        })?;
        if let Some(record) = record {
            return Ok(record);
        }
    }
    Err(Refusal::bad_request(
        "Failed to read a record: the stream ended before the first one",
    ))
}

fn too_large(max: usize) -> Refusal {
    let text = format!("the body is over the limit of {max} bytes");
    Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, text).closing()
}

fn broken_body(error: impl Error) -> Refusal {
    Refusal::bad_request(format!("the body could not be read: {}", chain(&error))).closing()
}

/// The error and its causes in one line, bounded.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        source = cause.source();
    }
    if text.len() > TEXT_MAX {
        let end = (0..=TEXT_MAX)
            .rev()
            .find(|at| text.is_char_boundary(*at))
            .unwrap_or(0);
        text.truncate(end);
    }
    text
}

/// Longest text made from somebody else's bytes.
const TEXT_MAX: usize = 1024;

#[cfg(test)]
mod tests;
