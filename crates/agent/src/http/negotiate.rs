//! Which request forms are understood: path, method and the four content headers, as a pure function.
//!
//! The order of the checks is that of a Mesos agent (rows 2-9 of its header matrix); the rows that need the call itself
//! (10-13) are finished by [`Negotiated::admit`] once the body has been read.
//!
//! ```text
//!  path -> method -> Content-Type -> Message-Content-Type -> Accept -> Message-Accept -> (body) -> admit
//!   404     405       400, 415         400, 415              406         406            400      415, 406, 501
//! ```
//!
//! One thing is wider than in Mesos: `Content-Type` may have parameters and any letter case (`application/json;
//! charset=utf-8`), which Mesos answers with 415.

use http::{HeaderMap, HeaderName, Method, StatusCode, header};
use longshore_mesos_api::v1::agent::call::Type as CallType;

use super::refusal::Refusal;

/// How a message is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Codec {
    Json,
    Protobuf,
}

/// What the headers of one request agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Negotiated {
    /// How the body is written.
    pub(crate) request: Codec,
    /// The body is a RecordIO stream of such messages, not one message.
    pub(crate) streaming_request: bool,
    /// How the answer is to be written.
    pub(crate) answer: Codec,
    /// The caller asked for a RecordIO stream.
    pub(crate) streaming_answer: bool,
}

const MESSAGE_CONTENT_TYPE: HeaderName = HeaderName::from_static("message-content-type");
const MESSAGE_ACCEPT: HeaderName = HeaderName::from_static("message-accept");

const JSON: &str = "application/json";
const PROTOBUF: &str = "application/x-protobuf";
const RECORDIO: &str = "application/recordio";
const THREE: &str = "application/json or application/x-protobuf or application/recordio";
const TWO: &str = "application/json or application/x-protobuf";

impl Codec {
    /// The media type of one message.
    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Self::Json => JSON,
            Self::Protobuf => PROTOBUF,
        }
    }

    fn named(media_type: &str) -> Option<Self> {
        if media_type.eq_ignore_ascii_case(JSON) {
            Some(Self::Json)
        } else if media_type.eq_ignore_ascii_case(PROTOBUF) {
            Some(Self::Protobuf)
        } else {
            None
        }
    }
}

/// Whether the agent API lives at `path`; everything else is 404.
pub(crate) fn is_api_path(path: &str) -> bool {
    matches!(
        path,
        "/api/v1" | "/api/v1/" | "/slave(1)/api/v1" | "/slave(1)/api/v1/" | "/slave%281%29/api/v1"
    )
}

/// Rows 2 to 9 of the header matrix.
pub(crate) fn negotiate(method: &Method, headers: &HeaderMap) -> Result<Negotiated, Refusal> {
    if method != Method::POST {
        return Err(Refusal::method_not_allowed(method));
    }
    let (request, streaming_request) = request_form(headers)?;
    let (answer, streaming_answer) = answer_form(headers)?;
    Ok(Negotiated {
        request,
        streaming_request,
        answer,
        streaming_answer,
    })
}

impl Negotiated {
    /// Rows 11 to 13: whether this form suits the call that the body turned out to be.
    pub(crate) fn admit(&self, call: CallType) -> Result<(), Refusal> {
        let name = call.as_str_name();
        let streams_input = call == CallType::AttachContainerInput;
        if self.streaming_request && !streams_input {
            return Err(Refusal::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                format!("Streaming request is not supported for {name} call"),
            ));
        }
        if !self.streaming_request && streams_input {
            return Err(Refusal::new(
                StatusCode::UNSUPPORTED_MEDIA_TYPE,
                format!("Expecting 'Content-Type' to be {RECORDIO} for {name} call"),
            ));
        }
        let streams_answer = matches!(
            call,
            CallType::AttachContainerOutput | CallType::LaunchNestedContainerSession
        );
        if self.streaming_answer && !streams_answer {
            return Err(Refusal::new(
                StatusCode::NOT_ACCEPTABLE,
                format!("Streaming response is not supported for {name} call"),
            ));
        }
        Ok(())
    }
}

