//! What every request passes before a door sees it, from the outside in: it gets an id, a span, a log line
//! and a count ([`record`]); CORS, so that refusals reach browsers too; then the checks ([`guard`]).

mod body;
mod guard;
mod sites;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{MatchedPath, Request};
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use http::header::{HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Method, StatusCode};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};
use tracing::field::Empty;
use tracing::{Instrument, Span, info_span};
use uuid::Uuid;

use super::refusal::{Refusal, at_mcp};
use crate::telemetry::HTTP_REQUESTS;
pub use body::{BODY_DEADLINE, BodyRefused, read_body};
pub use sites::Sites;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// How long a browser may keep a preflight's answer: the most any browser honours.
const PREFLIGHT_AGE: Duration = Duration::from_secs(7200);

/// The request's id, an extension of every request: as sent when that is sane, else made here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequestId(pub Arc<str>);

/// Puts the front before a finished router. Unknown paths and methods become 404 and 405 refusals.
pub fn front(router: Router, sites: Sites) -> Router {
    let cors = cors(&sites);
    router
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .layer(from_fn_with_state(Arc::new(sites), guard::guard))
        .layer(cors)
        .layer(from_fn(record))
}

async fn record(mut request: Request, next: Next) -> Response {
    let began = std::time::Instant::now();
    let id = request_id(&request);
    let method = request.method().clone();
    // The template as written in the router: what was asked for may hold anything.
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map_or("unmatched", MatchedPath::as_str).to_owned();
    let span = info_span!("request", id = &*id, %method, route, status = Empty);
    request.extensions_mut().insert(RequestId(id.clone()));

    let mut answer = next.run(request).instrument(span.clone()).await;

    let status = answer.status();
    note(&span, status, began.elapsed());
    metrics::counter!(HTTP_REQUESTS, "route" => route, "status" => status.as_str().to_owned()).increment(1);
    if let Ok(value) = HeaderValue::from_str(&id) {
        answer.headers_mut().insert(REQUEST_ID, value);
    }
    answer
}

fn note(span: &Span, status: StatusCode, took: Duration) {
    span.record("status", status.as_u16());
    let _inside = span.enter();
    tracing::debug!(milliseconds = took.as_secs_f64() * 1000.0, "answered");
}

/// Letters, digits and `._-` up to 128; never what looks like a key or a token, since it is logged.
fn request_id(request: &Request) -> Arc<str> {
    let sane = |id: &&str| {
        let plain = id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
        plain
            && (1..=128).contains(&id.len())
            && !["wpa_", "wpo_", "eyJ"].iter().any(|mark| id.contains(mark))
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
