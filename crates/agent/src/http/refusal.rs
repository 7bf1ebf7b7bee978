//! What a request is refused with: a status and a text that says what to do.

use http::{HeaderValue, Method, StatusCode, header};

/// A refused request.
///
/// Errors are always `text/plain; charset=utf-8`, whatever the caller accepts, as a Mesos agent's are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) status: StatusCode,
    pub(crate) text: String,
    /// One more header: `Allow` of a 405, `WWW-Authenticate` of a 401, `Connection: close` of a 408.
    pub(crate) header: Option<(header::HeaderName, HeaderValue)>,
}

impl Refusal {
    pub(crate) fn new(status: StatusCode, text: impl Into<String>) -> Self {
        Self {
            status,
            text: text.into(),
            header: None,
        }
    }

    pub(crate) fn bad_request(text: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, text)
    }

    /// 400 for a call that was read but breaks a rule, in the frame Mesos puts around it.
    pub(crate) fn invalid_call(rule: impl std::fmt::Display) -> Self {
        Self::bad_request(format!("Failed to validate agent::Call: {rule}"))
    }

    pub(crate) fn not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, "404 Not Found.")
    }

    pub(crate) fn method_not_allowed(method: &Method) -> Self {
        Self {
            status: StatusCode::METHOD_NOT_ALLOWED,
            text: format!("405 Method Not Allowed. Expecting 'POST', but received '{method}'."),
            header: Some((header::ALLOW, HeaderValue::from_static("POST"))),
        }
    }

    pub(crate) fn unauthorized() -> Self {
        Self {
            status: StatusCode::UNAUTHORIZED,
            text: "401 Unauthorized.".into(),
            header: Some((
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"mesos-agent-readwrite\""),
            )),
        }
    }

    pub(crate) fn internal(text: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, text)
    }

    pub(crate) fn unavailable(text: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, text)
    }

    /// The request is answered, then the connection is closed: what follows on it cannot be trusted to be a request.
    pub(crate) fn closing(mut self) -> Self {
        self.header = Some((header::CONNECTION, HeaderValue::from_static("close")));
        self
    }
}
