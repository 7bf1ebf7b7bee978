//! What is said to a request: pure, but for the snapshot that it asks for.

use bytes::Bytes;
use http::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderName, HeaderValue,
    REFERRER_POLICY, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use http::{Method, Response, StatusCode, request::Parts};

use crate::{Hosts, Snapshot, csi_health, metrics, not_ready, page};

/// The form of the metrics.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
const TEXT: &str = "text/plain; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";
/// Of an answer of events.
pub(crate) const EVENTS: &str = "text/event-stream";
/// The page's own files, and nothing of anybody else's; no frame, no form, no object.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
     base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
/// How soon a browser that is one listener too many asks again, in seconds.
const LATER: HeaderValue = HeaderValue::from_static("10");

/// An answer, or the wish for the stream of changes.
#[derive(Debug)]
pub(crate) enum Answer {
    Whole(Response<Bytes>),
    Events,
}

/// What is answered.
pub(crate) fn answer(parts: &Parts, hosts: &Hosts, snapshot: impl FnOnce() -> Snapshot) -> Answer {
    Answer::Whole(match judge(parts, hosts) {
        Err(refusal) => *refusal,
        Ok("/events") if parts.method == Method::GET => return Answer::Events,
        Ok(path) => whole(path, snapshot),
    })
}

/// The path that is wanted, or why nothing is answered.
fn judge<'a>(parts: &'a Parts, hosts: &Hosts) -> Result<&'a str, Box<Response<Bytes>>> {
    let mut named = parts.headers.get_all(HOST).iter();
    let host = match (named.next(), named.next()) {
        (Some(host), None) => host.to_str().unwrap_or_default(),
        _ => {
            return Err(Box::new(text(
                StatusCode::BAD_REQUEST,
                "one Host is wanted\n",
            )));
        }
    };
    // An absolute target goes before Host.
    let target = parts.uri.authority().map(http::uri::Authority::as_str);
    if !hosts.allows(host) || target.is_some_and(|target| !hosts.allows(target)) {
        return Err(Box::new(text(
            StatusCode::MISDIRECTED_REQUEST,
            "this Host is none of ours: ask by address, as localhost, or by a name of `http.hosts`\n",
        )));
    }
    if parts.method != Method::GET && parts.method != Method::HEAD {
        let mut refusal = text(StatusCode::METHOD_NOT_ALLOWED, "GET and HEAD alone\n");
        let allowed = HeaderValue::from_static("GET, HEAD");
        refusal.headers_mut().insert(ALLOW, allowed);
        return Err(Box::new(refusal));
    }
    Ok(parts.uri.path())
}

fn whole(path: &str, snapshot: impl FnOnce() -> Snapshot) -> Response<Bytes> {
    match path {
        "/" => typed(StatusCode::OK, HTML, page::render(&snapshot())),
        "/page.css" => typed(
            StatusCode::OK,
            "text/css; charset=utf-8",
            page::STYLE.to_owned(),
        ),
        "/page.js" => typed(
            StatusCode::OK,
            "text/javascript; charset=utf-8",
            page::SCRIPT.to_owned(),
        ),
        // A HEAD: what would come.
        "/events" => typed(StatusCode::OK, EVENTS, String::new()),
        "/metrics" => typed(StatusCode::OK, METRICS, metrics::render(&snapshot())),
        // Whoever is answered at all is told this.
        "/healthz" => text(StatusCode::OK, "ok\n"),
        "/readyz" => match not_ready(&snapshot()) {
            reasons if reasons.is_empty() => text(StatusCode::OK, "ok\n"),
            reasons => text(
                StatusCode::SERVICE_UNAVAILABLE,
                &format!("{}\n", reasons.join("\n")),
            ),
        },
        path => match path.strip_prefix("/healthz/csi/").and_then(decoded) {
            Some(name) => csi(&name, &snapshot()),
            None => text(StatusCode::NOT_FOUND, "nothing is here\n"),
        },
    }
}

/// As the liveness probe that stands beside CSI plugins answers: 200 or 500.
fn csi(name: &str, snapshot: &Snapshot) -> Response<Bytes> {
    match csi_health(snapshot, name) {
        Some(Ok(())) => text(StatusCode::OK, "ok\n"),
        Some(Err(reason)) => text(StatusCode::INTERNAL_SERVER_ERROR, &format!("{reason}\n")),
        None => text(StatusCode::NOT_FOUND, "no CSI plugin has this name\n"),
    }
}

/// A segment of a path without its `%XX`; `None` where it is none.
fn decoded(segment: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(segment.len());
    let mut rest = segment.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'/' => return None,
            b'%' => {
                let (high, low) = (rest.next()?, rest.next()?);
                let digit = |byte: u8| char::from(byte).to_digit(16);
                u8::try_from(digit(high)? * 16 + digit(low)?).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes)
        .ok()
        .filter(|name| !name.is_empty())
}

/// One listener too many.
pub(crate) fn too_many() -> Response<Bytes> {
    let mut refusal = text(
        StatusCode::SERVICE_UNAVAILABLE,
        "too many pages are open already\n",
    );
    refusal.headers_mut().insert(RETRY_AFTER, LATER);
    refusal
}

fn text(status: StatusCode, body: &str) -> Response<Bytes> {
    typed(status, TEXT, body.to_owned())
}

fn typed(status: StatusCode, kind: &'static str, body: String) -> Response<Bytes> {
    let mut answer = Response::new(Bytes::from(body));
    *answer.status_mut() = status;
    guard(&mut answer, kind);
    answer
}

/// The headers that every answer has.
pub(crate) fn guard<B>(answer: &mut Response<B>, kind: &'static str) {
    let headers = answer.headers_mut();
    let mut set = |name: HeaderName, value| headers.insert(name, HeaderValue::from_static(value));
    set(CONTENT_TYPE, kind);
    set(CONTENT_SECURITY_POLICY, POLICY);
    set(X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(X_FRAME_OPTIONS, "DENY");
    set(REFERRER_POLICY, "no-referrer");
    set(CACHE_CONTROL, "no-store");
    set(
        HeaderName::from_static("cross-origin-resource-policy"),
        "same-origin",
    );
    set(
        HeaderName::from_static("cross-origin-opener-policy"),
        "same-origin",
    );
}
