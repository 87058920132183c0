//! What orchestrators and scrapers ask: is the process alive, may it get work, what has it counted.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use futures::future::BoxFuture;
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};

use crate::telemetry::Metrics;

/// For all checks together. Each has its own, shorter one.
const CHECKS_LIMIT: Duration = Duration::from_secs(2);

/// One thing `/readyz` looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Check {
    /// One word: `schema`, `pool`, `draining`.
    pub name: &'static str,
    /// What is wrong, in words that tell an anonymous reader nothing private; `None` = all is well.
    pub fault: Option<&'static str>,
}

/// Makes the checks, anew for every question.
pub type Checks = Arc<dyn Fn() -> BoxFuture<'static, Vec<Check>> + Send + Sync>;

/// `/livez` and `/readyz`, for either listener.
pub fn probes(checks: Checks) -> Router {
    Router::new().route("/livez", get(livez)).route("/readyz", get(readyz)).with_state(checks)
}

/// The ops listener: the probes and `/metrics`.
pub fn ops(checks: Checks, metrics: Metrics) -> Router {
    let scrape = Router::new().route("/metrics", get(render)).with_state(metrics);
    probes(checks).merge(scrape)
}

/// 200 as long as the process can answer at all. Never touches the database: a restart would not mend that.
async fn livez() -> Response {
    text(StatusCode::OK, "alive\n".to_owned())
}

/// 200 when every check is well, else 503. `?verbose` prints a line for each check.
async fn readyz(State(checks): State<Checks>, RawQuery(query): RawQuery) -> Response {
    let late = Check { name: "checks", fault: Some("took too long") };
    let made = tokio::time::timeout(CHECKS_LIMIT, checks()).await.unwrap_or_else(|_| vec![late]);
    let ready = made.iter().all(|check| check.fault.is_none());
    let status = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut body = String::new();
    if query.is_some_and(|query| query.split('&').any(|pair| pair.split('=').next() == Some("verbose"))) {
        for Check { name, fault } in made {
            let mark = if fault.is_none() { '+' } else { '-' };
            body.push_str(&format!("[{mark}] {name}: {}\n", fault.unwrap_or("ok")));
        }
    }
    body.push_str(if ready { "ready\n" } else { "not ready\n" });
    text(status, body)
}

async fn render(State(metrics): State<Metrics>) -> Response {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], metrics.render()).into_response()
}

fn text(status: StatusCode, body: String) -> Response {
    (status, [(CONTENT_TYPE, "text/plain; charset=utf-8"), (CACHE_CONTROL, "no-store")], body).into_response()
}
