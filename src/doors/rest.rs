//! REST: every tool at its own routes and at `POST /api/v1/tools/{name}`, and all of it again under `/o/{org}`.
//!
//! A request becomes arguments here; who calls, whether they fit and what happens is decided behind the
//! [`Reception`], the same for every door.

mod body;
mod path;
mod problem;
mod query;
mod stream;

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{MethodFilter, MethodRouter, any, on, post};
use axum::{Router, body::Body};
use http::header::CACHE_CONTROL;
use http::request::Parts;
use http::{HeaderValue, StatusCode};
use serde_json::{Map, Value};

use super::media;
use super::reception::{Entrance, Reception};
use super::toll::toll;
use crate::call::field_path::echo_name;
use crate::call::progress::Progress;
use crate::call::registry::Ran;
use crate::call::{Entry, Error, Method, Registry, Route};
use crate::gate::Tally;
use crate::nearest::nearest;
use path::Path;
use problem::Refused;

/// Where every tool that is reached everywhere is called by its name.
pub const BY_NAME: &str = "/api/v1/tools/{tool}";

/// The REST door: the registry's routes, answered by `reception`.
///
/// Answers are `application/json`, refusals `application/problem+json` (RFC 9457) with the members of the
/// toolset's dialect beside those of the standard. Nothing may be kept by caches.
pub fn router(reception: Arc<Reception>) -> Router {
    let mut router = Router::new();
    for entry in reception.registry.entries() {
        for route in entry.spec.routes {
            router = at_both(router, route.path, method_router(entry, *route));
        }
    }
    at_both(router, BY_NAME, post(by_name)).with_state(reception)
}

/// Adds a path, at the root and below `/o/{org}`.
fn at_both(
    router: Router<Arc<Reception>>,
    path: &str,
    methods: MethodRouter<Arc<Reception>>,
) -> Router<Arc<Reception>> {
    router.route(path, methods.clone()).route(&format!("/o/{{{}}}{path}", path::ORG), methods)
}

fn method_router(entry: &Arc<Entry>, route: Route) -> MethodRouter<Arc<Reception>> {
    let filter = match route.method {
        Method::Get => MethodFilter::GET,
        Method::Post => MethodFilter::POST,
        Method::Put => MethodFilter::PUT,
        Method::Delete => MethodFilter::DELETE,
    };
    let entry = entry.clone();
    let handler = async move |State(reception): State<Arc<Reception>>, request: Request| {
        toll(&reception, request, |request, tally| visit(reception.clone(), entry, route, tally, request))
            .await
    };
    if route.is_stream { any(handler) } else { on(filter, handler) }
}

async fn visit(
    reception: Arc<Reception>,
    entry: Arc<Entry>,
    route: Route,
    tally: Tally,
    request: Request,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let visit = match path::read(&mut parts).await {
        Ok(path) => Visit { reception, entry, route, path, tally },
        Err(refusal) => return Refused::from(refusal).answer(entry.dialect),
    };
    match route.is_stream {
        // Boxed: it is the larger one, and rare.
        true => Box::pin(visit.follow(&parts, body)).await,
        false => visit.answer(&parts, body).await,
    }
}

/// The same tools by name, whatever their own routes are. What is reached by its routes alone is not here.
async fn by_name(State(reception): State<Arc<Reception>>, request: Request) -> Response {
    toll(&reception, request, |request, tally| call_by_name(reception.clone(), tally, request)).await
}

async fn call_by_name(reception: Arc<Reception>, tally: Tally, request: Request) -> Response {
    let (mut parts, body) = request.into_parts();
    let mut path = match path::read(&mut parts).await {
        Ok(path) => path,
        Err(refusal) => return refusal.answer(false, None),
    };
    let name = path.take("tool").unwrap_or_default();
    match reception.registry.find(&name).filter(|entry| entry.is_listed()).cloned() {
        Some(entry) => {
            Visit { reception, entry, route: Route::post(BY_NAME), path, tally }.answer(&parts, body).await
        }
        None => problem::unknown_tool(nearest_tool(&reception.registry, &name)),
    }
}

fn nearest_tool<'a>(registry: &'a Registry, name: &str) -> Option<&'a str> {
    nearest(name, registry.listed().map(|entry| (entry.spec.name, entry.spec.name)))
}

/// One request at one tool's route.
struct Visit {
    reception: Arc<Reception>,
    entry: Arc<Entry>,
    route: Route,
    path: Path,
    tally: Tally,
}

impl Visit {
    async fn answer(&self, parts: &Parts, body: Body) -> Response {
        match self.call(parts, body).await {
            Ok(ran) => success(self.route, ran),
            Err(refused) => refused.answer(self.entry.dialect),
        }
    }

    /// The headers are judged before the body is read, and a key among the arguments after.
    async fn call(&self, parts: &Parts, body: Body) -> Result<Ran, Refused> {
        let entrance = Entrance { org: self.path.org.as_deref(), tally: &self.tally };
        let visitor = self.reception.greet(&parts.headers, entrance).await?;
        let arguments = self.arguments(parts, body).await?;
        Ok(self.reception.call(visitor, entrance, &self.entry, arguments, Progress::Unseen).await?)
    }

    async fn arguments(&self, parts: &Parts, body: Body) -> Result<Map<String, Value>, Refused> {
        let query = parts.uri.query().unwrap_or_default();
        let given = match self.route.method {
            Method::Get => {
                body::refuse(body).await?;
                query::arguments(query)?
            }
            Method::Delete => {
                body::refuse(body).await?;
                query::refuse(query)?;
                Map::new()
            }
            Method::Post | Method::Put => {
                query::refuse(query)?;
                body::arguments(&parts.headers, body, self.entry.body_limit).await?
            }
        };
        let path = self.path.arguments.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        Ok(merge(given, path.chain(self.route.fixed.iter().copied()))?)
    }
}

/// Puts what the address says beside what was given; nobody may say it a second time.
fn merge<'a>(
    mut given: Map<String, Value>,
    address: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<Map<String, Value>, Error> {
    for (name, value) in address {
        match given.get(name) {
            None | Some(Value::Null) => _ = given.insert(name.to_owned(), value.into()),
            Some(_) => return Err(unknown_field(name)),
        }
    }
    Ok(given)
}

/// A name that has no place where it was sent.
fn unknown_field(name: &str) -> Error {
    Error::UnknownField { field: shown(name), suggestion: None }
}

/// A field's name as it may be shown to the caller.
fn shown(name: &str) -> String {
    echo_name(name).unwrap_or_else(|| "…".to_owned())
}

/// 201 says that something was made: an answer given again is 200.
fn success(route: Route, ran: Ran) -> Response {
    let made = StatusCode::from_u16(route.success).unwrap_or(StatusCode::OK);
    let status = if ran.replayed { StatusCode::OK } else { made };
    let mut answer = match status {
        StatusCode::NO_CONTENT => Response::new(Body::empty()),
        _ => media::json(status, ran.answer.into()),
    };
    *answer.status_mut() = status;
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

#[cfg(test)]
mod tests;
