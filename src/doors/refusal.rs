//! Refusals of the HTTP layer: what is answered before any tool is reached.
//!
//! One refusal, two spellings: `application/problem+json` (RFC 9457), and at the MCP endpoint a JSON-RPC
//! error whose code is the HTTP status.

use axum::body::Body;
use http::header::{CACHE_CONTROL, CONNECTION, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Response, StatusCode};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::call::Error;
use crate::error::Retry;

/// Why a request is refused, and whether asking again can help.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status, and the JSON-RPC error code at the MCP endpoint.
    pub status: StatusCode,
    /// Our word for it, lower_snake.
    pub code: &'static str,
    /// What is wrong and what to do next; holds nothing of what was sent.
    pub message: String,
    /// Whether the same request may succeed later.
    pub retryable: bool,
    /// Seconds to wait first: `Retry-After` and `details.retry_after`.
    pub retry_after: Option<u64>,
    /// More for programs, by `code`; empty for most.
    pub details: Box<Map<String, Value>>,
}

impl Refusal {
    /// A refusal that stands however often the same is asked.
    pub fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            status,
            code,
            message: message.into(),
            retryable: false,
            retry_after: None,
            details: Box::default(),
        }
    }

    /// A refusal that may be gone after `seconds`.
    pub fn retry_after(
        status: StatusCode,
        code: &'static str,
        message: impl Into<String>,
        seconds: u64,
    ) -> Self {
        Self { retryable: true, retry_after: Some(seconds), ..Self::new(status, code, message) }
    }

    /// The answer. `id` is the JSON-RPC request's id, verbatim, when it could be read; only `at_mcp` uses it.
    #[must_use]
    pub fn answer(&self, at_mcp: bool, id: Option<&RawValue>) -> Response<Body> {
        let (kind, body) = match at_mcp {
            true => ("application/json", json_rpc_error(id, &self.error())),
            false => (PROBLEM, self.problem().to_string()),
        };
        respond(self.status, kind, body, self.retry_after)
    }

    /// The body away from the MCP endpoint.
    pub(super) fn problem(&self) -> Value {
        let mut problem = standard(self.status, &self.message);
        problem.insert("code".into(), self.code.into());
        problem.insert("message".into(), self.message.as_str().into());
        problem.insert("retryable".into(), self.retryable.into());
        self.with_details(problem.into())
    }

    /// The JSON-RPC error.
    fn error(&self) -> Value {
        let data = self.with_details(json!({"code": self.code, "retryable": self.retryable}));
        json!({"code": self.status.as_u16(), "message": self.message, "data": data})
    }

    fn with_details(&self, mut body: Value) -> Value {
        let mut details = (*self.details).clone();
        if let Some(seconds) = self.retry_after {
            details.insert("retry_after".to_owned(), seconds.into());
        }
        if let (false, Value::Object(members)) = (details.is_empty(), &mut body) {
            members.insert("details".to_owned(), details.into());
        }
        body
    }
}

/// What a call would be refused with, said before any tool is reached. The toolsets' own words are not used.
impl From<&Error> for Refusal {
    fn from(error: &Error) -> Self {
        let (code, status, retry) = error.verdict();
        // Every verdict is a status; were one not, it would be a fault of ours.
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let refusal = match retry {
            Retry::Never => Self::new(status, code, error.to_string()),
            Retry::After(seconds) => Self::retry_after(status, code, error.to_string(), seconds),
        };
        Self { details: Box::new(error.details()), ..refusal }
    }
}

/// An `application/problem+json` answer: the members of RFC 9457, and after them `more`, for programs.
pub(super) fn problem(
    status: StatusCode,
    detail: &str,
    more: Map<String, Value>,
    retry_after: Option<u64>,
) -> Response<Body> {
    let mut problem = standard(status, detail);
    problem.extend(more);
    respond(status, PROBLEM, Value::Object(problem).to_string(), retry_after)
}

const PROBLEM: &str = "application/problem+json";

/// The members of RFC 9457. `about:blank` says that the title is the status's own.
fn standard(status: StatusCode, detail: &str) -> Map<String, Value> {
    let mut members = Map::new();
    members.insert("type".into(), "about:blank".into());
    members.insert("title".into(), status.canonical_reason().unwrap_or("Refused").into());
    members.insert("status".into(), status.as_u16().into());
    members.insert("detail".into(), detail.into());
    members
}

/// What every refusal says in headers: it is not to be kept, 401 names the scheme, what is worth a retry says
/// when, and 408 closes the connection, since a body may still be under way.
fn respond(status: StatusCode, kind: &'static str, body: String, retry_after: Option<u64>) -> Response<Body> {
    let mut answer = Response::new(Body::from(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(seconds) = retry_after {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    if status == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"waypost\""));
    }
    if status == StatusCode::REQUEST_TIMEOUT {
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    answer
}

/// A JSON-RPC response with an error. The id goes out byte for byte as it came in, or is null.
pub(super) fn json_rpc_error(id: Option<&RawValue>, error: &Value) -> String {
    let id = id.map_or("null", RawValue::get);
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
}

/// Whether refusals at `path` are JSON-RPC errors.
#[must_use]
pub fn at_mcp(path: &str) -> bool {
    path.ends_with("/mcp")
}
