//! The checks of a request's head, and the answer when a handler panics.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use futures::FutureExt;
use http::header::{CONTENT_ENCODING, HOST, HeaderMap, ORIGIN, TRANSFER_ENCODING};
use http::{HeaderName, StatusCode, Version};
use tower::Service as _;

use super::Sites;
use crate::call::Error;
use crate::doors::accept::AmbiguousLength;
use crate::doors::refusal::{Refusal, at_mcp};

/// Answers with what `next` does, or with what is wrong. Without sites, hosts and origins are not judged.
pub(super) fn guard(
    sites: Option<&Sites>,
    request: Request,
    next: &mut Next,
) -> impl Future<Output = Result<Response, Infallible>> + use<> {
    let at_mcp = at_mcp(request.uri().path());
    let checked = check(sites, &request).map(|()| next.call(request));
    async move {
        let answering = match checked {
            Ok(answering) => answering,
            Err(refusal) => {
                tracing::debug!(code = refusal.code, "refused at the front");
                return Ok(refusal.answer(at_mcp, None));
            }
        };
        // The panic's text stays out of the answer; the panic hook has told standard error.
        AssertUnwindSafe(answering).catch_unwind().await.unwrap_or_else(|_| {
            tracing::error!("a handler panicked");
            let died = Error::internal("a handler panicked");
            Ok(Refusal::from(&died).answer(at_mcp, None))
        })
    }
}

fn check(sites: Option<&Sites>, request: &Request) -> Result<(), Refusal> {
    // Orchestrators call the probes by address, some with HTTP/1.0 and no Host.
    let probe = matches!(request.uri().path(), "/livez" | "/readyz");
    framing(request, probe)?;
    if let (Some(sites), false) = (sites, probe) {
        host(sites, request)?;
        origin(sites, request)?;
    }
    encoding(request.headers())
}

/// What hyper lets pass although two readers may understand it differently.
fn framing(request: &Request, probe: bool) -> Result<(), Refusal> {
    let bad = |message| Err(Refusal::new(StatusCode::BAD_REQUEST, "bad_request", message));
    let headers = request.headers();
    if request.extensions().get::<AmbiguousLength>().is_some() {
        return bad(
            "Send either Content-Length or Transfer-Encoding, not both, and send chunks only after the last answer.",
        );
    }
    let coded = headers.get_all(TRANSFER_ENCODING).iter().count();
    if coded > 0
        && only(headers, &TRANSFER_ENCODING).is_none_or(|value| !value.eq_ignore_ascii_case("chunked"))
    {
        return bad("The only Transfer-Encoding understood here is chunked.");
    }
    let hosts = headers.get_all(HOST).iter().count();
    if hosts > 1 || (hosts == 0 && !(probe && request.version() == Version::HTTP_10)) {
        return bad("Send exactly one Host header.");
    }
    let authority = request.uri().authority();
    let host = only(headers, &HOST).unwrap_or_default();
    if authority.is_some_and(|authority| !authority.as_str().eq_ignore_ascii_case(host)) {
        return bad("The Host header must name the host of the request's URL.");
    }
    Ok(())
}

fn host(sites: &Sites, request: &Request) -> Result<(), Refusal> {
    if only(request.headers(), &HOST).is_some_and(|host| sites.allow_host(host)) {
        return Ok(());
    }
    let message = "This host is not allowed here. The operator allows hosts with WAYPOST_ALLOWED_HOSTS.";
    Err(Refusal::new(StatusCode::FORBIDDEN, "host_refused", message))
}

fn origin(sites: &Sites, request: &Request) -> Result<(), Refusal> {
    let headers = request.headers();
    let absent = !headers.contains_key(ORIGIN);
    if absent || only(headers, &ORIGIN).is_some_and(|origin| sites.allow_origin(origin)) {
        return Ok(());
    }
    let message =
        "This origin is not allowed here. The operator allows origins with WAYPOST_ALLOWED_ORIGINS.";
    Err(Refusal::new(StatusCode::FORBIDDEN, "origin_refused", message))
}

fn encoding(headers: &HeaderMap) -> Result<(), Refusal> {
    let identity = |value: &http::HeaderValue| value.as_bytes().eq_ignore_ascii_case(b"identity");
    if headers.get_all(CONTENT_ENCODING).iter().all(identity) {
        return Ok(());
    }
    let message = "Send the body as it is, without a Content-Encoding.";
    Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported_media", message))
}

/// The value of a header that is there once, as text.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    if values.next().is_some() { None } else { value.to_str().ok() }
}
