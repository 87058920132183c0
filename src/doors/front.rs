//! What every request passes before a door sees it, from the outside in: it gets an id, a span, a log line
//! and a count (`record`); CORS, so that refusals reach browsers too; then the checks (`guard`).

mod body;
mod guard;
mod room;
mod sites;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{MatchedPath, Request};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use http::header::{ALLOW, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Method, StatusCode};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};
use tracing::field::Empty;
use tracing::{Instrument, Span, info_span};
use uuid::Uuid;

use super::refusal::{Refusal, at_mcp};
use crate::telemetry::HTTP_REQUESTS;
pub use body::{BODY_DEADLINE, BodyRefused, read_body};
pub use room::{Room, weigh};
pub use sites::Sites;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// How long a browser may keep a preflight's answer: the most any browser honours.
const PREFLIGHT_AGE: Duration = Duration::from_secs(7200);

/// Puts the front before a finished router. Unknown paths and methods become 404 and 405 refusals.
pub fn front(router: Router, sites: Sites) -> Router {
    let cors = cors(&sites);
    guarded(router, Some(sites)).layer(cors).layer(from_fn(record))
}

/// The same for the ops listener, which scrapers call by address: any host may be named, and no page of
/// any origin may read what it answers.
pub fn ops_front(router: Router) -> Router {
    guarded(router, None).layer(from_fn(record))
}

fn guarded(router: Router, sites: Option<Sites>) -> Router {
    router
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .layer(from_fn_with_state(sites.map(Arc::new), guard::guard))
}

async fn record(request: Request, next: Next) -> Response {
    let began = std::time::Instant::now();
    let id = request_id(&request);
    let method = known_method(request.method());
    // The template as written in the router: what was asked for may hold anything.
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map_or("unmatched", MatchedPath::as_str).to_owned();
    let span = info_span!("request", id = &*id, method, route, status = Empty);

    let mut answer = next.run(request).instrument(span.clone()).await;

    let status = answer.status();
    note(&span, status, began.elapsed());
    metrics::counter!(HTTP_REQUESTS, "route" => route, "status" => status.as_str().to_owned()).increment(1);
    if let Ok(value) = HeaderValue::from_str(&id) {
        answer.headers_mut().insert(REQUEST_ID, value);
    }
    answer
}

/// A method may be any word a client likes: only known ones are logged.
fn known_method(method: &Method) -> &'static str {
    const KNOWN: [&str; 9] = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "HEAD", "TRACE", "CONNECT"];
    KNOWN.into_iter().find(|known| *known == method.as_str()).unwrap_or("OTHER")
}

fn note(span: &Span, status: StatusCode, took: Duration) {
    span.record("status", status.as_u16());
    let _inside = span.enter();
    tracing::debug!(milliseconds = took.as_secs_f64() * 1000.0, "answered");
}

/// The client's, as long as a UUID at most: it is logged, and in so few characters no key and no token fits, however
/// it is encoded. Anything else is replaced, and so is the beginning of a key.
fn request_id(request: &Request) -> Arc<str> {
    let sane = |id: &&str| {
        let plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        plain && (1..=36).contains(&id.len()) && !["wpa_", "wpo_"].iter().any(|mark| id.contains(mark))
    };
    let sent = request.headers().get(REQUEST_ID).and_then(|value| value.to_str().ok()).filter(sane);
    sent.map_or_else(|| Uuid::now_v7().simple().to_string().into(), Into::into)
}

/// Credentials are explicit headers here, so no origin is ever given leave to send cookies.
fn cors(sites: &Sites) -> CorsLayer {
    let origin = match sites.origins() {
        None => AllowOrigin::any(),
        Some(origins) => {
            AllowOrigin::list(origins.iter().filter_map(|origin| HeaderValue::from_str(origin).ok()))
        }
    };
    CorsLayer::new()
        .allow_origin(origin)
        .allow_methods([
            Method::GET,
            Method::POST,
            Method::PUT,
            Method::PATCH,
            Method::DELETE,
            Method::OPTIONS,
        ])
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers([
            ALLOW,
            WWW_AUTHENTICATE,
            HeaderName::from_static("mcp-session-id"),
            HeaderName::from_static("mcp-protocol-version"),
            RETRY_AFTER,
            HeaderName::from_static("ratelimit"),
            HeaderName::from_static("ratelimit-policy"),
            REQUEST_ID,
        ])
        .max_age(PREFLIGHT_AGE)
}

async fn unknown_path(request: Request) -> Response {
    let refusal = Refusal::new(StatusCode::NOT_FOUND, "not_found", "There is nothing at this path.");
    refusal.answer(at_mcp(request.uri().path()), None)
}

async fn unknown_method(request: Request) -> Response {
    let message = "This path does not take this method; the Allow header names those it takes.";
    let refusal = Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "method_not_allowed", message);
    refusal.answer(at_mcp(request.uri().path()), None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_method_made_up_by_a_client_is_not_logged() {
        assert_eq!(known_method(&Method::DELETE), "DELETE");
        assert_eq!(known_method(&Method::from_bytes(b"wpa_a-key").unwrap()), "OTHER");
    }
}