/// Rows 3 to 6.
fn request_form(headers: &HeaderMap) -> Result<(Codec, bool), Refusal> {
    let unsupported = |text: String| Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, text);
    let Some(content_type) = headers.get(header::CONTENT_TYPE) else {
        return Err(Refusal::bad_request(
            "Expecting 'Content-Type' to be present",
        ));
    };
    let content_type = content_type.to_str().map(essence).unwrap_or_default();
    let message_type = headers.get(MESSAGE_CONTENT_TYPE);
    if content_type.eq_ignore_ascii_case(RECORDIO) {
        let Some(message_type) = message_type else {
            return Err(Refusal::bad_request(
                "Expecting 'Message-Content-Type' to be present with a streaming request",
            ));
        };
        let codec = message_type
            .to_str()
            .ok()
            .and_then(|value| Codec::named(essence(value)));
        return match codec {
            Some(codec) => Ok((codec, true)),
            None => Err(unsupported(format!(
                "Expecting 'Message-Content-Type' of {TWO}"
            ))),
        };
    }
    let Some(codec) = Codec::named(content_type) else {
        return Err(unsupported(format!("Expecting 'Content-Type' of {THREE}")));
    };
    if message_type.is_some() {
        return Err(unsupported(format!(
            "'Message-Content-Type' is only for a streaming request ('Content-Type' of {RECORDIO})"
        )));
    }
    Ok((codec, false))
}

/// Rows 7 to 9.
fn answer_form(headers: &HeaderMap) -> Result<(Codec, bool), Refusal> {
    let refused = |text: String| Refusal::new(StatusCode::NOT_ACCEPTABLE, text);
    let message_accept = headers.contains_key(MESSAGE_ACCEPT);
    let (codec, streaming) = if accepts(headers, &header::ACCEPT, JSON) {
        (Codec::Json, false)
    } else if accepts(headers, &header::ACCEPT, PROTOBUF) {
        (Codec::Protobuf, false)
    } else if accepts(headers, &header::ACCEPT, RECORDIO) {
        if accepts(headers, &MESSAGE_ACCEPT, JSON) {
            (Codec::Json, true)
        } else if accepts(headers, &MESSAGE_ACCEPT, PROTOBUF) {
            (Codec::Protobuf, true)
        } else {
            return Err(refused(format!(
                "Expecting 'Message-Accept' to allow {TWO}"
            )));
        }
    } else {
        return Err(refused(format!("Expecting 'Accept' to allow {THREE}")));
    };
    if message_accept && !streaming {
        return Err(refused(format!(
            "'Message-Accept' is only for a streaming response ('Accept' of {RECORDIO})"
        )));
    }
    Ok((codec, streaming))
}

/// The media type without its parameters.
fn essence(value: &str) -> &str {
    value.split(';').next().unwrap_or_default().trim()
}

/// Whether the header allows `wanted`: absent or `*/*` allows all, `q=0` takes an entry out (RFC 9110, 12.5.1).
fn accepts(headers: &HeaderMap, name: &HeaderName, wanted: &str) -> bool {
    let mut present = false;
    for value in headers.get_all(name) {
        present = true;
        let Ok(value) = value.to_str() else { continue };
        if value.split(',').any(|entry| entry_allows(entry, wanted)) {
            return true;
        }
    }
    !present
}

fn entry_allows(entry: &str, wanted: &str) -> bool {
    let mut parts = entry.split(';').map(str::trim);
    let range = parts.next().unwrap_or_default();
    let weightless = parts.any(|parameter| {
        parameter.split_once('=').is_some_and(|(key, value)| {
            key.trim().eq_ignore_ascii_case("q") && value.trim().parse::<f32>() == Ok(0.0)
        })
    });
    let matches = range == "*/*"
        || range.eq_ignore_ascii_case("application/*")
        || range.eq_ignore_ascii_case(wanted);
    matches && !weightless
}

#[cfg(test)]
mod tests;
