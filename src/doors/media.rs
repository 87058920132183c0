//! JSON over HTTP: how a request declares it, and an answer of it.

use axum::body::Body;
use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Response, StatusCode};

/// Whether the body is declared as `application/json`, with whatever parameters, and as nothing else beside it.
#[must_use]
pub fn is_json(headers: &HeaderMap) -> bool {
    let mut kinds = headers.get_all(CONTENT_TYPE).iter();
    let (Some(kind), None) = (kinds.next(), kinds.next()) else { return false };
    let essence = kind.to_str().unwrap_or_default().split(';').next().unwrap_or_default();
    essence.trim().eq_ignore_ascii_case("application/json")
}

/// How many headers an answer has, or more.
const ANSWERED: usize = 10;

/// An answer of `application/json`; `body` is JSON.
#[must_use]
pub fn json(status: StatusCode, body: Bytes) -> Response<Body> {
    let mut answer = Response::new(Body::from(body));
    *answer.status_mut() = status;
    // Room for what the doors and the front put beside it: a map that grows is built anew.
    answer.headers_mut().reserve(ANSWERED);
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}
