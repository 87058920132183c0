//! What every request passes before a door sees it, from the outside in: it gets an id, a span, a log line
//! and a count; CORS, so that refusals reach browsers too; then the checks (`guard`). All of it is one layer: axum
//! boxes and clones a service anew for each.

mod body;
mod guard;
mod room;
mod sites;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{MatchedPath, Request, State};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use http::header::{ALLOW, HeaderName, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{Method, StatusCode};
use tower::{Layer as _, Service as _, ServiceExt as _, service_fn};
use tower_http::cors::{AllowHeaders, AllowOrigin, CorsLayer};
use tracing::field::Empty;
use tracing::{Instrument as _, Span, info_span};
use uuid::Uuid;

use super::refusal::{Refusal, at_mcp};
use crate::telemetry::HTTP_REQUESTS;
pub use body::{BODY_DEADLINE, BodyRefused, read_body};
pub use room::Room;
pub use sites::Sites;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// How long a browser may keep a preflight's answer: the most any browser honours.
const PREFLIGHT_AGE: Duration = Duration::from_secs(7200);

/// Puts the front before a finished router. Unknown paths and methods become 404 and 405 refusals.
pub fn front(router: Router, sites: Sites) -> Router {
    behind(Front { cors: Some(cors(&sites)), sites: Some(sites) }, router)
}

/// The same for the ops listener, which scrapers call by address: any host may be named, and no page of
/// any origin may read what it answers.
pub fn ops_front(router: Router) -> Router {
    behind(Front { cors: None, sites: None }, router)
}

struct Front {
    cors: Option<CorsLayer>,
    /// Without sites, hosts and origins are not judged.
    sites: Option<Sites>,
}

fn behind(front: Front, router: Router) -> Router {
    router
        .fallback(unknown_path)
        .method_not_allowed_fallback(unknown_method)
        .layer(from_fn_with_state(Arc::new(front), pass))
}

async fn pass(State(front): State<Arc<Front>>, request: Request, next: Next) -> Response {
    let began = std::time::Instant::now();
    let id = request_id(&request);
    let method = known_method(request.method());
    // The template as written in the router: what was asked for may hold anything.
    let matched = request.extensions().get::<MatchedPath>().cloned();
    let route = matched.as_ref().map_or("unmatched", MatchedPath::as_str);
    let span = info_span!("request", id = id.to_str().unwrap_or_default(), method, route, status = Empty);

    let mut answer = front.answer(request, next).instrument(span.clone()).await;

    let status = answer.status();
    note(&span, status, began.elapsed());
    let labels = [("route", route.to_owned()), ("status", status.as_str().to_owned())];
    metrics::counter!(HTTP_REQUESTS, &labels).increment(1);
    answer.headers_mut().insert(REQUEST_ID, id);
    answer
}

impl Front {
    async fn answer(&self, request: Request, mut next: Next) -> Response {
        let mut guarded = service_fn(|request| guard::guard(self.sites.as_ref(), request, &mut next));
        let answered = match &self.cors {
            Some(cors) => cors.layer(guarded).oneshot(request).await,
            None => guarded.call(request).await,
        };
        answered.unwrap_or_else(|never: Infallible| match never {})
    }
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
fn request_id(request: &Request) -> HeaderValue {
    let is_sane = |id: &&HeaderValue| {
        let plain = id.as_bytes().iter().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte));
        let holds = |mark: &[u8]| id.as_bytes().windows(mark.len()).any(|part| part == mark);
        plain && (1..=36).contains(&id.len()) && !holds(b"wpa_") && !holds(b"wpo_")
    };
    let sent = request.headers().get(REQUEST_ID).filter(is_sane).cloned();
    sent.unwrap_or_else(|| {
        let mut digits = Uuid::encode_buffer();
        let made = Uuid::now_v7().simple().encode_lower(&mut digits);
        // Hexadecimal digits are always fit for a header.
        HeaderValue::from_str(made).unwrap_or(HeaderValue::from_static(""))
    })
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
