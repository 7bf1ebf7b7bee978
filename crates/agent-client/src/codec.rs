//! Messages to bytes and back, in the form that was asked for or that the agent chose.

use bytes::Bytes;
use http::HeaderValue;
use longshore_mesos_api::v1::ContainerId;
use longshore_mesos_api::v1::agent::Response;
use longshore_mesos_api::v1::agent::response::get_containers::Container;
use longshore_mesos_api::{ApiMessage, DecodeLimits, decode, json};

use crate::{AnswerError, Codec};

const PROTOBUF: &str = "application/x-protobuf";
const JSON: &str = "application/json";

impl Codec {
    pub(crate) fn media_type(self) -> HeaderValue {
        HeaderValue::from_static(match self {
            Self::Protobuf => PROTOBUF,
            Self::Json => JSON,
        })
    }

    pub(crate) fn encode<M: ApiMessage>(self, call: &M) -> Result<Bytes, json::JsonError> {
        match self {
            Self::Protobuf => Ok(call.encode_to_vec().into()),
            Self::Json => json::to_vec(call).map(Bytes::from),
        }
    }
}

/// Reads an answer by its content type. An empty one without content type is how an agent says
/// "done" (200 and 202 of LAUNCH, KILL and REMOVE).
pub(crate) fn decode_answer(
    asked: Codec,
    content_type: Option<&str>,
    body: &[u8],
    limits: &DecodeLimits,
) -> Result<Response, AnswerError> {
    if content_type.is_none() && body.is_empty() {
        return Ok(Response::default());
    }
    match form_of(asked, content_type)? {
        Codec::Protobuf => Ok(decode(body, limits)?),
        Codec::Json => Ok(json::from_slice(body, limits)?),
    }
}

/// The form that a content type names; without one it is the form that was asked for.
pub(crate) fn form_of(asked: Codec, content_type: Option<&str>) -> Result<Codec, AnswerError> {
    let media_type = content_type.map(|value| value.split(';').next().unwrap_or(value).trim());
    match media_type {
        None => Ok(asked),
        Some(value) if value.eq_ignore_ascii_case(PROTOBUF) => Ok(Codec::Protobuf),
        Some(value) if value.eq_ignore_ascii_case(JSON) => Ok(Codec::Json),
        Some(other) => Err(AnswerError::ContentType(
            other
                .chars()
                .filter(|c| !c.is_control())
                .take(100)
                .collect(),
        )),
    }
}

/// Gives an entry of GET_CONTAINERS the whole id: Mesos leaves the parent of a nested one out of
/// `container_id` and has it in `container_status` only.
pub(crate) fn restore_parent(container: &mut Container) {
    let whole = container
        .container_status
        .as_ref()
        .and_then(|status| status.container_id.as_ref());
    if let Some(whole) = whole
        && container.container_id.parent.is_none()
        && whole.value == container.container_id.value
    {
        container.container_id.parent.clone_from(&whole.parent);
    }
}

/// An id as `root.child`, for messages.
pub(crate) fn show_id(id: &ContainerId) -> String {
    let mut parts = vec![id.value.as_str()];
    let mut next = id.parent.as_deref();
    while let Some(parent) = next {
        parts.push(&parent.value);
        next = parent.parent.as_deref();
    }
    parts.reverse();
    parts.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;
    use longshore_mesos_api::v1::agent::response;
    use prost::Message as _;

    fn read(content_type: Option<&str>, body: &[u8]) -> Result<Response, AnswerError> {
        decode_answer(
            Codec::Protobuf,
            content_type,
            body,
            &DecodeLimits::default(),
        )
    }

    fn health() -> Response {
        Response {
            r#type: Some(response::Type::GetHealth.into()),
            get_health: Some(response::GetHealth { healthy: true }),
            ..Response::default()
        }
    }

    fn id(value: &str, parent: Option<ContainerId>) -> ContainerId {
        ContainerId {
            value: value.into(),
            parent: parent.map(Box::new),
        }
    }

    #[test]
    fn the_answer_is_read_by_its_own_content_type() {
        let json = br#"{"type":"GET_HEALTH","get_health":{"healthy":true}}"#;
        for (content_type, body) in [
            (Some("application/x-protobuf"), health().encode_to_vec()),
            (None, health().encode_to_vec()),
            (Some("application/json"), json.to_vec()),
            (Some("Application/JSON; charset=utf-8"), json.to_vec()),
        ] {
            assert_eq!(
                read(content_type, &body).unwrap(),
                health(),
                "{content_type:?}"
            );
        }
        assert_eq!(read(None, b"").unwrap(), Response::default());
    }

    #[test]
    fn an_answer_in_another_form_is_refused() {
        let error = read(Some("text/html"), b"<html>").unwrap_err();
        assert_eq!(error.to_string(), "unexpected content type `text/html`");
        assert!(matches!(
            read(Some(JSON), b"\x08\x01"),
            Err(AnswerError::Json(_))
        ));
        assert!(matches!(read(None, b"{}"), Err(AnswerError::Protobuf(_))));
    }

    #[test]
    fn a_nested_entry_gets_its_parent_from_the_status() {
        let nested = id("n4", Some(id("c1", None)));
        let mut container = Container {
            container_id: id("n4", None),
            container_status: Some(longshore_mesos_api::v1::ContainerStatus {
                container_id: Some(nested.clone()),
                ..Default::default()
            }),
            ..Container::default()
        };
        restore_parent(&mut container);
        assert_eq!(container.container_id, nested);
        assert_eq!(show_id(&container.container_id), "c1.n4");

        let mut without = Container {
            container_id: id("n4", None),
            ..Container::default()
        };
        restore_parent(&mut without);
        assert_eq!(without.container_id, id("n4", None));
    }
}
